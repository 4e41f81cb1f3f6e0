"""The aiokafka engine. Read worker, producers, consumer, sender, decoder.

- aiokafka_engine: the engine's interface
- client_config: client parameters that a test can set
- worker: one worker's part of a load
- clients: adapted versions of aiokafka's clients
- producers: base class of the producers, and transactions
- batch_producer: producers of prepared batches
- keyed_producer: producers of records with keys
- generated_producer: producers of records that are encoded one by one
- record_producer: producers that send record by record
- sender: sender with several in-flight requests per broker
- templates: batches encoded in advance
- encoder: encoding of batches and produce requests
- decoder: decoding of fetched batches
- consumer: consumers
- group_member: a consumer's commits and pauses in rebalances of its group
- log_reader: log reader for audits
"""
