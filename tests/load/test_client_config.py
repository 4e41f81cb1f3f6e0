"""The tables of parameters, against the client library's own signatures."""

from __future__ import annotations

import inspect

import aiokafka
import pytest

from pytest_kafkaperf.client_config import CONSUMER, IN_FLIGHT, PRODUCER, Parameters

KAFKAS_NAMES = {"batch_size", IN_FLIGHT}
"""What people copy from Kafka's documentation; aiokafka calls it otherwise, or does not have it."""


@pytest.mark.parametrize(
    ("client", "parameters"), [(aiokafka.AIOKafkaProducer, PRODUCER), (aiokafka.AIOKafkaConsumer, CONSUMER)]
)
def test_every_parameter_stands_in_one_group(client: type, parameters: Parameters) -> None:
    """A new release that adds or drops one must be looked at before users meet it."""
    named = [*parameters.free, *parameters.fields, *parameters.taken]
    assert len(named) == len({*named})
    assert sorted({*named} - KAFKAS_NAMES) == sorted(inspect.signature(client).parameters)


@pytest.mark.parametrize(
    ("client", "parameters"), [(aiokafka.AIOKafkaProducer, PRODUCER), (aiokafka.AIOKafkaConsumer, CONSUMER)]
)
def test_defaults_of_the_library_could_be_given(client: type, parameters: Parameters) -> None:
    """A type that refuses the default is a wrong type; a client's id is text or nothing."""
    signature = inspect.signature(client).parameters
    free = {name: free for name, free in parameters.free.items() if name in signature}
    refused = [name for name, one in free.items() if not one.takes(signature[name].default)]
    assert [name for name in refused if name != "client_id"] == []
