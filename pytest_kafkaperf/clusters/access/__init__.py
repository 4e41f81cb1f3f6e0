"""Client access to a cluster: the protocol, login and certificates. Read access, logins.

- access: a client's access settings and TLS context
- logins: SASL logins with a user name and a password
- oauth: SASL logins with an access token
- kerberos: SASL logins with a Kerberos ticket
- tickets: Kerberos tickets and the messages of a login with them
- tokens: access tokens and where they come from
- renewal: access tokens for files that other processes read
- cloud_tokens: access tokens from AWS, Azure and Google
- cloud_logins: settings of these providers' Java libraries
- jaas: values of `sasl.jaas.config`
- client_properties: Kafka's client settings, from a file or a fixture
- stores: PEM and PKCS12 files

Settings have the same names as in Kafka's own clients, so a `--command-config` file for Kafka's tools also works here.
A setting that the plugin would read differently from Kafka, or that would not have any effect, is an error.
"""
