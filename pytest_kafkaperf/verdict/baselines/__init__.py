"""Baselines: what their files hold, and the folder that has them."""
