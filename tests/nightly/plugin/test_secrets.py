"""Secrets of clusters with SASL/PLAIN, and of clusters in Docker, never appear in an output."""

from __future__ import annotations

import pytest

from tests.support.leaks import search_outputs
from tests.support.project import Project


@pytest.mark.parametrize(
    ("target", "security"),
    [
        ("local", "sasl_plain"),
        pytest.param("docker", "sasl_scram+tls", marks=pytest.mark.docker),
        pytest.param("docker", "sasl_oauth+tls", marks=pytest.mark.docker),
    ],
)
def test_no_output_has_a_secret_of_a_cluster_that_the_plugin_started(
    project: Project, target: str, security: str
) -> None:
    """The credentials are short-lived, but others can read outputs while the load runs."""
    search_outputs(project, target, security)
