"""Applications under test: processes that use a test's cluster and that the plugin starts, watches and stops."""

from __future__ import annotations

import contextlib
import functools
import secrets
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pytest_kafkaperf.clusters.access.renewal import files_kept_up_to_date
from pytest_kafkaperf.clusters.admin.admin import LOOK_TIMEOUT_S, Admin, TopicExistsError, TopicRefusedError
from pytest_kafkaperf.clusters.admin.groups import Member
from pytest_kafkaperf.clusters.admin.preflight import Preflight
from pytest_kafkaperf.clusters.brokers.run_folders import PREFIX, held
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.instance import Instance
from pytest_kafkaperf.clusters.membership import Membership
from pytest_kafkaperf.clusters.monitoring.probes import Probe
from pytest_kafkaperf.clusters.recipe import MAX_INSTANCES, Recipe
from pytest_kafkaperf.core.detached import detached
from pytest_kafkaperf.core.errors import ApplicationError, ClusterError, UsageError, warn
from pytest_kafkaperf.core.notices import Event, EventKind
from pytest_kafkaperf.core.signals import without_interrupt
from pytest_kafkaperf.core.text import repr_of
from pytest_kafkaperf.core.units import Unit, counted, format_quantity
from pytest_kafkaperf.scenarios.scenario import Scenario

_POLL_S = 0.05
_LEAST_ANSWER_S = 1.0
"""Minimum time limit for a call to the user's `ready` function, so the last call can still return the reason."""


@dataclass(frozen=True, slots=True)
class _Start:
    """A start of one or more instances."""

    pids: Mapping[Instance, int | None]
    """The started instances, with the ids of their processes."""
    before: frozenset[str]
    """Ids of the members that the consumer group had before this start."""

    @property
    def is_intact(self) -> bool:
        """True if no other action has stopped or restarted one of the instances."""
        return all(instance.pid == pid for instance, pid in self.pids.items())


class Application(contextlib.AbstractContextManager["Application"]):
    """The instances of an application under test, usually only one, as started by the `kafka_app` fixture."""

    def __init__(self, recipe: Recipe, cluster: Cluster, side: Literal["test", "baseline"] = "test") -> None:
        self.cluster = cluster
        self.side = side
        self.events: list[Event] = []
        """Stops and starts triggered by the test."""
        self.created: list[str] = []
        """Topics created for the application, while it is open."""
        self.closing = contextlib.ExitStack()
        """Resources that are closed with the application."""
        self._recipe = recipe
        self._folder = Path(tempfile.gettempdir(), f"{PREFIX}app-{secrets.token_hex(8)}")
        """Folder for the application's logs and certificates, while it is open."""
        self._all = [self._made(number) for number in range(recipe.instances)]
        """All instances so far, including those that a test's action removed."""
        self._prepared = contextlib.ExitStack()
        """Containers of the instances."""
        self._retired = False
        self._adding = threading.Lock()
        """Lock held while an instance is added, which a closed application refuses."""
        self._count = recipe.instances
        self._changing = threading.Lock()
        """Lock held while processes start or stop (up to 10 s), which prevents a second process of an instance."""
        self.side_by_side: Sequence[Application] = ()
        """Applications that run at the same time. Those with the same group share its partitions."""
        self._membership = Membership(cluster, recipe.sign_of(0)) if recipe.kind == "group" else None

    def __str__(self) -> str:
        """Return the name."""
        return self._recipe.title

    @property
    def program(self) -> str:
        """The name in messages, such as `application shop`."""
        return f"application {self}"

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def instances(self) -> tuple[Instance, ...]:
        """The instances, in the order of their numbers, including those that the test has stopped."""
        return tuple(self._all[: self._count])

    @property
    def names(self) -> set[str]:
        """The names of the application and of its instances, by which reports distinguish programs."""
        return {str(self), *(each.name for each in self.instances)}

    @property
    def pid(self) -> int | None:
        """Process id of the first running instance; None if the application is stopped."""
        return next((each.pid for each in self.instances if each.pid is not None), None)

    @property
    def is_whole(self) -> bool:
        """True if the declared number of instances is running, unless one of them has exited on its own."""
        return self._count == self._recipe.instances and all(each.pid is not None for each in self.instances)

    @property
    def output(self) -> str:
        """Last lines of standard output and standard error since the last start, without secrets, of each instance."""
        if len(self.instances) == 1:
            return self.instances[0].output
        written = {each.name: each.output for each in self.instances}
        return "\n".join(f"{name}:\n{output}" for name, output in written.items() if output)

    def sections(self) -> dict[str, tuple[str, str]]:
        """Return the title and the last lines of output of each instance for pytest's report, by program."""
        found = {each.program: each.section for each in self._all}
        return {program: section for program, section in found.items() if section is not None}

    def probes(self) -> dict[str, Sequence[Probe]]:
        """Return the probes of each instance's process with its children, or of its container; empty if stopped."""
        return {each.name: each.probes() for each in self.instances}

    def on(self, live_baseline: Cluster) -> Application:
        """Return the same application for another cluster, without opening it."""
        return Application(self._recipe, live_baseline, "baseline")

    def open(self) -> Self:
        """Create the topics and start the application; a failure does not leave anything behind.

        Raises:
            ClusterError: a topic could not be created, or the application exited or was not ready in time.
            UsageError: the application cannot be started.

        """
        admin = Admin(self.cluster.bootstrap_servers, self.cluster.access)
        with contextlib.ExitStack() as stack:
            stack.callback(self._delete_topics, admin)
            for topic, partitions in self._recipe.topics.items():
                try:
                    # Ctrl-C waits, because only topics that were certainly created are deleted afterwards.
                    with contextlib.suppress(TopicExistsError), without_interrupt():
                        created = functools.partial(self.created.append, topic)
                        admin.create_topic(topic, Scenario(partitions=partitions), created)
                except TopicRefusedError:
                    if admin.is_gone(topic):
                        raise
                    Preflight(self.cluster.bootstrap_servers, self.cluster.access).resolve(Scenario(topic=topic))
            stack.enter_context(held(self._folder))
            if self._recipe.image is None:  # a container has its own copy of the files
                stack.enter_context(files_kept_up_to_date(self.cluster.access, self._folder))
            stack.enter_context(self._prepared)
            for instance in self._all:
                self._prepared.enter_context(instance.prepared())
            stack.callback(self.end)
            self.launch()
            self.closing = stack.pop_all()
        return self

    def close(self) -> None:
        """Stop the application permanently, and delete the topics that were created for it."""
        with self._adding:  # a test's action may be about to start an instance in another thread
            self._retired = True
            for instance in self._all:
                instance.retire()
        self.closing.close()

    def start(self, instance: int | None = None) -> None:
        """Start an instance, or all that are stopped, and wait until the application is ready.

        Raises the same errors as `launch`.
        """
        with self._changing:
            begun_ns = time.monotonic_ns()
            started = self._spawn(self.instances if instance is None else [self._numbered(instance)])
            self._record(EventKind.STARTED, begun_ns, started.pids)
        self._await_ready(started)
        self._record(EventKind.READY, time.monotonic_ns(), started.pids)

    def stop(self, instance: int | None = None, *, kill: bool = False) -> None:
        """Stop an instance, or all that are running: gracefully or, after 10 s or with `kill`, by force.

        Raises:
            ApplicationError: the instance has exited on its own.
            UsageError: there is no such instance, or it is already stopped.

        """
        with self._changing:
            if instance is None:
                self._halt([each for each in self.instances if each.pid is not None], kill=kill)
            else:
                self._halt([self._running(instance)], kill=kill)

    def kill(self, instance: int) -> None:
        """Kill an instance as a crash does, with SIGKILL; raises the same errors as `stop`."""
        self.stop(instance, kill=True)

    def restart(self, instance: int | None = None) -> None:
        """Stop and start an instance, or all of them; raises the same errors as `launch`."""
        if instance is None or self._numbered(instance).pid is not None:
            self.stop(instance)
        self.start(instance)

    def scale(self, instances: int) -> None:
        """Start further instances and wait until the application is ready, or stop those with the highest numbers.

        Raises:
            ApplicationError: an instance has exited on its own, or a new one was not ready in time.
            ClusterError: the consumer group could not be read, or the application was closed.
            UsageError: the application cannot have this number of instances, or is stopped.

        """
        with self._changing:
            self._check_scale(instances)
            before, begun_ns = self._count, time.monotonic_ns()
            if instances < before:
                self._count = instances
                self._halt([each for each in self._all[instances:before] if each.pid is not None])
                return
            self._add_up_to(instances)
            started = self._spawn(self._all[before:instances])
            self._count = instances
            self._record(EventKind.STARTED, begun_ns, started.pids)
        self._await_ready(started)
        self._record(EventKind.READY, time.monotonic_ns(), started.pids)

    def check(self) -> None:
        """Raise `ApplicationError` if an instance has exited on its own; cheap."""
        for each in self.instances:
            each.check()

    def launch(self) -> None:
        """Start the declared number of instances and wait until they are ready, without recording an event.

        Raises:
            ApplicationError: an instance exited, or the application was not ready in time.
            ClusterError: its consumer group could not be read, or the application was closed.
            UsageError: the application cannot be started, or is already running.

        """
        with self._changing:
            started = self._spawn(self.instances)
        self._await_ready(started)

    def end(self) -> None:
        """Stop all instances; return when the consumer group no longer waits for the application's members.

        The next start is that of the declared number of instances.
        """
        _stop(self._all)
        self._count = self._recipe.instances
        if self._membership is not None:
            self._membership.forget()

    def _delete_topics(self, admin: Admin) -> None:
        while self.created:
            topic = self.created.pop()
            try:
                admin.delete_topic(topic, timeout_s=LOOK_TIMEOUT_S)
            except ClusterError as error:
                warn(f"could not delete topic {topic} of an application: {error}")

    def _made(self, number: int) -> Instance:
        return Instance(self._recipe, self.cluster, self.side, number=number, folder=self._folder)

    def _add_up_to(self, count: int) -> None:
        """Create instances until there are this many, including removed ones; raises the same errors as `launch`."""
        for number in range(len(self._all), count):
            one = self._made(number)
            with self._adding:
                if self._retired:
                    raise ClusterError(f"cannot start {one.program}: it was removed")
                self._prepared.enter_context(one.prepared())
                self._all.append(one)

    def _numbered(self, number: object) -> Instance:
        """Return the instance with this number; raise `UsageError` if there is none."""
        for each in self.instances:
            if number == each.number and not isinstance(number, bool):
                return each
        numbers = [each.number for each in self.instances]
        raise UsageError(f"no instance {repr_of(number)} of {self.program}; its instances are {numbers}")

    def _running(self, number: object) -> Instance:
        """Return a running instance; raises the same errors as `stop`."""
        found = self._numbered(number)
        found.check()
        if found.pid is None:
            raise UsageError(f"instance {number} of {self.program} is already stopped; start it first: start({number})")
        return found

    def _check_scale(self, instances: object) -> None:
        """Raise an error if `scale` cannot continue with this number of instances."""
        where = f"scale({repr_of(instances)})"
        if (problem := self._recipe.problem_of(instances)) is not None:
            raise UsageError(f"{where}: {problem}; to stop all instances, use stop()")
        if instances == self._count:
            raise UsageError(f"{where}: {self.program} already has {counted(self._count, 'instance')}")
        if self.pid is None:
            raise UsageError(f"{where}: {self.program} is stopped; start it first: start()")
        self.check()

    def _halt(self, chosen: Sequence[Instance], *, kill: bool = False) -> None:
        """Stop or kill running instances at the same time, and record the event."""
        if chosen:
            begun_ns = time.monotonic_ns()
            _stop(chosen, kill=kill)
            self._record(EventKind.KILLED if kill else EventKind.STOPPED, begun_ns, chosen)

    def _spawn(self, chosen: Sequence[Instance]) -> _Start:
        """Start the processes of stopped instances; raises the same errors as `launch`."""
        stopped = [each for each in chosen if each.pid is None]
        if not stopped:
            number = chosen[0].number if len(chosen) < self._count else None
            which, what = ("", "") if number is None else (f"instance {number} of ", number)
            raise UsageError(f"{which}{self.program} is already running; stop it first: stop({what})")
        before = frozenset() if self._membership is None else self._membership.begin(first=self.pid is None)
        try:
            for each in stopped:
                each.launch()
        except BaseException:
            _stop(stopped)
            raise
        return _Start({each: each.pid for each in stopped}, before)

    def _record(self, kind: EventKind, at_ns: int, changed: Collection[Instance]) -> None:
        """Record an action that is complete: one event if it concerned all instances, otherwise one for each."""
        current = self.instances
        is_partial = any(each.pid is not None for each in current if each not in changed)
        settled_ns = time.monotonic_ns() if is_partial else None
        is_stop = kind in (EventKind.STOPPED, EventKind.KILLED)
        if kind is EventKind.READY or all(each in changed for each in current):
            endings = dict.fromkeys(each.ending for each in changed) if is_stop else ()
            self.events.append(Event(at_ns, kind, str(self), "; ".join(endings), settled_ns))
            return
        for each in changed:
            self.events.append(Event(at_ns, kind, each.name, each.ending if is_stop else "", settled_ns))

    def _await_ready(self, started: _Start) -> None:
        """Wait until the started instances are ready; stop them if they do not become ready in time."""
        try:
            self._poll_ready(started)
        except BaseException:
            with self._changing:
                # Another action may have stopped an instance and started it again.
                _stop([each for each, pid in started.pids.items() if each.pid == pid])
            raise

    def _poll_ready(self, started: _Start) -> None:
        deadline = time.monotonic() + self._recipe.timeout
        while (missing := self._missing(started, deadline)) is not None:
            self.check()
            if not started.is_intact:
                raise ClusterError(f"{self.program} was stopped before it was ready")
            if time.monotonic() > deadline:
                within = format_quantity(self._recipe.timeout, Unit.SECONDS)
                groups = "" if self._membership is None else self._membership.other_groups()
                reasons = "; ".join(filter(None, (missing, groups)))
                reason = f"{self.program} was not ready within {within}: {reasons}"
                raise ApplicationError(reason, log=self.output, program=self.program)
            time.sleep(_POLL_S)

    def _missing(self, started: _Start, deadline: float) -> str | None:
        """Return the reason why the application is not ready; None if it is ready."""
        try:
            if self._recipe.kind == "call":
                return self._asked(deadline - time.monotonic())
            if self._membership is None:
                return next(filter(None, (each.missing() for each in started.pids)), None)
            missing, foreign, partitions = self._membership.missing(started.before, len(started.pids))
        except (OSError, ClusterError) as error:  # for example, a refused connection
            return str(error) or type(error).__name__
        if foreign and not any(self._shares_group(other) for other in self.side_by_side if other is not self):
            raise self._shared(foreign, partitions)
        return missing

    def _shared(self, foreign: Sequence[Member], partitions: int) -> ApplicationError:
        """Return the error for foreign members that have partitions, because the test would also measure them."""
        taken = sum(member.partitions for member in foreign)
        whose = ", ".join(sorted({f"{member.client_id} at {member.host}" for member in foreign}))
        return ApplicationError(
            f"{self.program} shares consumer group {self._recipe.sign_of(0)!r} with an instance that the plugin did "
            f"not start, which processes {taken} of {partitions} partitions ({whose}), so the test would also measure "
            "that instance; stop it, use another group for the test, or, if it belongs to the test, start it with "
            f"kafka_app(ready={self._recipe.ready!r}) as well",
            program=self.program,
        )

    def _shares_group(self, other: Application) -> bool:
        same_cluster = other.cluster.bootstrap_servers == self.cluster.bootstrap_servers
        return same_cluster and other._recipe.ready == self._recipe.ready

    def _asked(self, timeout_s: float) -> str | None:
        """Call the user's function in a thread to limit its time; return the reason as `_missing` does."""
        answer = detached(lambda: self._recipe.ready(self))
        if not wait([answer], max(_LEAST_ANSWER_S, timeout_s)).done:
            return "its function `ready` has not returned"
        return None if answer.result() else "its function `ready` returned no true value"


def _stop(instances: Sequence[Instance], *, kill: bool = False) -> None:
    """Stop instances at the same time, because each has 10 s to exit."""
    if len(instances) == 1:
        instances[0].stop(kill=kill)
        return
    with ThreadPoolExecutor(MAX_INSTANCES) as threads:
        list(threads.map(lambda one: one.stop(kill=kill), instances))
