"""Brokers that the session starts: configuration, start, stop, and removal of what crashed sessions left."""
