"""Producers of three kinds: batches without keys, batches by key, and single records."""
