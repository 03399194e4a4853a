"""The names of a client's `ssl.` and `sasl.` properties, and warnings of those that do nothing (Kafka classes
`SslConfigs` and `SaslConfigs`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.errors import nearest_hint

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIXES = ("ssl.", "sasl.")

NAMES = {
    "ssl.": (
        "cipher.suites enabled.protocols endpoint.identification.algorithm engine.factory.class key.password"
        " keymanager.algorithm keystore.certificate.chain keystore.key keystore.location keystore.password"
        " keystore.type protocol provider secure.random.implementation trustmanager.algorithm"
        " truststore.certificates truststore.location truststore.password truststore.type"
    ),
    "sasl.": "client.callback.handler.class jaas.config mechanism",
    "sasl.kerberos.": (
        "kinit.cmd min.time.before.relogin service.name ticket.renew.jitter ticket.renew.window.factor"
    ),
    "sasl.login.": (
        "callback.handler.class class connect.timeout.ms read.timeout.ms refresh.buffer.seconds"
        " refresh.min.period.seconds refresh.window.factor refresh.window.jitter retry.backoff.max.ms"
        " retry.backoff.ms"
    ),
    "sasl.oauthbearer.": (
        "assertion.algorithm assertion.claim.aud assertion.claim.exp.seconds assertion.claim.iss"
        " assertion.claim.jti.include assertion.claim.nbf.seconds assertion.claim.sub assertion.file"
        " assertion.private.key.file assertion.private.key.passphrase assertion.template.file"
        " client.credentials.client.id client.credentials.client.secret clock.skew.seconds expected.audience"
        " expected.issuer header.urlencode jwks.endpoint.refresh.ms jwks.endpoint.retry.backoff.max.ms"
        " jwks.endpoint.retry.backoff.ms jwks.endpoint.url jwt.retriever.class jwt.validator.class scope"
        " scope.claim.name sub.claim.name token.endpoint.url"
    ),
}

PROOFS = ("sasl.jaas.config", "ssl.keystore.location", "ssl.keystore.key", "ssl.truststore.location")
"""Properties that somebody sets who wants a connection to be secure."""


def known_names() -> frozenset[str]:
    """Return the names of all properties of this kind that a Java client has."""
    return frozenset(f"{prefix}{name}" for prefix, names in NAMES.items() for name in names.split())


def security_warnings(properties: Mapping[str, str]) -> list[str]:
    """Return one line for each property that is unknown or does nothing; raise `UsageError` for bad ones."""
    known = known_names()
    warnings = []
    for name in properties:
        if name.startswith(PREFIXES) and name not in known:
            hint = nearest_hint(name, known)
            warnings.append(f"unknown property `{name}`{f', {hint}' if hint else ''}")
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol.endswith("SSL"):
        from kcli.security.tls_settings import TlsSettings

        warnings.extend(TlsSettings.from_properties(properties, "client").warnings())
    warnings.extend(
        f"`{name}` has no effect: `security.protocol` is {protocol}"
        for name in PROOFS
        if name in properties and name.split(".")[0].upper() not in protocol
    )
    return warnings
