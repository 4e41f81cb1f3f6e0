#!/usr/bin/env bash
# Runs a class of Kafka with the options that Kafka's own script of this name takes from the environment.
# Logs go to standard output by slf4j-simple, which is what the jars have.
set -euo pipefail

if [ -z "${KAFKA_JVM_PERFORMANCE_OPTS:-}" ]; then
    KAFKA_JVM_PERFORMANCE_OPTS="-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true"
fi
logger=org.slf4j.simpleLogger
log_options=(
    "-D$logger.logFile=System.out"
    "-D$logger.showDateTime=true"
    "-D$logger.dateTimeFormat=[yyyy-MM-dd HH:mm:ss,SSS]"
    "-D$logger.defaultLogLevel=${KAFKA_LOG4J_ROOT_LOGLEVEL:-info}"
)
IFS=, read -r -a levels <<<"${KAFKA_LOG4J_LOGGERS:-}" # name=LEVEL,name=LEVEL
for level in "${levels[@]}"; do log_options+=("-D$logger.log.$level"); done

# Split at blanks on purpose: each variable holds several options.
# shellcheck disable=SC2086
exec java ${KAFKA_HEAP_OPTS:--Xmx256M} $KAFKA_JVM_PERFORMANCE_OPTS ${KAFKA_GC_LOG_OPTS:-} ${KAFKA_JMX_OPTS:-} \
    "${log_options[@]}" ${KAFKA_LOG4J_OPTS:-} -cp '/opt/kafka/libs/*' ${KAFKA_OPTS:-} "$@"
