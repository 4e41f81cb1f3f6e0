"""A service of known cost: it moves records from one topic to another."""
