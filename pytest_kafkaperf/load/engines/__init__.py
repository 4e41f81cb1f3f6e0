"""Kafka clients that generate the load.

- engine: interface of engines, and the engine of each client
- aiokafka: the first engine
"""
