"""The integration with pytest, and the command line. Read hooks, items, collection, kafka_perf, perf_plugin.

- hooks: what pytest loads in every run
- items: which items are perf tests
- options: options, ini keys and markers
- option_values: option values, parsed into settings
- collection: the markers of collected tests
- calls: `kafka_perf` calls in the source of tests
- announcement: what a run prints after collection
- perf_plugin: the hooks of a run with perf tests
- kafka_perf: the fixture
- conclusion: how a run ends, and what it left out
- console: progress and table in pytest's terminal
- benchmarks: perf tests in pytest-benchmark's files and table
- peer_side: the pytest of the other revision
- cli: the command `kafkaperf`
- starter: `kafkaperf init`
- bisect_revisions: `kafkaperf bisect`

It may import every other package.
"""
