"""What a test declares: the workload and its thresholds, parsed and validated once.

Pure: no clock, no file, no network. It may import `core`.
"""
