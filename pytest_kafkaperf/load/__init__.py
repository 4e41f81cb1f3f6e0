"""The load generator, without any Kafka client. Read messages, controller, schedule, ledger.

- messages: what controller and workers send to each other
- controller: one load, from the first connection to the last report
- allocation: how many workers run what
- shared_counters: memory that all workers share
- clock: the clock of a round, and exact timers
- schedule: when records are due
- payload: values of records, made in advance
- identity: tags of records, and what received records are recognized by
- ledger: what became of each producer's batches
- recorder: histograms and time series
- audit: the log compared with what was sent
- backends: where workers run
- engines: the Kafka clients that make the load

It may import `core`, `scenarios` and `clusters`.
"""
