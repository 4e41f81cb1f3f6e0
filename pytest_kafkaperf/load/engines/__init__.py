"""The Kafka clients that make the load.

- engine: the seam, and the engine of each client
- aiokafka: the first engine
"""
