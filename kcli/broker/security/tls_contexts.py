"""TlsContexts: the keys and certificates of one node's listeners, loaded again while it runs.

A new context is taken if its stores load, its certificate still names the same subject and all alternative
names (unless `ssl.allow.dn.changes` and `ssl.allow.san.changes` say otherwise), and, on the listener of
brokers among themselves, the new side trusts the old one and the other way round (classes `SslFactory`,
`DefaultSslEngineFactory`). Otherwise the old one stays. Connections keep the context that they began with.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.network.tls_transport import TlsListener
from kcli.errors import UsageError
from kcli.security.certificates.certificate import Certificate
from kcli.security.certificates.key_stores import read_store
from kcli.security.tls_context import client_context, server_context
from kcli.security.tls_settings import TlsSettings

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.config.listener_config import ListenerConfig

_log = logging.getLogger(__name__)

Stamp = tuple[int, int, int, int] | None
"""What changes when a file does: its inode, its times, its size; None without a file."""


class Loaded(NamedTuple):
    """A context, and what it was made of: `stamps` are those of the files."""

    settings: TlsSettings
    stamps: tuple[Stamp, ...]
    context: ssl.SSLContext
    certificate: Certificate


class Reloaded(NamedTuple):
    """What became of a listener: `error` is why its old context stays."""

    listener: str
    is_new: bool
    certificate: Certificate
    error: UsageError | None = None


class _Entry:
    """A listener with the context in use; `tried` are settings and stamps that were refused."""

    def __init__(self, config: ListenerConfig, loaded: Loaded) -> None:
        self.config = config
        self.loaded = loaded
        self.tls = TlsListener(config.name, loaded.context)
        self.tried: tuple[TlsSettings, tuple[Stamp, ...]] | None = None


class TlsContexts:
    """The listeners of one node that speak TLS."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def open(self, config: BrokerConfig, listener: ListenerConfig) -> TlsListener:
        """Load what a listener needs. Raises `UsageError`."""
        try:
            settings = tls_settings(config, listener)
            loaded = _load(settings)
            if listener.name == _inter_broker_listener(config) and settings.trust_store is not None:
                _check_trust(loaded, loaded)
        except UsageError as error:
            raise UsageError(f"listener `{listener.name}`: {error.message}", hint=error.hint) from error
        for line in settings.warnings():
            _log.warning("listener `%s`: %s", listener.name, line)
        entry = self._entries[listener.name] = _Entry(listener, loaded)
        return entry.tls

    def check(self, config: BrokerConfig) -> None:
        """Raise `UsageError` if a listener could not have the stores that a new configuration gives it."""
        for entry in self._entries.values():
            settings = tls_settings(config, entry.config)
            if (settings, _stamps(settings)) != (entry.loaded.settings, entry.loaded.stamps):
                _successor(entry, settings, config)

    def reload(self, config: BrokerConfig, *, again: bool = False) -> list[Reloaded]:
        """Load what has changed, with `again` everything; return what became of the listeners looked at.

        What was refused is not tried twice, unless `again`.
        """
        return [
            found for entry in self._entries.values() if (found := self._reload(entry, config, again=again))
        ]

    def _reload(self, entry: _Entry, config: BrokerConfig, *, again: bool) -> Reloaded | None:
        name = entry.config.name
        tried = None
        try:
            settings = tls_settings(config, entry.config)
            tried = settings, _stamps(settings)
            is_known = tried in ((entry.loaded.settings, entry.loaded.stamps), entry.tried)
            if is_known and not again:
                return None
            loaded = _successor(entry, settings, config)
        except UsageError as error:
            entry.tried = tried
            _log.error("listener `%s` keeps its certificate: %s", name, error.message)
            return Reloaded(name, is_new=False, certificate=entry.loaded.certificate, error=error)
        entry.loaded, entry.tls.context, entry.tried = loaded, loaded.context, None
        _log.info(
            "listener `%s` has loaded its certificate, valid until %s", name, loaded.certificate.not_after
        )
        return Reloaded(name, is_new=True, certificate=loaded.certificate)


def tls_settings(config: BrokerConfig, listener: ListenerConfig) -> TlsSettings:
    """Return how a listener speaks TLS. Raises `UsageError`."""
    properties = config.listener_properties(listener.name)
    settings = TlsSettings.from_properties(properties.beginning_with("ssl."), "server")
    if listener.is_sasl and not properties.is_own("ssl.client.auth"):
        # SASL says who a client is, so a certificate is asked for only if this listener is told to (KIP-684).
        return settings._replace(client_auth="none")
    return settings


def _stamps(settings: TlsSettings) -> tuple[Stamp, ...]:
    return tuple(map(_stamp, settings.files()))


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return None  # Reading it tells why.
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _load(settings: TlsSettings) -> Loaded:
    stamps = _stamps(settings)
    context = server_context(settings)
    assert settings.key_store is not None  # `server_context` needs one.
    try:
        certificate = Certificate.parse(read_store(settings.key_store).chain[0])
    except ValueError as error:
        raise UsageError(f"cannot use {settings.key_store.name}: malformed certificate: {error}") from error
    if _stamps(settings) != stamps:
        raise UsageError(f"{settings.key_store.name} changes while it is read")
    return Loaded(settings, stamps, context, certificate)


def _successor(entry: _Entry, settings: TlsSettings, config: BrokerConfig) -> Loaded:
    """Return what takes the place of a listener's context. Raises `UsageError`."""
    old = entry.loaded
    new = _load(settings)
    if old.settings.trust_store is None and settings.trust_store is not None:
        raise UsageError("a listener that was started without a trust store cannot get one")
    properties = config.listener_properties(entry.config.name)
    for change, name in _changes(old.certificate, new.certificate):
        if (properties.text(name) or "").strip().lower() != "true":
            raise UsageError(f"the new certificate {change}", hint=f"`{name}=true` accepts that")
    if entry.config.name == _inter_broker_listener(config) and settings.trust_store is not None:
        _check_trust(old, new)
        _check_trust(new, old)
    return new


def _changes(old: Certificate, new: Certificate) -> Iterator[tuple[str, str]]:
    """Yield what is different in a new certificate, and the property that accepts it."""
    if new.subject.lower() != old.subject.lower():
        yield f"is for `{new.subject}`, and the old one for `{old.subject}`", "ssl.allow.dn.changes"
    if missing := [name for name in old.names if name not in new.names]:
        names = ", ".join(missing)
        yield f"lacks alternative names of the old one: {names}", "ssl.allow.san.changes"


def _inter_broker_listener(config: BrokerConfig) -> str:
    """Return the name of the listener that brokers would use among themselves."""
    name = config.value("inter.broker.listener.name") or config.value("security.inter.broker.protocol")
    return str(name).upper()


def _check_trust(server: Loaded, client: Loaded) -> None:
    """Raise `UsageError` unless a client with the stores of one is let in by the other, whatever its name."""
    import ssl

    settings = client.settings._replace(side="client", checks_name=False)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client_context(settings).wrap_bio(to_client, to_server),
        server.context.wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for _ in range(3):  # Neither side says more than twice something.
            for end in ends:
                _step(end)
        # With TLS 1.3 a client learns last that its certificate is not accepted.
        for end in ends:
            _step(end, reads=True)
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", None) or error.reason or str(error)
        raise UsageError(f"brokers would not trust each other: {why}") from error


def _step(end: ssl.SSLObject, *, reads: bool = False) -> None:
    import ssl

    try:
        end.do_handshake()
        if reads:
            end.read(1)
    except ssl.SSLWantReadError:
        return
