"""Foundations without Kafka and pytest. Read errors, units, metrics, notices, remarks.

- errors: the exceptions that users see, and `warn`
- text: safe reading and display of foreign text
- units: quantities, parsed and formatted
- metrics: the catalogue of metrics
- notices: problems that make a round INVALID, with the table of their texts; events
- remarks: warnings and notes, with the table of their texts
- spans: where the time of a test goes
- environment: facts about the machine, the software and the commit
- files: atomic writes and folder locks
- signals: Ctrl-C during set-up and clean-up
- supervisor: the process that stops what a killed pytest leaves

It imports no other package of the plugin.
"""
