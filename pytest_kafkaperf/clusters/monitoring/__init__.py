"""Measurements of brokers and partitions while load runs: probes, samples, metrics and curves."""
