"""The load generator, without any Kafka client. Read messages, controller, schedule, ledger.

- messages: messages between controller and workers
- controller: one load, from the first connection to the last report
- allocation: numbers of workers
- shared_counters: memory that all workers share
- clock: a round's clock, and exact timers
- schedule: due times of records
- payload: record values, generated in advance
- identity: tags, which identify received records
- ledger: outcomes of each producer's batches
- recorder: histograms and time series
- audit: comparison of the log with the sent records
- backends: where workers run
- engines: Kafka clients that generate the load

It may import `core`, `scenarios` and `clusters`.
"""
