#!/usr/bin/env bash
# Formats storage; the real image's wrapper cannot add SCRAM users, and this can.
exec /opt/kafka/bin/kafka-run-class.sh kafka.tools.StorageTool "$@"
