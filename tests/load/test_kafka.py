"""The seam to aiokafka: fails loudly when a release moves what is taken from its inside."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import aiokafka
import pytest
import uvloop
from aiokafka import conn
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator, MessageBatch
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.load.kafka import BatchedRecords, Connection, make_consumer, make_producer, submit
from pytest_kafkaperf.scenario import Scenario

PARTITION = TopicPartition("topic", 0)


def test_batches_are_queued_by_a_plain_function() -> None:
    """`submit` relies on queueing without awaiting, and on the batch's future."""
    assert list(inspect.signature(MessageAccumulator._append_batch).parameters) == ["self", "builder", "tp"]
    assert not inspect.iscoroutinefunction(MessageAccumulator._append_batch)
    assert not inspect.iscoroutinefunction(aiokafka.AIOKafkaProducer.create_batch)
    assert "self.future = create_future()" in inspect.getsource(MessageBatch.__init__)


def test_the_public_way_queues_as_submit_does() -> None:
    """What `add_batch` checks before it queues is what `submit` has to check."""
    source = inspect.getsource(MessageAccumulator.add_batch)

    assert "if self._exception is not None:" in source
    assert "batch = self._append_batch(builder, tp)" in source


def test_fetched_data_is_unpacked_by_a_method_of_partition_records() -> None:
    """`BatchedRecords` replaces it, and keeps what the fetcher reads of it."""
    assert list(inspect.signature(fetcher.PartitionRecords._unpack_records).parameters) == ["self"]
    source = inspect.getsource(fetcher.PartitionRecords.__init__)
    for name in ("_tp", "_records", "next_fetch_offset"):
        assert f"self.{name} = " in source
    assert "self._records_iterator = self._unpack_records()" in source
    assert issubclass(BatchedRecords, fetcher.PartitionRecords)
    # Fetchers look the class up in its module each time: that is where `adapt` puts ours.
    assert "PartitionRecords(" in inspect.getsource(fetcher.Fetcher._proc_fetch_request)


def test_clients_make_connections_of_the_class_that_we_replace() -> None:
    """`Connection` stands in for it, and overrides one method."""
    assert list(inspect.signature(conn.AIOKafkaConnection.send).parameters) == ["self", "request", "expect_response"]
    assert "conn = AIOKafkaConnection(" in inspect.getsource(conn.create_conn)
    assert "return self._writer.drain()" in inspect.getsource(conn.AIOKafkaConnection.send)


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_write_to_a_broken_connection_is_a_kafka_error(loop_factory: Any) -> None:
    """Any other would end the client for good, where it should connect again."""

    async def send(*, expect_response: bool) -> str:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        connection = Connection(*address, security_protocol="PLAINTEXT", ssl_context=None)
        connection._reader, connection._writer = await asyncio.open_connection(*address)
        connection._read_task = asyncio.ensure_future(asyncio.sleep(0))
        connection._versions = {3: (0, 12)}
        connection._writer.transport.abort()
        await asyncio.sleep(0.01)
        server.close()
        with pytest.raises(KafkaConnectionError, match=r"^KafkaConnectionError: Connection at 127.0.0.1:\d+ "):
            await connection.send(MetadataRequest([]), expect_response=expect_response)
        return "told"

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(send(expect_response=False)) == "told"
        if loop_factory is uvloop.new_event_loop:  # asyncio takes no notice: there the reader finds out
            assert runner.run(send(expect_response=True)) == "told"


def test_clients_know_the_cluster() -> None:
    """Readiness and metadata come from there."""
    assert "self.cluster = " in inspect.getsource(AIOKafkaClient.__init__)


@pytest.fixture
def producer() -> Any:
    """Makes producers that are not connected."""
    return lambda **fields: make_producer(Scenario.of(fields), "127.0.0.1:9", {})


def test_a_batch_is_queued_closed_and_its_future_is_the_batchs(producer: Any) -> None:
    """Nobody may add to it, and its end is told."""

    async def queue() -> tuple[bool, int, Any]:
        client = producer()
        builder = client.create_batch()
        builder.append(timestamp=0, key=None, value=b"v")
        future = submit(client, builder, PARTITION)
        (batch,) = client._message_accumulator._batches[PARTITION]
        batch.done(7)
        await client.stop()
        return builder.closed(), batch.record_count, (await future).offset

    assert asyncio.run(queue()) == (True, 1, 7)


def test_a_producer_that_has_failed_takes_no_more(producer: Any) -> None:
    """Its batches would never leave."""

    async def queue() -> None:
        client = producer()
        client._message_accumulator.fail_all(KafkaError("gone"))
        try:
            submit(client, client.create_batch(), PARTITION)
        finally:
            await client.stop()

    with pytest.raises(KafkaError, match="gone"):
        asyncio.run(queue())


def test_the_scenario_reaches_the_clients(producer: Any) -> None:
    """Acks, compression and batch size are the scenario's, and a consumer starts at the end without committing."""

    async def make() -> tuple[Any, ...]:
        client = producer(acks="all", compression="zstd", batch_size="1 MiB", record_size="2 MiB")
        consumer = make_consumer("topic", "group", "127.0.0.1:9", {})
        builder = client.create_batch()
        made = (client._sender._acks, client._compression_type, type(builder), consumer._auto_offset_reset)
        limit = client._max_request_size
        await client.stop()
        await consumer.stop()
        return *made, consumer._enable_auto_commit, limit

    acks, compression, builder, reset, commits, limit = asyncio.run(make())
    assert (acks, compression, builder, reset, commits) == (-1, "zstd", BatchBuilder, "latest", False)
    assert limit > 2 << 20
