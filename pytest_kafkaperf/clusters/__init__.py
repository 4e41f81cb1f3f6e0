"""Kafka clusters: started by the session (`local`, `docker`) or by others (`external`), reached and watched.

`provision` gives one for a `ClusterSpec`. It may import `core` and `scenario`; a provider's libraries load when a
cluster starts.
"""
