"""The output of other tools, read into rounds: Kafka's own tools, OpenMessaging Benchmark."""
