"""An external cluster that is reached in plaintext."""

from __future__ import annotations

from pathlib import Path

from tests.support.external_cluster import foreign_cluster, load_and_restart


def test_load_on_a_foreign_cluster_is_exact_and_leaves_nothing_also_after_a_restart(tmp_path: Path) -> None:
    """Its owner finds neither topics nor groups afterwards, and may restart a broker between two runs."""
    with foreign_cluster(None, tmp_path) as foreign:
        load_and_restart(foreign)
