"""The import of measurements from other tools: Kafka's performance tools."""
