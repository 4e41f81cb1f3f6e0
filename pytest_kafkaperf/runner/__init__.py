"""One test, from its declaration to its result. Read perftest, flow, decision, trial, retest, result.

- settings: a run's options, and code revisions
- perftest: a test's declarations, with the options applied
- unmeasured: refuses thresholds on metrics that a test does not measure
- round_length: how long rounds last if their duration is not declared
- perf_run: the state shared by a run's tests, and their results
- shared_clusters: a run's clusters and applications
- flow: runs one test from start to finish
- baseline: the stored rounds or the side that a test is compared with
- decision: runs trials until the test reaches a verdict
- trial: runs trials, on one side or two
- measure: takes measurements in scripts
- warmup: the warm-up before a trial's rounds
- quick_brokers: which tests use brokers with only the JVM's quick compiler
- cold_brokers: how cold brokers affect a verdict
- evidence: judges the trials that count
- retest: re-tests suspected regressions
- common_shift: detects a common cause of many suspected regressions
- result: trials, test results, and the result of the whole run
- baseline_update: chooses the trials that become the stored baseline
- time_budget: a shared deadline for all tests
- bottleneck: where time or throughput was lost
- drift: warnings about rounds that drift
- checkout: another revision's files and virtual environment
- removed_tests: tests that only the other revision has
- peer: the pytest process that runs the other revision
- peer_messages: the messages exchanged with that process
- rounds: a load on one side

This package may import every package except `reports` and `plugin`.
"""
