"""Requests other than load. Read connection, admin, groups.

- connection: plain clients, calls with a timeout, and waiting until brokers are ready
- relogin: connections that log in again before their login expires
- admin: a run's topics, groups and transactions
- ticket_provider: Kerberos tickets for connections
- wire: requests that aiokafka does not support
- schema_request: requests in Kafka's own message schemas
- groups: groups of every protocol
- preflight: checks before the load
- acls: permissions and how to grant them
- run_names: names for a run's topics and groups
"""
