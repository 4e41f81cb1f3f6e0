"""Statistics and judgement. Read outcome, judge, limits, regression, side_by_side.

- outcome: verdicts, checks and judgements
- reasons: why a threshold has its outcome, and what keeps a run from being compared
- judge: thresholds judged over the trials of a test; the ways to compare them with a baseline
- limits: the result of one threshold, of an absolute limit, a comparison, or both
- scale: the log scale on which rounds are compared
- days: level and noise of a stored baseline, by days
- regression: judging against a stored baseline
- sequential: the sequential test side by side
- side_by_side: comparisons side by side, with a live baseline or the stored baseline's brokers
- detectable: minimum detectable changes, and calibration
- other_changes: changes of metrics without a threshold
- baseline_file: the content of a baseline file
- baseline_store: the folder of baseline files

Only the last two read and write files. It may import `core` and `scenarios`; it knows neither clusters nor load.
"""
