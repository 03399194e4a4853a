"""SecuritySettings: the broker configurations of logins, TLS and authorization that kcli acts on.

Those without effect, which a broker refuses, are in `inert_security_definitions`.
"""

from __future__ import annotations

from kcli.broker.config.config_definition import (
    UpdateMode,
    at_least,
    boolean,
    integer,
    long,
    one_of,
    optional,
    password,
    string,
    words,
)

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_PER_BROKER = UpdateMode.PER_BROKER
_AUTHORIZERS = ("", "standard", STANDARD_AUTHORIZER)

OF_LISTENERS = ("ssl.",)
"""How the names begin of settings that each listener may have for itself."""


def _authorizer(value: str) -> str | None:
    return None if value in _AUTHORIZERS else f"must be empty or `{STANDARD_AUTHORIZER}`"


def _principals(value: str) -> str | None:
    wrong = [text for text in split_principals(value) if ":" not in text]
    return f"`{wrong[0]}` is not a principal, as in `User:alice`" if wrong else None


def split_principals(value: str) -> tuple[str, ...]:
    """Return the principals in a text with semicolons, as `super.users` has them."""
    return tuple(text for each in value.split(";") if (text := each.strip()))


class SecuritySettings:
    """A broker's settings of security; on an instance each row reads as its value."""

    # What a principal may do
    authorizer_class_name = string(
        "authorizer.class.name",
        "",
        "Class that decides which principal may do what; `standard` is short for Kafka's own.",
        check=_authorizer,
    )
    super_users = string(
        "super.users",
        "",
        "Principals that may do everything, separated by semicolons, as in `User:admin;User:root`.",
        check=_principals,
        internal=True,
    )
    allow_everyone_if_no_acl_found = boolean(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether everybody may use a resource that no access control entry is about.",
        internal=True,
    )

    # TLS
    ssl_client_auth = string(
        "ssl.client.auth",
        "none",
        "Whether clients need a certificate: required, requested or none.",
        check=one_of("required", "requested", "none"),
        mode=_PER_BROKER,
    )
    ssl_principal_mapping_rules = string(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "Rules that turn the name in a client's certificate into a principal.",
    )
    ssl_enabled_protocols = words(
        "ssl.enabled.protocols",
        ("TLSv1.2", "TLSv1.3"),
        "Versions of TLS that connections may use.",
        mode=_PER_BROKER,
    )
    ssl_cipher_suites = words(
        "ssl.cipher.suites",
        (),
        "Cipher suites that connections may use; an empty list is the choice of OpenSSL.",
        mode=_PER_BROKER,
    )
    ssl_allow_dn_changes = boolean(
        "ssl.allow.dn.changes", False, "Whether a new keystore may have another distinguished name."
    )
    ssl_allow_san_changes = boolean(
        "ssl.allow.san.changes", False, "Whether a new keystore may lack alternative names of the old one."
    )
    ssl_keystore_type = string(
        "ssl.keystore.type", "JKS", "Format of the keystore: JKS, PKCS12 or PEM.", mode=_PER_BROKER
    )
    ssl_keystore_location = optional(
        string("ssl.keystore.location", "", "File of the keystore.", mode=_PER_BROKER)
    )
    ssl_keystore_password = password(
        "ssl.keystore.password", "Password of the keystore file.", mode=_PER_BROKER
    )
    ssl_keystore_key = password(
        "ssl.keystore.key", "Private key of the broker, as PEM text.", mode=_PER_BROKER
    )
    ssl_keystore_certificate_chain = password(
        "ssl.keystore.certificate.chain", "Certificates of the broker, as PEM text.", mode=_PER_BROKER
    )
    ssl_key_password = password("ssl.key.password", "Password of the private key.", mode=_PER_BROKER)
    ssl_truststore_type = string(
        "ssl.truststore.type", "JKS", "Format of the truststore: JKS, PKCS12 or PEM.", mode=_PER_BROKER
    )
    ssl_truststore_location = optional(
        string("ssl.truststore.location", "", "File of the truststore.", mode=_PER_BROKER)
    )
    ssl_truststore_password = password(
        "ssl.truststore.password", "Password of the truststore file.", mode=_PER_BROKER
    )
    ssl_truststore_certificates = password(
        "ssl.truststore.certificates", "Trusted certificates, as PEM text.", mode=_PER_BROKER
    )

    # How a client logs in; `listener_properties` has the values of each listener
    sasl_enabled_mechanisms = words(
        "sasl.enabled.mechanisms",
        ("GSSAPI",),
        "SASL mechanisms that clients may use.",
        mode=UpdateMode.PER_BROKER,
    )
    sasl_jaas_config = password(
        "sasl.jaas.config",
        "Login module of a listener and mechanism, with the users that it knows.",
        mode=UpdateMode.PER_BROKER,
    )
    connections_max_reauth_ms = long(
        "connections.max.reauth.ms",
        0,
        "Time after which a SASL client must log in again, in ms; 0 is never.",
    )
    connection_failed_authentication_delay_ms = integer(
        "connection.failed.authentication.delay.ms",
        100,
        "How long a failed login waits for its response, in ms.",
        check=at_least(0),
    )
    sasl_server_max_receive_size = integer(
        "sasl.server.max.receive.size",
        512 << 10,
        "Largest request before a client has logged in, in bytes.",
        check=at_least(1),
    )


LISTENER_CONFIGS = frozenset(
    row.name
    for row in (
        SecuritySettings.sasl_enabled_mechanisms,
        SecuritySettings.sasl_jaas_config,
        SecuritySettings.connections_max_reauth_ms,
        SecuritySettings.sasl_server_max_receive_size,
    )
)
"""What a listener can have for itself, with its prefix."""
