"""Producers of each kind: prebuilt batches, batches by key, single records."""
