"""Faults in every phase of a run."""
