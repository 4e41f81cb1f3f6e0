"""Coverage-guided fuzzing of everything that is read; CONTRIBUTING.md says how to run it."""
