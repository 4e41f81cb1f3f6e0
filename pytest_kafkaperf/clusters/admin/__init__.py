"""Requests other than load. Read connection, admin, wire.

- connection: plain clients, bounded calls, and the wait until brokers are ready
- admin: topics, groups and transactions of a run
- wire: requests that aiokafka lacks
- preflight: checks before load
- acls: permissions, and how to grant them
- run_names: names of topics and groups of a run
"""
