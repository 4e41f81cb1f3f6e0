"""The program: `KAFKA_BOOTSTRAP_SERVERS=localhost:9092 python -m orders_sink`; `ORDERS_DATABASE` is the file's path."""

from __future__ import annotations

import logging
import os
import signal
import threading

from orders_sink.settings import connection
from orders_sink.sink import run
from orders_sink.store import Store


def main() -> None:
    """Run the sink until the process gets SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.WARNING)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with Store(os.environ.get("ORDERS_DATABASE", "orders.sqlite")) as store:
        run(store, connection(os.environ), stopped)


if __name__ == "__main__":
    main()
