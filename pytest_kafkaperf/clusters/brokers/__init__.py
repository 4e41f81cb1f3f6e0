"""Brokers that a run starts as processes. Read fleet, config, local_brokers.

- fleet: the brokers of one cluster: their start, their supervision, and actions on them
- config: what a broker is told
- certificates: certificates of brokers
- local_brokers: the provider `local`
- distribution: one version of Kafka in the user's cache
- java: the Java that runs it
- downloads: downloads from Maven
- registry: the registry that a download comes from
- run_folders: files of one cluster or application of a run
- jmx_exporter: the Prometheus JMX exporter
"""
