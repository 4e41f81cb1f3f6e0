"""Requests to a cluster, besides load: topics, groups, checks before load, readiness."""
