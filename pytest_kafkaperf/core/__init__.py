"""Foundations without Kafka and pytest. Read errors, units, metrics, problems, notices.

- errors: the exceptions that users see, and `warn`
- text: safe reading and display of foreign text
- units: quantities, parsed and formatted
- metrics: the catalogue of metrics
- problems: what makes a round INVALID, with the table of texts
- notices: warnings, notes and events, with the table of texts
- spans: where the time of a test goes
- environment: facts about the machine, the software and the commit
- files: atomic writes and folder locks
- signals: Ctrl-C during set-up and clean-up
- supervisor: the process that stops what a killed pytest leaves

It imports no other package of the plugin.
"""
