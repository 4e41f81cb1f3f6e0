"""Statistics and judgment. Start with outcome, judge, limits, regression and side_by_side.

- outcome: verdicts, checks and judgments
- reasons: explanations of an outcome, and of why a run cannot be compared
- judge: judges a test's thresholds over its trials; defines the interface that all comparisons implement
- limits: the result of one threshold, which is absolute, relative, or both
- scale: the log scale on which rounds are compared
- days: a stored baseline's level and noise, day by day
- regression: comparisons with a stored baseline
- sequential: the sequential test for side-by-side trials
- student: Student's t distribution
- side_by_side: side-by-side comparisons, with a live baseline or the stored baseline's brokers
- unchanged_brokers: re-tests if neither Kafka nor its settings have changed since the baseline
- slower_machine: slowdowns that Kafka is not the cause of
- detectable: minimum detectable changes, and calibration
- other_changes: changes in metrics without a threshold
- baseline_file: the content of a baseline file
- baseline_store: the folder of baseline files

Only the last two modules read and write files. The package may import `core` and `scenarios`, but not clusters or load.
"""
