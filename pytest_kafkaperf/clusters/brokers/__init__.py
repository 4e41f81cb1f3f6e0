"""Brokers that the session owns: what they are told, how they start, stop and are swept."""
