"""Kafka clusters that the plugin starts or that others run. Read target, spec, cluster, provision.

- target: values of `--kafka-cluster` and `--kafka-compare`
- spec: the cluster that a test requests
- cluster: a running cluster, and what fixtures may return
- auto: the provider that `auto` stands for
- provision: starts or reaches a cluster
- external: clusters that others run
- application: applications under test
- child_process: a process with a log
- access: how clients get in
- admin: requests other than load
- monitoring: readings while load runs
- brokers: brokers that a run starts as processes
- docker: the same in containers

It may import `core` and `scenarios`; the libraries of a provider are imported when a cluster starts.
"""
