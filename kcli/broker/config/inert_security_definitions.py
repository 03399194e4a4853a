"""ROWS, JAVA_TLS and LOGIN_REFRESH: the configurations of authorization, TLS, SASL and delegation tokens.

kcli knows and shows them and acts on none. `inert_configs` loads them when they are named. A broker refuses
to set one of `ROWS`, so that nobody believes a door to be closed; the others close none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.config.config_definition import (
    UpdateMode,
    at_least,
    between,
    boolean,
    class_name,
    double,
    integer,
    long,
    one_of,
    optional,
    password,
    short,
    string,
    words,
)

if TYPE_CHECKING:
    from kcli.broker.config.config_definition import ConfigDefinition

_PER_BROKER = UpdateMode.PER_BROKER

ROWS: tuple[ConfigDefinition[Any], ...] = (
    # Who gets in
    class_name(
        "principal.builder.class",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "Class that makes a principal of a login.",
        mode=_PER_BROKER,
    ),
    string(
        "security.inter.broker.protocol",
        "PLAINTEXT",
        "Security protocol that brokers use among themselves.",
        check=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    optional(string("security.providers", "", "Classes that add security algorithms to the JVM.")),
    password("delegation.token.secret.key", "Key that signs delegation tokens; without it there are none."),
    long(
        "delegation.token.max.lifetime.ms",
        604_800_000,
        "Time after which a delegation token cannot be renewed, in ms.",
        check=at_least(1),
    ),
    long(
        "delegation.token.expiry.time.ms",
        86_400_000,
        "Time until a delegation token must be renewed, in ms.",
        check=at_least(1),
    ),
    long(
        "delegation.token.expiry.check.interval.ms",
        3_600_000,
        "How often to look for expired delegation tokens, in ms.",
        check=at_least(1),
    ),
    # TLS
    optional(
        class_name("ssl.engine.factory.class", "", "Class that makes the TLS engines.", mode=_PER_BROKER)
    ),
    # SASL
    string(
        "sasl.mechanism.inter.broker.protocol",
        "GSSAPI",
        "SASL mechanism that brokers use among themselves.",
        mode=_PER_BROKER,
    ),
    string("sasl.mechanism.controller.protocol", "GSSAPI", "SASL mechanism of connections to controllers."),
    optional(
        class_name(
            "sasl.server.callback.handler.class", "", "Class that verifies what clients send to log in."
        )
    ),
    optional(
        class_name(
            "sasl.client.callback.handler.class",
            "",
            "Class that answers for the broker when it logs in elsewhere.",
        )
    ),
    optional(
        class_name("sasl.login.callback.handler.class", "", "Class that supplies credentials to a login.")
    ),
    optional(class_name("sasl.login.class", "", "Class that performs logins.")),
    optional(
        integer(
            "sasl.login.connect.timeout.ms", 0, "Time to connect to the server that issues tokens, in ms."
        )
    ),
    optional(
        integer("sasl.login.read.timeout.ms", 0, "Time to wait for the server that issues tokens, in ms.")
    ),
    long("sasl.login.retry.backoff.ms", 100, "First pause before that server is asked again, in ms."),
    long(
        "sasl.login.retry.backoff.max.ms", 10_000, "Longest pause before that server is asked again, in ms."
    ),
    # Kerberos
    optional(
        string(
            "sasl.kerberos.service.name",
            "",
            "Name of the Kerberos principal that brokers run as.",
            mode=_PER_BROKER,
        )
    ),
    words(
        "sasl.kerberos.principal.to.local.rules",
        ("DEFAULT",),
        "Rules that turn a Kerberos principal into a short name.",
        mode=_PER_BROKER,
    ),
    string("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", "Path of the program `kinit`.", mode=_PER_BROKER),
    # OAuth: tokens that the broker accepts
    words("sasl.oauthbearer.expected.audience", (), "Audiences of which a token must name one."),
    optional(string("sasl.oauthbearer.expected.issuer", "", "Issuer that a token must name.")),
    string("sasl.oauthbearer.scope.claim.name", "scope", "Claim with a token's scope."),
    string("sasl.oauthbearer.sub.claim.name", "sub", "Claim with a token's subject."),
    integer(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "Difference between the clocks of broker and issuer that is tolerated, in seconds.",
    ),
    class_name(
        "sasl.oauthbearer.jwt.validator.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        "Class that validates tokens.",
    ),
    optional(string("sasl.oauthbearer.jwks.endpoint.url", "", "Address of the issuer's public keys.")),
    long(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        "How often the issuer's public keys are read again, in ms.",
    ),
    long(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        100,
        "First pause before the public keys are asked for again, in ms.",
    ),
    long(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        10_000,
        "Longest pause before the public keys are asked for again, in ms.",
    ),
    # OAuth: tokens that the broker asks for
    class_name(
        "sasl.oauthbearer.jwt.retriever.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "Class that gets tokens.",
    ),
    optional(string("sasl.oauthbearer.token.endpoint.url", "", "Address at which tokens are issued.")),
    optional(string("sasl.oauthbearer.scope", "", "Scope to ask for.")),
    optional(string("sasl.oauthbearer.client.credentials.client.id", "", "Client id to ask with.")),
    password("sasl.oauthbearer.client.credentials.client.secret", "Secret of that client id."),
    optional(
        string("sasl.oauthbearer.assertion.file", "", "File of a ready assertion that is sent for a token.")
    ),
    optional(
        string(
            "sasl.oauthbearer.assertion.template.file",
            "",
            "File with claims and headers of the assertions that are made.",
        )
    ),
    optional(
        string(
            "sasl.oauthbearer.assertion.private.key.file",
            "",
            "File of the private key that signs assertions.",
        )
    ),
    password(
        "sasl.oauthbearer.assertion.private.key.passphrase", "Passphrase of the key that signs assertions."
    ),
    string(
        "sasl.oauthbearer.assertion.algorithm",
        "RS256",
        "Algorithm that signs assertions: RS256 or ES256.",
        check=lambda value: one_of("ES256", "RS256")(value.upper()),
    ),
    optional(string("sasl.oauthbearer.assertion.claim.aud", "", "Audience of an assertion.")),
    optional(string("sasl.oauthbearer.assertion.claim.iss", "", "Issuer of an assertion.")),
    optional(string("sasl.oauthbearer.assertion.claim.sub", "", "Subject of an assertion.")),
    integer(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        300,
        "Time after which an assertion expires, in seconds.",
        check=between(0, 86_400),
    ),
    integer(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        60,
        "Time before its making from which an assertion is valid, in seconds.",
        check=between(0, 3600),
    ),
    boolean("sasl.oauthbearer.assertion.claim.jti.include", False, "Whether an assertion gets a unique id."),
)

JAVA_TLS: tuple[ConfigDefinition[Any], ...] = (
    string("ssl.protocol", "TLSv1.3", "Version of TLS that contexts are made for.", mode=_PER_BROKER),
    optional(string("ssl.provider", "", "Security provider of TLS connections.", mode=_PER_BROKER)),
    optional(
        string("ssl.secure.random.implementation", "", "Random number generator of TLS.", mode=_PER_BROKER)
    ),
    string("ssl.keymanager.algorithm", "SunX509", "Algorithm of the key manager.", mode=_PER_BROKER),
    string("ssl.trustmanager.algorithm", "PKIX", "Algorithm of the trust manager.", mode=_PER_BROKER),
    string(
        "ssl.endpoint.identification.algorithm",
        "https",
        "How the host name in a server's certificate is checked; empty is not at all.",
        mode=_PER_BROKER,
    ),
)
"""What only steers Java, or the broker as a client of others."""

LOGIN_REFRESH: tuple[ConfigDefinition[Any], ...] = (
    long(
        "sasl.kerberos.min.time.before.relogin",
        60_000,
        "Least time between two Kerberos logins, in ms.",
        mode=_PER_BROKER,
    ),
    double(
        "sasl.kerberos.ticket.renew.window.factor",
        0.8,
        "Part of a ticket's lifetime after which it is renewed, as a fraction of 1.",
        mode=_PER_BROKER,
    ),
    double(
        "sasl.kerberos.ticket.renew.jitter",
        0.05,
        "Random part added to the time of a ticket's renewal, as a fraction of 1.",
        mode=_PER_BROKER,
    ),
    double(
        "sasl.login.refresh.window.factor",
        0.8,
        "Part of a token's lifetime after which it is refreshed, as a fraction of 1.",
        mode=_PER_BROKER,
    ),
    double(
        "sasl.login.refresh.window.jitter",
        0.05,
        "Random part added to the time of a token's refresh, as a fraction of 1.",
        mode=_PER_BROKER,
    ),
    short(
        "sasl.login.refresh.min.period.seconds",
        60,
        "Least time between two refreshes of a token, in seconds.",
        mode=_PER_BROKER,
    ),
    short(
        "sasl.login.refresh.buffer.seconds",
        300,
        "Time before its expiry by which a token is refreshed, in seconds.",
        mode=_PER_BROKER,
    ),
)
"""How often the broker would renew its own logins."""
