"""The integration with pytest, and the command line. Start with hooks, items, collection and kafka_perf.

- hooks: the entry point, which pytest loads in every run
- items: detection of perf tests
- options: options, ini keys and markers
- option_values: option values, parsed into settings
- collection: the markers of collected tests
- calls: `kafka_perf` calls in test source code
- announcement: the lines that a run prints after collection
- perf_plugin: the hooks for a run with perf tests
- kafka_perf: the fixture
- conclusion: the end of a run, and the tests that it left out
- console: progress and table in pytest's terminal
- benchmarks: perf tests in pytest-benchmark's files and table
- peer_side: the other revision's pytest
- cli: the command `kafkaperf`
- starter: `kafkaperf init`
- bisect_revisions: `kafkaperf bisect`

The package may import every other package.
"""
