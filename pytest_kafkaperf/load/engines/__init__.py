"""The Kafka clients that make the load.

- aiokafka: the first engine
"""
