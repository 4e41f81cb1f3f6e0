"""Foundations without Kafka and pytest. Read errors, units, metrics, problems, notices.

- errors: exceptions that users see, and `warn`
- text: safe reading and display of foreign text
- units: quantities, parsed and formatted
- metrics: the metric catalogue
- problems: reasons why a round is INVALID, with their texts
- notices: warnings, notes and events, with their texts
- spans: where a test's time goes
- environment: facts about the machine, the software and the commit
- files: atomic writes and folder locks
- signals: Ctrl-C during setup and cleanup
- supervisor: a process that cleans up after a killed pytest

It imports no other package of the plugin.
"""
