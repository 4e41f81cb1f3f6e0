"""Foundations that depend on neither Kafka nor pytest. Read errors, units, metrics, problems, notices.

- errors: user-facing exceptions, and `warn`
- text: safe parsing and display of untrusted text
- units: parsing and formatting of quantities
- metrics: the metric catalog
- problems: reasons for INVALID rounds, with their messages
- notices: warnings, notes and events, with their messages
- spans: where a test's time goes
- environment: facts about the machine, the software and the commit
- files: atomic writes and folder locks
- detached: calls in threads that are never joined
- signals: Ctrl-C handling during setup and cleanup
- supervisor: a process that cleans up after a killed pytest

This package does not import the plugin's other packages.
"""
