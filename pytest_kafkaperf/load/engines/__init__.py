"""Kafka clients that generate the load.

- engine: the interface of engines, and the engine for each client
- aiokafka: the first engine
"""
