"""The program: `KAFKA_BOOTSTRAP_SERVERS=localhost:9092 python -m orders_service`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

from orders_service.service import Service
from orders_service.settings import connection


async def serve() -> None:
    """Run the service until the process gets SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await Service(connection(os.environ)).run(stopped)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(serve())
