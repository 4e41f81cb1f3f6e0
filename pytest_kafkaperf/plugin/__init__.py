"""The pytest integration and the command line. Start with hooks, items, collection and kafka_perf.

- entry_point: imports hooks in every pytest run
- hooks: the hooks and fixtures that pytest calls
- items: detects perf tests
- options: options, ini keys and markers
- decorators: the markers as typed decorators
- misuse: checks for misspelled and misplaced options, ini keys and imports
- preparation: what the hooks do before the first perf test
- option_values: option values, parsed into settings
- collection: reads collected tests' markers
- calls: checks `kafka_perf` calls in test source code
- announcement: the lines that a run prints after collection
- perf_plugin: the hooks for runs with perf tests
- kafka_perf: the fixture
- conclusion: the end of a run, and the tests that the run left out
- console: progress and results in pytest's terminal
- benchmarks: adds perf tests to pytest-benchmark's files and table
- peer_side: the other revision's pytest process
- cli: the `kafkaperf` command
- starter: `kafkaperf init`
- bisect_revisions: `kafkaperf bisect`

This package may import every other package.

PYTEST_DONT_REWRITE: pytest would otherwise look for assertions here in every run without cached bytecode.
"""
