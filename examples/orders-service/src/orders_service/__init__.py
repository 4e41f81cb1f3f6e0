"""A service between two topics: it reads orders, adds their priority, and writes them to the other topic."""
