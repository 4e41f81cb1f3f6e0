"""Load: what worker processes do, and how the controller leads them."""
