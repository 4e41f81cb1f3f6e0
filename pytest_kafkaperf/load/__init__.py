"""The load generator: a controller, worker processes, producers, consumers, and their reports.

This is the only package that uses aiokafka's producer and fetcher. It may import `core`, `scenarios` and `clusters`.
"""
