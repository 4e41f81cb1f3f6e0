"""Values of `--kafka-cluster` and `--kafka-compare`."""

from __future__ import annotations

import difflib
import ipaddress
import re
from dataclasses import dataclass
from typing import ClassVar

from pytest_kafkaperf.core.errors import UsageError, did_you_mean

CONNECT_WAIT_S = 15
"""Default maximum wait until an external cluster is ready."""

DEFAULT_VERSION = "4.4.0"
"""Default Kafka version: the newest one available from Maven Central."""

OLDEST_VERSION = (3, 9)
"""Oldest Kafka version that the plugin can start."""

WORDS = ("auto", "local", "docker")

MAX_PORT = 65_535

HOST = r"(?P<host>\[[0-9A-Fa-f:.]+(%\w+)?\]|[\w.-]+)"
"""A host name, an IPv4 address, or an IPv6 address in brackets."""

_HOST = re.compile(HOST)

_SERVER = re.compile(rf"{HOST}:(?P<port>[0-9]{{1,9}})")

VERSION = re.compile(r"\d+\.\d+\.\d+(-\w+)?")

IMAGE = re.compile(r"[\w.:@/-]+")


def version_problem(version: str) -> str | None:
    """Return the reason why the plugin does not start brokers of this version; None if it does."""
    if not VERSION.fullmatch(version):
        return "a Kafka version has three numbers, such as '4.1.0'"
    major, minor, _ = version.split(".", 2)
    if (int(major), int(minor)) < OLDEST_VERSION:
        return (
            f"the plugin starts Kafka {'.'.join(map(str, OLDEST_VERSION))} or newer; to test an older version, start "
            "the brokers yourself and use --kafka-cluster=HOST:PORT"
        )
    return None


def image_problem(image: str) -> str | None:
    """Return the reason why this is not a valid Docker image name; None if it is valid."""
    if not IMAGE.fullmatch(image):
        return "must be the name of a Docker image, such as 'apache/kafka:4.1.0'"
    if image == "latest":
        return "'latest' is a tag without an image; write 'apache/kafka:latest'"
    return None


def decides_version(image: str) -> bool:
    """Return True if the image name has a tag or a digest, which determines the Kafka version."""
    return "@" in image or ":" in image.rpartition("/")[2]


_NUMBERS = re.compile(r"[\d.]*")
"""Pattern for a version or a port, as opposed to an image."""

VALID = (
    "valid values: auto[:VERSION], local[:VERSION], docker[:VERSION or :IMAGE] and HOST:PORT[,HOST:PORT...], such as "
    "local:4.0.0, docker:apache/kafka:4.0.0, broker1:9092,broker2:9092 or [::1]:9092"
)
"""Valid values, shown at the end of errors."""


@dataclass(frozen=True, slots=True)
class _Started:
    """Brokers that the plugin starts."""

    name: ClassVar[str]
    version: str | None = None
    """Kafka version; None to use the marker's version or the default."""
    image: str | None = None
    """Docker image; None to use the marker's image or the default."""

    @property
    def fields(self) -> dict[str, str | None]:
        """Cluster fields that this value sets.

        A version selects the default image for that version, and an image's tag selects the version.
        """
        if self.image is not None:
            return {"image": self.image, **({"version": None} if decides_version(self.image) else {})}
        return {} if self.version is None else {"version": self.version, "image": None}

    def __str__(self) -> str:
        """Return the value of the option."""
        return ":".join(part for part in (self.name, self.version, self.image) if part)


class Auto(_Started):
    """Local brokers if jgo is installed, otherwise Docker. `resolve` makes the choice when a test needs a cluster."""

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
    """The servers, each as `HOST:PORT`."""

    @property
    def fields(self) -> dict[str, str | None]:
        """The fields of a cluster that this value sets: none."""
        return {}

    def __str__(self) -> str:
        """Return the value of the option."""
        return ",".join(self.servers)


_STARTED: dict[str, type[Auto | Local | Docker]] = {"auto": Auto, "local": Local, "docker": Docker}
Provider = Local | Docker | External
Target = Auto | Provider


def parse_target(text: str, *, option: str = "--kafka-cluster", more: str = "") -> Target:
    """Parse the value of `--kafka-cluster` or of another option with the same values.

    Errors also list `more`, which contains the option's other values.

    Raises:
        UsageError: the value is invalid; the message contains valid values and an example.

    """
    word, colon, rest = text.strip().partition(":")
    if word not in _STARTED:
        return parse_servers(text, where=f"{option}={text}", more=more)
    if not colon:
        return _STARTED[word]()
    is_image = word == "docker" and IMAGE.fullmatch(rest) and not _NUMBERS.fullmatch(rest)
    if VERSION.fullmatch(rest):
        problem, target = version_problem(rest), _STARTED[word](rest)
    elif is_image:
        problem, target = image_problem(rest), Docker(image=rest)
    else:
        image = " or an image, such as apache/kafka:4.0.0" if word == "docker" else ""
        raise UsageError(
            f"{option}={text}: {rest!r} is not a Kafka version, such as 4.0.0{image}; for a server called {word}, "
            "give its IP address"
        )
    if problem is not None:
        raise UsageError(f"{option}={text}: {problem}")
    return target


def parse_servers(text: str, *, where: str, more: str = "") -> External:
    """Parse `HOST:PORT[,HOST:PORT...]`; error messages start with `where`, and also list `more`.

    Raises:
        UsageError: a server is invalid; the message contains valid values and an example.

    """
    return External(tuple(_server(part.strip(), where, more) for part in text.split(",")))


def is_loopback(server: str) -> bool:
    """Return True if `HOST:PORT` is a local address or `localhost`; does not look up names."""
    host = server.strip().rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _server(server: str, given: str, more: str) -> str:
    found = _SERVER.fullmatch(server)
    if found is None or not 1 <= int(found["port"]) <= MAX_PORT:
        raise UsageError(f"{given}: {_server_problem(server)} {VALID}{more}")
    return server


def _server_problem(server: str) -> str:
    if server.startswith(("git:", "path:")):
        return f"{server.partition(':')[0]} is only for --kafka-compare;"
    if not _HOST.fullmatch(server):
        return f"{server!r} is not HOST:PORT with a port from 1 to {MAX_PORT};"
    # `broker1` is similar to `docker`, so the first letter must match.
    near = difflib.get_close_matches(server, [word for word in WORDS if word[0] == server[0]], n=1)
    return f"{server!r} has no port; {did_you_mean([*near, f'{server}:9092'])}"
