"""One test from its declaration to its result: trials, rounds, broker warm-up, capacity search, time budget.

It may import every package but `reports` and `plugin`.
"""
