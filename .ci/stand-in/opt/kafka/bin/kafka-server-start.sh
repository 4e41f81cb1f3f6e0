#!/usr/bin/env bash
# Starts a broker; the heap is that of Kafka's own script.
export KAFKA_HEAP_OPTS=${KAFKA_HEAP_OPTS:--Xmx1G -Xms1G}
exec /opt/kafka/bin/kafka-run-class.sh kafka.Kafka "$@"
