"""Readings of brokers, partitions and groups while load runs. Read probes, watchers, readings.

- probes: what reads CPU time, memory and JMX pages
- compiler: CPU time of the JVM's compilers
- watchers: brokers, partitions and committed offsets, read in the background
- partitions: states of partitions, and the events that they show
- tracks: samples, and one measurement over time
- readings: metrics made of them
"""
