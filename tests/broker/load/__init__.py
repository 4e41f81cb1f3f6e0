"""Tests of the load engine: its arithmetic, its parts, and whole rounds on a real broker."""
