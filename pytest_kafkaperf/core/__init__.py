"""Foundations: errors, units, the metric catalogue, text and file handling, facts about the machine.

This package imports no other package of the plugin, no Kafka client and no pytest.
"""
