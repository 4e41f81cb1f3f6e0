"""Requests to a cluster besides load: topics, groups, readiness, and checks before the load."""
