"""Verdicts: statistics, thresholds evaluated over rounds, and baselines.

Only the subpackage `baselines` reads and writes files. The package may import `core` and `scenarios`; it knows neither
clusters nor load.
"""
