"""Brokers and applications in containers. Read docker_brokers, container, daemon.

- docker_brokers: the `docker` provider
- container: one broker or application in a container
- daemon: the Docker daemon and its images
"""
