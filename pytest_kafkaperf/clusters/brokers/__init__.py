"""Brokers that the plugin starts: configuration, start, stop, and removal of what crashed runs left."""
