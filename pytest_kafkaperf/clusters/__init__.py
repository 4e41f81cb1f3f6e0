"""Kafka clusters that the plugin starts (`local`, `docker`) or that others run (`external`), and their monitoring.

`provision` returns a cluster for a `ClusterSpec`. This package may import `core` and `scenarios`; the
libraries of a provider are imported when a cluster starts.
"""
