"""Declarations of a test, parsed and validated once at collection. Read scenario, threshold, then fields.

- scenario: the workload of a test
- fields: field types of the markers
- rate: rates and shapes of rates
- payloads: sizes, keys and values of records
- threshold: threshold expressions

It uses no clock, file or network, and may import `core`.
"""
