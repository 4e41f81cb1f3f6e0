"""Arguments of `kafka_app`: how to start an application under test, and when it is ready."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo

from pytest_kafkaperf.clusters.target import MAX_PORT
from pytest_kafkaperf.scenarios.fields import Config, Count, MarkerFields, Seconds, Topic
from pytest_kafkaperf.scenarios.scenario import Scenario

MAX_INSTANCES = 100
"""Maximum number of an application's instances, all of which run on this machine."""
_INSTANCE = "{instance}"


def _words(command: Any, info: ValidationInfo) -> tuple[str, ...]:
    if not isinstance(command, list | tuple) or not (command or info.data.get("image")):
        raise ValueError("must be a list of words, for example ['python', '-m', 'orders'], unless image is set")
    return tuple(map(str, command))


def _ready(ready: Any, info: ValidationInfo) -> Any:
    found = re.fullmatch(r"(?:group|line):.+|port:(\d+|\d*\{instance\}\d*)", str(ready))
    if not callable(ready) and found is None:
        raise ValueError(_NO_SIGN)
    if isinstance(ready, str) and (problem := _problem_of_many(ready, info.data.get("instances", 1))):
        raise ValueError(problem)
    return ready


def _problem_of_many(ready: str, instances: int) -> str | None:
    """Return the reason why this number of instances cannot have this signal; None if they can."""
    kind, _, sign = ready.partition(":")
    if kind == "group" and _INSTANCE in sign:
        return "all instances must be members of one group, so its name must not contain {instance}"
    if kind != "port":
        return None
    ports = [int(_numbered(sign, number)) for number in range(instances)]
    wrong = next((number for number, port in enumerate(ports) if not 1 <= port <= MAX_PORT), None)
    if wrong is not None:
        text = f"the port of instance {wrong} would be {ports[wrong]}, must be 1 to {MAX_PORT}"
        return text if _INSTANCE in sign else _NO_SIGN
    if len({*ports}) < instances:
        return (
            f"{instances} instances cannot listen on the same port; write {{instance}} where the instance's number "
            "belongs, for example 'port:808{instance}'"
        )
    return None


_NO_SIGN = "must be 'group:NAME', 'line:TEXT', 'port:NUMBER', or a function that takes the application"


def _numbered(text: str, number: int) -> str:
    return text.replace(_INSTANCE, str(number))


def _topics(topics: Any) -> Any:
    if isinstance(topics, str):
        raise ValueError("must be a list of names, or a mapping of names to numbers of partitions")  # noqa: TRY004 - pydantic's
    return dict.fromkeys(topics, Scenario().partitions) if isinstance(topics, list | tuple) else topics


class Recipe(MarkerFields):
    """Arguments of `kafka_app`."""

    image: str | None = None
    """Image for a container on the host's network, such as `registry/orders:1.2`; None to run a child process."""
    command: Annotated[tuple[str, ...], BeforeValidator(_words), Field(validate_default=True)] = ()
    """Words of the command line, or arguments to the image; `python` is pytest's interpreter. `{bootstrap_servers}`,
    `{side}` and `{instance}` are replaced."""
    instances: Annotated[Count, Field(ge=1, le=MAX_INSTANCES)] = 1
    """Number of processes or containers to start with the same command. They are numbered from 0."""
    ready: Annotated[Any, BeforeValidator(_ready)]
    """Signal that the application is ready: `group:NAME`, `line:TEXT`, `port:NUMBER`, or a function that takes the
    application and runs in a thread. `{instance}` is replaced in a line or a port."""
    topics: Annotated[Mapping[Topic, Annotated[Count, Field(ge=1)]], BeforeValidator(_topics)] = Field(
        default_factory=dict
    )
    """Topics to create if they do not exist and to delete afterward; in a list of names, each topic gets 6 partitions.
    On brokers that the plugin starts, you can omit the scenario's `topic`."""
    env: Config = Field(default_factory=dict)
    """Additional environment variables; `{bootstrap_servers}`, `{side}` and `{instance}` are replaced."""
    baseline_env: Config = Field(default_factory=dict)
    """Environment variables for the live baseline's instances only; these override `env`."""
    cwd: Path = Path()
    """Working folder for a process, relative to pytest's root folder."""
    timeout: Seconds = 30.0
    """Maximum time until the application is ready."""
    name: str | None = None
    """Name to show in reports; None for the name of the program or image."""

    @property
    def title(self) -> str:
        """Name to show in reports."""
        return self.name or _name_of(self.image, self.command)

    def name_of(self, number: int) -> str:
        """Return the name of an instance, such as `shop-1`; the application's name if it has only one instance."""
        return self.title if self.instances == 1 and number == 0 else f"{self.title}-{number}"

    @property
    def kind(self) -> str:
        """Kind of the signal: `group`, `line`, `port`, or `call` for a function."""
        return str(self.ready).partition(":")[0] if isinstance(self.ready, str) else "call"

    def sign_of(self, number: int) -> str:
        """Return the group, the line or the port of an instance; empty for a function."""
        return _numbered(self.ready.partition(":")[2], number) if isinstance(self.ready, str) else ""

    def problem_of(self, instances: object) -> str | None:
        """Return the reason why the application cannot have this number of instances; None if it can."""
        if not isinstance(instances, int) or isinstance(instances, bool) or not 1 <= instances <= MAX_INSTANCES:
            return f"must be an integer from 1 to {MAX_INSTANCES}"
        return _problem_of_many(self.ready, instances) if isinstance(self.ready, str) else None


def _name_of(image: str | None, command: Sequence[str]) -> str:
    if image is not None:
        return image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    words = [*itertools.takewhile(lambda word: word != "-c", command)]
    program, *others = [word for word in words if not word.startswith("-")] or command
    return Path(others[0] if others and Path(program).name.startswith("python") else program).stem
