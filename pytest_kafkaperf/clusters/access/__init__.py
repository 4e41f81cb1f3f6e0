"""Client access to a cluster: protocol, login and certificates. Read access, logins.

- access: the access of a client, with its TLS context
- logins: SASL logins
- client_properties: Kafka's settings of clients, from a file or a fixture
- stores: PEM and PKCS12 files

The setting names are those of Kafka's own clients, so that the file for `--command-config` of Kafka's tools works here
as well. Settings that the plugin would read differently from Kafka, or that would have no effect, are errors.
"""
