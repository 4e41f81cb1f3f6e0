"""Verdicts: statistics, thresholds judged over rounds, and the baselines that they are compared with.

Pure, but for `baselines`. It may import `core` and `scenario`, and knows neither clusters nor load.
"""
