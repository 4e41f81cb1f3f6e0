"""Move records until SIGTERM, with the client library that `ORDERS_CLIENT` names."""

import asyncio
import os
import signal

from orders.work import DELAY_S, enrich

SOURCE, TARGET, GROUP = "orders", "orders-enriched", "orders-service"
SERVERS = os.environ["KAFKA_BOOTSTRAP_SERVERS"]


async def with_aiokafka() -> None:
    """Use aiokafka."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    consumer = AIOKafkaConsumer(SOURCE, bootstrap_servers=SERVERS, group_id=GROUP, auto_offset_reset="earliest")
    producer = AIOKafkaProducer(bootstrap_servers=SERVERS)
    await consumer.start()
    await producer.start()

    async def move(record):
        value = enrich(record.value)
        if DELAY_S:
            await asyncio.sleep(DELAY_S)
        await producer.send(TARGET, value, key=record.key, headers=list(record.headers))

    async with asyncio.TaskGroup() as tasks:
        async for record in consumer:
            tasks.create_task(move(record))


def with_librdkafka() -> None:
    """Use confluent-kafka."""
    from confluent_kafka import Consumer, Producer

    consumer = Consumer({"bootstrap.servers": SERVERS, "group.id": GROUP, "auto.offset.reset": "earliest"})
    producer = Producer({"bootstrap.servers": SERVERS, "linger.ms": 0})
    consumer.subscribe([SOURCE])
    while True:
        record = consumer.poll(1.0)
        producer.poll(0)
        if record is not None and record.error() is None:
            producer.produce(TARGET, enrich(record.value()), key=record.key(), headers=record.headers())


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if os.environ.get("ORDERS_CLIENT") == "confluent-kafka":
        with_librdkafka()
    else:
        asyncio.run(with_aiokafka())
