"""The engine on aiokafka. Read worker, producers, consumer, sender, decoder.

- aiokafka_engine: the engine's interface
- client_config: client parameters that a test may set
- worker: one worker's part of a load
- clients: aiokafka's clients, adapted
- producers: the producers' base, with transactions
- batch_producer: producers of prepared batches
- keyed_producer: producers of records with keys
- record_producer: producers that send record by record
- sender: batches to brokers, several in flight
- templates: batches encoded in advance
- encoder: batches and produce requests as bytes
- decoder: fetched batches
- consumer: consumers
- log_reader: the reader of the log
"""
