"""One test, from its declaration to its result. Read perftest, perf_run, trial, evidence, result.

- settings: the options of a run, and revisions of code
- perftest: the declaration of a test, with the options applied
- perf_run: what the tests of a run share, and their results
- shared_clusters: clusters and applications of a run
- measure: measurements for scripts
- trial: the trials of one test
- warmup: the warm-up of a trial
- warmth: what rounds show of cold brokers
- evidence: which trials count, and their judgement
- retest: what re-tests a suspected regression side by side
- result: trials, the results of tests, and that of a run
- baseline_update: which trials become the stored baseline
- time_budget: one deadline for all tests
- bottleneck: where time or rate went
- drift: warnings of rounds that drift
- unjudged: thresholds that no test judged
- checkout: files and environment of another revision
- peer: the pytest of the other revision
- peer_messages: its messages
- rounds: one load on one side

It may import every package but `reports` and `plugin`.
"""
