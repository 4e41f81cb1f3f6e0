"""Kafka clusters, whether started by the plugin or run by others. Read target, spec, cluster, provision.

- target: values of `--kafka-cluster` and `--kafka-compare`
- spec: describes the cluster that a test requests
- cluster: a running cluster, and values that fixtures may return
- auto: chooses the provider for `auto`
- provision: starts a cluster or connects to one
- external: clusters that others run
- application: applications under test, with one or several instances
- recipe: arguments of `kafka_app`
- instance: one process or container of an application
- membership: an application's members in its consumer group
- child_process: a process with a log
- access: clients' connection settings
- admin: requests other than load
- monitoring: readings taken while load runs
- brokers: brokers that a run starts as processes
- docker: brokers and applications in containers

This package may import `core` and `scenarios`; a provider's libraries are imported only when a cluster starts.
"""
