"""A service under test, as `kafka_app` starts it: a consumer group that moves records to another topic.

Users' projects get a copy of this file. It tells where it runs in a line of the file `starts`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import sys
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

SOURCE, TARGET, GROUP = "moved-in", "moved-out", "mover"


def client_config() -> dict[str, Any]:
    """Return the arguments of aiokafka's clients that the environment asks for."""
    env, protocol = os.environ, os.environ["KAFKA_SECURITY_PROTOCOL"]
    config: dict[str, Any] = {"bootstrap_servers": env["KAFKA_BOOTSTRAP_SERVERS"], "security_protocol": protocol}
    if protocol.startswith("SASL"):
        config |= {
            "sasl_mechanism": env["KAFKA_SASL_MECHANISM"],
            "sasl_plain_username": env["KAFKA_SASL_USERNAME"],
            "sasl_plain_password": env["KAFKA_SASL_PASSWORD"],
        }
    if protocol.endswith("SSL"):
        config["ssl_context"] = ssl.create_default_context(cafile=env["KAFKA_SSL_CA_FILE"])
    return config


async def serve(*, most: int, delay_ms: float, commit_ms: int, every: int) -> None:
    """Move records, each after a delay, until the process is killed; with `most`, end after that many.

    It drops all but every n-th of them.
    """
    consumer = AIOKafkaConsumer(
        SOURCE,
        group_id=GROUP,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=commit_ms,
        **client_config(),
    )
    producer = AIOKafkaProducer(**client_config())
    await consumer.start()
    await producer.start()
    moved = 0
    async for record in consumer:
        moved += 1
        if moved % every:
            continue
        await asyncio.sleep(delay_ms / 1000)
        await producer.send(TARGET, record.value, key=record.key, headers=[*record.headers])
        if moved == most:
            print("cannot go on:", moved, "records")  # noqa: T201 - the test looks for it
            os._exit(3)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--most", type=int, default=0)
    options.add_argument("--every", type=int, default=1)
    options.add_argument("--delay-ms", type=float, default=0)
    options.add_argument("--commit-ms", type=int, default=5000)  # aiokafka's own default
    with Path("starts").open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()} {os.environ['KAFKAPERF_SIDE']} {os.environ['KAFKA_BOOTSTRAP_SERVERS']}\n")
    sys.exit(asyncio.run(serve(**vars(options.parse_args()))))
