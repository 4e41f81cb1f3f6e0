"""Declarations of a test: the workload and its thresholds, parsed and validated once at collection.

The package uses no clock, file or network. It may import `core`.
"""
