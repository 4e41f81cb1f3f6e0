"""Parsing and validation of a test's declarations, done once at collection. Read scenario, threshold, then fields.

- scenario: a test's workload
- fields: field types for the markers
- rate: constant rates and shapes
- identify: identities of records in the input and output of an application
- payloads: record sizes, keys and values
- threshold: threshold expressions

This package does not use clocks, files or the network, and it may import only `core`.
"""
