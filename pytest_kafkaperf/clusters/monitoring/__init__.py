"""What brokers and partitions do while load runs: probes, samples, metrics and curves."""
