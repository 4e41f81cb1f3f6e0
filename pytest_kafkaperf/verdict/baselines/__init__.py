"""Baselines: the content of their files, and the folder that stores them."""
