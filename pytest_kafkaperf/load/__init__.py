"""The load generator: a controller, worker processes, producers, consumers, and what they report.

The only package that touches aiokafka's producer and fetcher. It may import `core`, `scenario` and `clusters`.
"""
