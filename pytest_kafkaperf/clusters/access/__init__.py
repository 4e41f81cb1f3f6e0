"""Client access to a cluster: protocol, login and certificates. Read access, logins.

- access: a client's access settings and TLS context
- logins: SASL logins
- client_properties: Kafka's client settings, from a file or a fixture
- stores: PEM and PKCS12 files

Settings have the same names as in Kafka's own clients, so a file for the `--command-config` of Kafka's tools works here
as well. Settings that the plugin would read differently from Kafka, or that would have no effect, are errors.
"""
