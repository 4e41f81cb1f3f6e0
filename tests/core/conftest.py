"""Hypothesis for the core: the same examples in every run, no folder left behind."""

from hypothesis import settings

settings.register_profile("core", deadline=None, max_examples=150, derandomize=True, database=None)
settings.load_profile("core")
