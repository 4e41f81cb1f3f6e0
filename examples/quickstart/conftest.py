"""The next steps, printed below the results until the ini file has a threshold relative to the baseline."""

import pytest


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter, config):
    """Print how to create a baseline and gate on it."""
    if not config.getini("kafka_thresholds"):
        write = terminalreporter.write_line
        write("next: 1. add to pytest.ini: kafka_thresholds = produce.latency.p50 <= baseline + 50%")
        write("      2. create a baseline, and commit it: pytest --kafka-update-baselines")
        write("      3. gate on it: pytest --kafka-strict")
