"""Brokers that a run starts as processes. Read fleet, config, local_brokers.

- fleet: starts and supervises one cluster's brokers, and runs actions on them
- config: broker properties
- certificates: broker certificates
- token_issuer: access tokens for clients
- local_brokers: the provider `local`
- distribution: one Kafka version in the user's cache
- java: the Java runtime for brokers
- downloads: downloads from Maven
- registry: the registry that a download comes from
- run_folders: the files of a run's cluster or application
- jmx_exporter: the Prometheus JMX exporter
"""
