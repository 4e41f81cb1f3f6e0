"""Secrets of clusters with SASL/PLAIN never appear in an output."""

from __future__ import annotations

from tests.support.leaks import search_outputs
from tests.support.project import Project


def test_no_output_has_a_secret_of_a_cluster_that_the_plugin_started(project: Project) -> None:
    """The credentials are short-lived, but others can read outputs while the load runs."""
    search_outputs(project, "local", "sasl_plain")
