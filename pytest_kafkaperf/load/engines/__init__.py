"""Kafka clients that generate the load.

- engine: the engine interface, and the engine for each client
- aiokafka: the first engine
"""
