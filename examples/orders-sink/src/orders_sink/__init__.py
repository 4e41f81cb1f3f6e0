"""A sink that reads orders and stores them in SQLite. Kafka sees only its consumer group."""
