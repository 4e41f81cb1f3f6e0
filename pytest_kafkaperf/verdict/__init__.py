"""Statistics and judgment. Read outcome, judge, limits, regression, side_by_side.

- outcome: verdicts, checks and judgments
- reasons: why a threshold has its outcome, and why a run cannot be compared
- judge: judges a test's thresholds over its trials; the interface of all comparisons
- limits: the result of one threshold, which is absolute, relative, or both
- scale: the log scale on which rounds are compared
- days: level and noise of a stored baseline, day by day
- regression: comparisons with a stored baseline
- sequential: the sequential test of side-by-side trials
- side_by_side: side-by-side comparisons, with a live baseline or the stored baseline's brokers
- detectable: minimum detectable changes, and calibration
- other_changes: changes of metrics without a threshold
- baseline_file: the content of a baseline file
- baseline_store: the folder of baseline files

Only the last two read and write files. The package may import `core` and `scenarios`, but not clusters or load.
"""
