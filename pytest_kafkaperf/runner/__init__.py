"""One test, from its declaration to its result. Read perftest, flow, decision, trial, retest, result.

- settings: the options of a run, and revisions of code
- perftest: the declaration of a test, with the options applied
- perf_run: what the tests of a run share, and their results
- shared_clusters: clusters and applications of a run
- flow: the way of one test, from top to bottom
- baseline: what a test is compared with
- decision: trials until they decide
- trial: one trial after the other, on one side or two
- measure: measurements for scripts
- warmup: the warm-up of a trial
- cold_brokers: what rounds show of cold brokers
- evidence: which trials count, and their judgement
- retest: ways to re-test a suspected regression
- common_shift: a cause that suspected regressions have in common
- result: trials, the results of tests, and that of a run
- baseline_update: which trials become the stored baseline
- time_budget: one deadline for all tests
- bottleneck: where time or rate went
- drift: warnings of rounds that drift
- checkout: files and environment of another revision
- removed_tests: tests that only the other revision has
- peer: the pytest of the other revision
- peer_messages: its messages
- rounds: one load on one side

It may import every package but `reports` and `plugin`.
"""
