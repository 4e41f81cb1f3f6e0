"""The values of `--kafka-cluster` and `--kafka-compare`."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import ClassVar

from pytest_kafkaperf.core.errors import UsageError, suggestion

CONNECT_WAIT_S = 15
"""Default of the maximum wait until an external cluster is ready."""

DEFAULT_VERSION = "4.3.1"
"""Default Kafka version: the newest that Maven Central resolves."""

WORDS = ("auto", "local", "docker")

MAX_PORT = 65_535

HOST = r"(?P<host>\[[0-9A-Fa-f:.]+(%\w+)?\]|[\w.-]+)"
"""A host name, an IPv4 address, or an IPv6 address in brackets."""

_SERVER = re.compile(rf"{HOST}:(?P<port>[0-9]{{1,9}})")

VERSION = re.compile(r"\d+\.\d+\.\d+(-\w+)?")

IMAGE = re.compile(r"[\w.:@/-]+")


def decides_version(image: str) -> bool:
    """Return True if the name of an image has a tag or a digest, so that Kafka's version is that of the image."""
    return "@" in image or ":" in image.rpartition("/")[2]


_NUMBERS = re.compile(r"[\d.]*")
"""A version or a port, and not an image."""

_VALID = (
    "valid are auto[:VERSION], local[:VERSION], docker[:VERSION or :IMAGE] and HOST:PORT[,HOST:PORT...], such as "
    "local:4.0.0, docker:apache/kafka:4.0.0, broker1:9092,broker2:9092 or [::1]:9092"
)


@dataclass(frozen=True, slots=True)
class _Started:
    """Brokers that the plugin starts."""

    name: ClassVar[str]
    version: str | None = None
    """Kafka version; None: the version of the marker, or of the default."""
    image: str | None = None
    """Docker image; None: the image of the marker, or of the default."""

    @property
    def fields(self) -> dict[str, str | None]:
        """The fields of a cluster that this value sets.

        A version stands for the default image of that version, and an image with a tag for the version of that tag.
        """
        if self.image is not None:
            return {"image": self.image, **({"version": None} if decides_version(self.image) else {})}
        return {} if self.version is None else {"version": self.version, "image": None}

    def __str__(self) -> str:
        """Return the value of the option."""
        return ":".join(part for part in (self.name, self.version, self.image) if part)


class Auto(_Started):
    """Docker if a daemon answers, otherwise local brokers. `resolve` decides when a test needs a cluster."""

    name = "auto"


class Local(_Started):
    """Brokers that the plugin starts as processes."""

    name = "local"


class Docker(_Started):
    """Brokers that the plugin starts as containers."""

    name = "docker"


@dataclass(frozen=True, slots=True)
class External:
    """Servers of a cluster that others run."""

    name: ClassVar[str] = "external"
    servers: tuple[str, ...]
    """Each is `HOST:PORT`."""

    @property
    def fields(self) -> dict[str, str | None]:
        """The fields of a cluster that this value sets: none."""
        return {}

    def __str__(self) -> str:
        """Return the value of the option."""
        return ",".join(self.servers)


Provider = Local | Docker | External
Target = Auto | Provider


def parse_target(text: str, *, option: str = "--kafka-cluster") -> Target:
    """Parse the value of `--kafka-cluster`, or of another option with the same values.

    Raises:
        UsageError: the value is invalid; names valid values and an example.

    """
    word, colon, rest = text.strip().partition(":")
    match word:
        case "auto" if not colon or VERSION.fullmatch(rest):
            return Auto(rest or None)
        case "local" if not colon or VERSION.fullmatch(rest):
            return Local(rest or None)
        case "docker" if not colon or VERSION.fullmatch(rest):
            return Docker(rest or None)
        case "docker" if IMAGE.fullmatch(rest) and not _NUMBERS.fullmatch(rest):
            return Docker(image=rest)
        case "auto" | "local" | "docker":
            image = " or an image, such as apache/kafka:4.0.0" if word == "docker" else ""
            raise UsageError(
                f"{option}={text}: {rest!r} is not a Kafka version, such as 4.0.0{image}; for a server called {word}, "
                "give its IP address"
            )
        case _:
            return parse_servers(text, where=f"{option}={text}")


def parse_servers(text: str, *, where: str) -> External:
    """Parse `HOST:PORT[,HOST:PORT...]`; `where` starts the text of an error.

    Raises:
        UsageError: a server is invalid; names valid values and an example.

    """
    return External(tuple(_server(part.strip(), where) for part in text.split(",")))


def is_loopback(server: str) -> bool:
    """Return True if `HOST:PORT` is on this machine by its address or the name `localhost`; no name is looked up."""
    host = server.strip().rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _server(server: str, given: str) -> str:
    found = _SERVER.fullmatch(server)
    if found is None or not 1 <= int(found["port"]) <= MAX_PORT:
        # There is no hint for host names such as `broker1`, which is similar to `docker`.
        hint = suggestion(server, [word for word in WORDS if word[0] == server[:1]])
        problem = hint or f"{server!r} is not HOST:PORT with a port from 1 to {MAX_PORT};"
        raise UsageError(f"{given}: {problem} {_VALID}")
    return server
