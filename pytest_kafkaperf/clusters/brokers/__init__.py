"""Brokers that a run starts as processes. Read fleet, config, local_brokers.

- fleet: start, supervision and actions of one cluster's brokers
- config: broker properties
- certificates: broker certificates
- local_brokers: the provider `local`
- distribution: one version of Kafka in the user's cache
- java: the Java that runs it
- downloads: downloads from Maven
- registry: the registry that a download comes from
- run_folders: files of one cluster or application of a run
- jmx_exporter: the Prometheus JMX exporter
"""
