"""Readings of brokers, partitions and groups, taken while load runs. Read probes, watchers, readings.

- probes: readers of CPU time, memory and JMX pages
- compiler: CPU time used by the JVM's compilers
- watchers: background readings of brokers, partitions and groups
- rebalances: rebalances of a watched group
- partitions: states of partitions, and the events that they reveal
- tracks: samples, and single measurements over time
- readings: metrics derived from samples
"""
