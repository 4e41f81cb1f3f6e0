"""One test, from its declaration to its result. Read perftest, flow, decision, trial, retest, result.

- settings: the options of a run, and revisions of code
- perftest: what a test declares, with the options applied
- perf_run: what the tests of a run share, and their results
- shared_clusters: a run's clusters and applications
- flow: runs one test from start to end
- baseline: what a test is compared with
- decision: runs trials until they decide
- trial: runs trials, on one side or two
- measure: measurements in scripts
- warmup: the warm-up of a trial
- cold_brokers: how cold brokers affect a verdict
- evidence: which trials count, and their judgment
- retest: ways to re-test a suspected regression
- common_shift: a common cause of many suspected regressions
- result: trials, the results of tests, and the result of a run
- baseline_update: which trials become the stored baseline
- time_budget: one deadline for all tests
- bottleneck: where time or throughput was lost
- drift: warnings about rounds that drift
- checkout: files and virtual environment of another revision
- removed_tests: tests that only the other revision has
- peer: the pytest of the other revision
- peer_messages: the messages to and from it
- rounds: a load on one side

It may import every package except `reports` and `plugin`.
"""
