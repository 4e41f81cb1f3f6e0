"""A service between two topics: reads orders, adds their priority, and writes them to the other topic."""
