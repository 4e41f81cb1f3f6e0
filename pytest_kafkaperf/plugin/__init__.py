"""pytest's side, and the command line. Read hooks, items, collection, kafka_perf, perf_plugin.

- hooks: what pytest loads in every run
- items: which items are perf tests
- options: options, ini keys and markers
- option_values: their values, parsed to settings
- collection: markers of collected tests
- calls: calls of `kafka_perf` in their source
- announcement: what a run prints after the collection
- perf_plugin: hooks of a run with perf tests
- kafka_perf: the fixture
- conclusion: how a run ends, and what it left out
- console: progress and table in pytest's terminal
- benchmarks: perf tests in pytest-benchmark's files
- peer_side: the pytest of the other revision
- cli: the command `kafkaperf`
- starter: `kafkaperf init`
- bisect_revisions: `kafkaperf bisect`

It may import every other package.
"""
