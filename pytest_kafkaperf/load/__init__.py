"""The load generator, independent of any Kafka client. Read messages, controller, schedule, ledger.

- messages: messages between controller and workers
- controller: control of one load, from the first connection to the last report
- allocation: worker counts
- shared_counters: memory shared by all workers
- pushed_tokens: access tokens for the workers, renewed by the main process
- clock: a round's clock, and exact timers
- schedule: due times of records
- payload: record values, generated in advance
- generation: records from payload functions, and identities of records
- join: join of an application's input and output
- identity: tags that identify received records
- ledger: batch outcomes for each producer
- recorder: histograms and time series
- audit: comparison of the log with the sent records
- backends: places where workers run
- engines: Kafka clients that generate the load

It may import `core`, `scenarios` and `clusters`.
"""
