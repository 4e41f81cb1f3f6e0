"""One test from its declaration to its result: sessions, rounds, broker warm-up, capacity search, time budget.

It may import every package but `reports` and `plugin`.
"""
