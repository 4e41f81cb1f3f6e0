"""A test's declarations, parsed and validated once at collection. Read scenario, threshold, then fields.

- scenario: a test's workload
- fields: field types of the markers
- rate: constant rates and shapes
- payloads: sizes, keys and values of records
- threshold: threshold expressions

It does not use clocks, files or the network, and may import `core`.
"""
