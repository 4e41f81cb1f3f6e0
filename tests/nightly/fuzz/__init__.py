"""Coverage-guided fuzzing of everything that is read; tests/README.md says how to run it."""
