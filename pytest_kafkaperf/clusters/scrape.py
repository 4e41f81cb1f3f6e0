"""A scrape of a JMX exporter: its page, got within a bound, and the figures on it.

Figures go by the names in `brokers.figures.FIGURES`.
"""

from __future__ import annotations

import base64
import http.client
import math
import re
import socket
import time
from collections.abc import Iterator, Mapping
from urllib.parse import unquote, urlsplit

MAX_SCRAPE_BYTES = 32 * 1024 * 1024
"""An exporter that gives all that a broker of 10,000 partitions counts stays below."""
_MOMENT_S = 0.001

_TIMES = {
    "totaltimems": "total",
    "requestqueuetimems": "queue",
    "localtimems": "local",
    "remotetimems": "remote",
    "responsesendtimems": "send",
}
_REQUESTS = {"produce": "produce", "fetchconsumer": "fetch"}
_VALUES = {
    "server_replicamanager_underreplicatedpartitions": "under_replicated",
    "server_replicamanager_leadercount": "leaders",
    "server_replicamanager_isrshrinkspersec_count": "isr_shrinks",
    "server_replicamanager_isrshrinks_count": "isr_shrinks",
    "server_replicamanager_isrshrinks": "isr_shrinks",
}
_REQUEST_TIME = re.compile(rf"network_requestmetrics_(?P<time>{'|'.join(_TIMES)})_(?P<what>mean|count)")
_IDLE = "server_kafkarequesthandlerpool_{}requesthandleravgidlepercent_count"
_CONTROLLER = "controller_kafkacontroller_lastappliedrecordoffset"
"""Only a KRaft controller has it."""
_WANTED = re.compile(
    r"^kafka_(?:"
    rf'network_requestmetrics_[^{{\n]*(?:mean|count|count_total){{[^}}\n]*request="(?:{"|".join(_REQUESTS)})".*|'
    r"(?:server_kafkarequesthandlerpool|server_replicamanager|controller_kafkacontroller)_.*)",
    re.IGNORECASE | re.MULTILINE,
)


def get_page(url: str, timeout_s: float) -> str:
    """Get a page, all of it within the timeout, however slowly it comes.

    Raises:
        OSError: it cannot be had, is too large, or did not come in time (TimeoutError).
        http.client.HTTPException: what answers does not speak HTTP.
        ValueError: the URL is none.

    """
    deadline_s = time.monotonic() + timeout_s
    parts, shown = urlsplit(url), url.rpartition("@")[2]  # a password stands in no text
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise ValueError(f"not an http or https URL: {shown!r}")
    of_scheme = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = of_scheme(parts.hostname, parts.port, timeout=timeout_s)
    # Text of the format that all versions of the exporter give; OpenMetrics names counters in another way.
    headers = {"Accept": "text/plain; version=0.0.4", "Connection": "close"}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(user).decode('ascii')}"
    path = (parts.path or "/metrics") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.connect()
        own = connection.sock  # the response takes it over
        own.settimeout(max(_MOMENT_S, deadline_s - time.monotonic()))
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise OSError(f"{shown} answered {response.status} {response.reason}")
        return b"".join(_chunks(response, own, deadline_s)).decode("utf-8", errors="replace")
    except TimeoutError:
        raise TimeoutError(f"{shown} did not answer in full within {timeout_s:g} s") from None
    finally:
        connection.close()


def _chunks(response: http.client.HTTPResponse, own: socket.socket, deadline_s: float) -> Iterator[bytes]:
    size_bytes = 0
    while chunk := response.read1(65536):
        yield chunk
        size_bytes += len(chunk)
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        if size_bytes > MAX_SCRAPE_BYTES:
            raise OSError(f"the answer has more than {MAX_SCRAPE_BYTES} bytes")
        own.settimeout(left_s)


def exporter_figures(text: str) -> dict[str, float]:
    """Read a page of the JMX exporter, whichever rules named its values.

    Names are those of the exporter's example rules for Kafka, which Strimzi has, too
    (`kafka_server_replicamanager_isrshrinks_total`), those that it gives without any rules
    (`kafka_server_ReplicaManager_Count{name="IsrShrinksPerSec",}`), or those of `exporter.configuration`
    (`kafka_server_ReplicaManager_IsrShrinksPerSec_Count`), in any case. The example rules leave out the means, and
    with them the times of requests.

    Raises:
        ValueError: it is no such page.

    """
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - late: 0.1 s

    # Of a page of 10,000 lines a hundred matter; all of it would take the parser a tenth of a second.
    wanted = "\n".join(_WANTED.findall(text)) + "\n"
    values: dict[str, float] = {}
    times_ms: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(wanted):
        for sample in family.samples:
            labels = {name.lower(): value.lower() for name, value in sample.labels.items()}
            name = _plain(sample.name.lower(), labels.get("name"))
            time_of = _REQUEST_TIME.fullmatch(name)
            if math.isnan(sample.value):
                continue
            if time_of and labels.get("request") in _REQUESTS and "quantile" not in labels:
                figure = f"{_REQUESTS[labels['request']]}_{_TIMES[time_of['time']]}"
                times_ms[figure, time_of["what"]] = sample.value
            else:
                values[name] = sample.value
    found = {figure: values[name] for name, figure in _VALUES.items() if name in values}
    return {**found, **_request_figures(times_ms), **_handler_figures(values)}


def _plain(name: str, bean: str | None) -> str:
    """The name as the example rules would make it, without `kafka_` and without what a type adds to it."""
    if bean is not None:
        front, _, attribute = name.rpartition("_")
        name = f"{front}_{bean}_{attribute}"
    return name.removeprefix("kafka_").removesuffix("_total").removesuffix("_value")


def _request_figures(times_ms: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """Kafka tells the mean since the broker's start: the sum is what the mean of a window can be made of."""
    figures = {}
    for (figure, what), count in times_ms.items():
        mean_ms = times_ms.get((figure, "mean"))
        if what == "count" and mean_ms is not None:
            figures[f"{figure}_requests"] = count
            figures[f"{figure}_s"] = mean_ms * count / 1e3
    return figures


def _handler_figures(values: Mapping[str, float]) -> dict[str, float]:
    """The meter is marked with nanoseconds without work, shared by the number of handlers: its count is their sum."""
    own = values.get(_IDLE.format("broker"))  # since 4.3 (KIP-1207)
    if own is not None:
        return {"request_handler_idle_s": own / 1e9, "request_handler_pools": 1.0}
    both = values.get(_IDLE.format(""))
    if both is None:
        return {}
    return {"request_handler_idle_s": both / 1e9, "request_handler_pools": 2.0 if _CONTROLLER in values else 1.0}
