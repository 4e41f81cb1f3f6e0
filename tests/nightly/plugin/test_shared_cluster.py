"""A cluster that a fixture of the whole run starts, under the name of the plugin's own fixture."""

from __future__ import annotations

from tests.support.project import Project
from tests.support.shared_application import use_the_same_brokers

OVERRIDE = """

@pytest.fixture(scope="session")
def kafka_cluster(kafka_cluster_factory):
    return kafka_cluster_factory(heap="256m")
"""


def test_an_application_of_the_run_and_all_tests_use_the_same_brokers(project: Project) -> None:
    """Its servers stay the same even after a test has stopped a broker: the application cannot learn others."""
    use_the_same_brokers(project, OVERRIDE)
