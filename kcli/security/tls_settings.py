"""TlsSettings: the `ssl.` properties of one listener or client, checked (Kafka class `SslConfigs`).

What would change who is trusted and cannot be done is refused; what has no effect is a warning.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, NamedTuple

from kcli.errors import UsageError, nearest_hint
from kcli.security.certificates.key_stores import StoreSettings
from kcli.security.cipher_suites import OPENSSL_NAMES, TLS_1_3_SUITES
from kcli.security.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

Side = Literal["client", "server"]

NO_EFFECT = {
    "ssl.protocol": ("TLSv1.3", "TLS"),
    "ssl.provider": (),
    "ssl.secure.random.implementation": (),
    "ssl.keymanager.algorithm": ("SunX509", "PKIX"),
    "ssl.trustmanager.algorithm": ("PKIX",),
}
"""Properties that only steer Java, with the values that Java has anyway."""

FOREIGN = ("ssl.engine.factory.class", "security.providers", "principal.builder.class")
"""Properties that name Java classes which decide who is trusted."""

OWN_CLASSES = (
    "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
)

VERSIONS = ("TLSv1.2", "TLSv1.3")
OLD_VERSIONS = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
CLIENT_AUTH = ("none", "requested", "required")


class TlsSettings(NamedTuple):
    """How one side of connections speaks TLS.

    `versions` are those it offers, oldest first; `cipher_suites` the OpenSSL names for TLS 1.2, () for the
    usual ones. `notes` are warnings about properties without effect.
    """

    side: Side
    key_store: StoreSettings | None = None
    trust_store: StoreSettings | None = None
    client_auth: str = "none"
    versions: tuple[str, ...] = VERSIONS
    cipher_suites: tuple[str, ...] = ()
    checks_name: bool = True
    notes: tuple[str, ...] = ()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str | Secret], side: Side) -> TlsSettings:
        """Take the `ssl.` properties that somebody has set; raise `UsageError` for what cannot work.

        A listener's own values stand in `properties` without their `listener.name.` prefix.
        """
        given = _Given(properties)
        refuse_foreign_classes(given)
        notes = [
            f"`{name}` has no effect: it steers Java only"
            for name, usual in NO_EFFECT.items()
            # A broker warns of all its properties without effect.
            if side == "client" and (given.text(name) or "") not in ("", *usual)
        ]
        suites = _cipher_suites(given, side, notes)
        return cls(
            side=side,
            key_store=_key_store(given),
            trust_store=_trust_store(given),
            client_auth=_client_auth(given) if side == "server" else "none",
            versions=_versions(given, suites, notes),
            cipher_suites=tuple(OPENSSL_NAMES[suite] for suite in suites if suite in OPENSSL_NAMES),
            checks_name=side == "server" or _checks_name(given, notes),
            notes=tuple(notes),
        )

    def files(self) -> tuple[str, ...]:
        """Return the files that the context is made of: when one changes it is made again."""
        stores = (self.key_store, self.trust_store)
        return tuple(store.location for store in stores if store and store.location is not None)

    def warnings(self) -> list[str]:
        """Return what somebody should know: properties without effect, and keys that everybody can read."""
        found = list(self.notes)
        location = self.key_store.location if self.key_store else None
        if location is not None and _is_readable_by_others(location):
            found.append(f"everybody on this machine can read the key store `{location}`: chmod o-r it")
        return found


class _Given:
    """The properties that are set. Values are stripped, as Kafka strips them."""

    def __init__(self, properties: Mapping[str, str | Secret]) -> None:
        self._properties = properties

    def text(self, name: str) -> str | None:
        """Return the value of a property; None without one."""
        value = self._properties.get(name)
        if value is None:
            return None
        return (value.reveal() if isinstance(value, Secret) else value).strip()

    def secret(self, name: str) -> Secret | None:
        """Return the value of a property that nothing may show; None without one."""
        text = self.text(name)
        return None if text is None else Secret(text)

    def words(self, name: str) -> list[str]:
        """Return the items of a list."""
        return [word.strip() for word in (self.text(name) or "").split(",") if word.strip()]


def refuse_foreign_classes(given: _Given) -> None:
    """Raise `UsageError` for a Java class that would decide who is trusted."""
    for name in FOREIGN:
        value = given.text(name)
        if value and value not in OWN_CLASSES:
            raise UsageError(
                f"cannot use `{name}` {value}: kcli runs no Java classes, and it decides who is trusted",
                hint="leave it out",
            )


def _key_store(given: _Given) -> StoreSettings | None:
    """Return the key store, by the rules of `DefaultSslEngineFactory.createKeystore`."""
    store = StoreSettings(
        "key",
        (given.text("ssl.keystore.type") or "JKS").upper(),
        given.text("ssl.keystore.location") or None,
        given.secret("ssl.keystore.password"),
        given.secret("ssl.key.password"),
        given.secret("ssl.keystore.key"),
        given.secret("ssl.keystore.certificate.chain"),
    )
    if store.key or store.certificates:
        _check_inline(store, "ssl.keystore.key")
        if store.key is None or store.certificates is None:
            raise UsageError("`ssl.keystore.key` and `ssl.keystore.certificate.chain` go together")
    elif store.location is None:
        if store.password is not None:
            raise UsageError("`ssl.keystore.password` is set without `ssl.keystore.location`")
        return None
    elif store.type == "PEM":
        _refuse_password(store)
    elif store.password is None:
        raise UsageError(
            "`ssl.keystore.location` needs `ssl.keystore.password`",
            hint=_pem_hint("key", store.location),
        )
    return store


def _trust_store(given: _Given) -> StoreSettings | None:
    """Return the trust store, by the rules of `DefaultSslEngineFactory.createTruststore`."""
    store = StoreSettings(
        "trust",
        (given.text("ssl.truststore.type") or "JKS").upper(),
        given.text("ssl.truststore.location") or None,
        given.secret("ssl.truststore.password"),
        certificates=given.secret("ssl.truststore.certificates"),
    )
    if store.certificates:
        _check_inline(store, "ssl.truststore.certificates")
    elif store.location is None:
        if store.password is not None:
            raise UsageError("`ssl.truststore.password` is set without `ssl.truststore.location`")
        return None
    elif store.type == "PEM":
        _refuse_password(store)
    return store


def _check_inline(store: StoreSettings, name: str) -> None:
    """Raise `UsageError` for PEM text beside what only a file has."""
    if store.type != "PEM":
        raise UsageError(
            f"`{name}` needs `ssl.{store.kind}store.type=PEM`, and the type is {store.type}",
        )
    if store.location is not None:
        raise UsageError(f"`{name}` and `ssl.{store.kind}store.location` exclude each other")
    _refuse_password(store)


def _refuse_password(store: StoreSettings) -> None:
    if store.password is not None:
        raise UsageError(
            f"`ssl.{store.kind}store.password` is set, and PEM stores have no password",
            hint="the password of an encrypted key is `ssl.key.password`" if store.kind == "key" else None,
        )


def _pem_hint(kind: str, location: str) -> str | None:
    is_pem = location.lower().endswith((".pem", ".crt", ".cer", ".key"))
    return f"is it a PEM file? then set `ssl.{kind}store.type=PEM`" if is_pem else None


def _client_auth(given: _Given) -> str:
    value = given.text("ssl.client.auth") or "none"
    if value not in CLIENT_AUTH:
        raise UsageError(
            f"bad value of `ssl.client.auth`: {value}", hint=f"it is one of {', '.join(CLIENT_AUTH)}"
        )
    return value


def _checks_name(given: _Given, notes: list[str]) -> bool:
    value = given.text("ssl.endpoint.identification.algorithm")
    if value is None or value.lower() == "https":
        return True
    if value:
        raise UsageError(
            f"bad value of `ssl.endpoint.identification.algorithm`: {value}",
            hint="it is `https`, or empty to accept any host's certificate",
        )
    notes.append(
        "`ssl.endpoint.identification.algorithm` is empty: any certificate of a trusted authority is accepted"
    )
    return False


def _cipher_suites(given: _Given, side: Side, notes: list[str]) -> list[str]:
    """Return the cipher suites to offer, by their IANA names."""
    suites = given.words("ssl.cipher.suites")
    for suite in suites:
        if suite not in OPENSSL_NAMES and suite not in TLS_1_3_SUITES:
            raise UsageError(
                f"unknown cipher suite in `ssl.cipher.suites`: {suite}",
                hint=nearest_hint(suite, (*OPENSSL_NAMES, *TLS_1_3_SUITES)),
            )
    chosen = [suite for suite in TLS_1_3_SUITES if suite in suites]
    if chosen and len(chosen) < len(TLS_1_3_SUITES):
        notes.append("`ssl.cipher.suites` cannot choose among those of TLS 1.3: all of them are offered")
    if side == "server" and any(suite.startswith("TLS_DHE") for suite in suites):
        # They need parameters that Python's contexts do not choose by themselves.
        notes.append("`ssl.cipher.suites`: those with DHE are not offered, those with ECDHE are as good")
        suites = [suite for suite in suites if not suite.startswith("TLS_DHE")]
        if not suites:
            raise UsageError("`ssl.cipher.suites` has only suites that a broker cannot offer")
    return suites


def _versions(given: _Given, suites: list[str], notes: list[str]) -> tuple[str, ...]:
    """Return the versions to offer: those that are enabled and have a cipher suite."""
    names = given.words("ssl.enabled.protocols") or list(VERSIONS)
    for name in names:
        if name not in VERSIONS and name not in OLD_VERSIONS:
            raise UsageError(
                f"unknown version in `ssl.enabled.protocols`: {name}", hint=nearest_hint(name, VERSIONS)
            )
    old = [name for name in names if name in OLD_VERSIONS]
    if old:
        notes.append(f"`ssl.enabled.protocols`: {', '.join(old)} is not offered, it is not secure")
    usable = [
        version
        for version, table in zip(VERSIONS, (OPENSSL_NAMES, TLS_1_3_SUITES), strict=True)
        if version in names and (not suites or any(suite in table for suite in suites))
    ]
    if not usable:
        raise UsageError(
            "`ssl.enabled.protocols` and `ssl.cipher.suites` leave no version of TLS to offer",
            hint=f"kcli speaks {' and '.join(VERSIONS)}",
        )
    return tuple(usable)


def _is_readable_by_others(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & 0o004)
    except OSError:
        # Reading the store tells why.
        return False
