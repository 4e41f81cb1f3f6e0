"""A trial of a scenario, which tells how many worker processes its load needs: fewer leave brokers more of the machine.

It is no round: a second at the scenario's own rate, on a topic of its own, with one worker of each kind. A cluster in
production takes no more of it than of the rounds that follow.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.crew import Crew, cores
from pytest_kafkaperf.division import decided, undecidable
from pytest_kafkaperf.rate import peak_rate
from pytest_kafkaperf.run import run_scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kafkaperf.clusters import Cluster
    from pytest_kafkaperf.load.pool import Progress
    from pytest_kafkaperf.scenario import Scenario

TRIAL_S = 4.0
"""What one takes, with all that comes with it."""
_WARMUP_S = 0.3
_DURATION_S = 1.0


def needs_trial(scenario: Scenario, crew: Crew) -> bool:
    """Whether a trial is to say how many workers the scenario gets."""
    return crew.is_open and undecidable(scenario, cores()) is None


def sized(scenario: Scenario, crew: Crew, cluster: Cluster, *, on_progress: Callable[[int, Progress], None]) -> Crew:
    """The crew with as many workers as the scenario needs, and why so many.

    Raises:
        ClusterError: as `run_scenario` does.

    """
    if not crew.is_open:
        return crew
    reason = undecidable(scenario, cores())
    if reason is not None:
        return dataclasses.replace(crew, reason=reason)
    (trial,) = run_scenario(tried(scenario), cluster, crew=Crew(producing=1, consuming=1), on_progress=on_progress)
    return decided(scenario, trial.shares, cores())


def tried(scenario: Scenario) -> Scenario:
    """What is run to see what its load takes: its highest rate for a moment."""
    update: dict[str, Any] = {
        "rate": None if scenario.rate is None else peak_rate(scenario.rate),
        "records": None,
        "duration": _DURATION_S,
        "warmup": _WARMUP_S,
        "rounds": 1,
    }
    return scenario.model_copy(update=update)
