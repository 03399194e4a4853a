"""SSL contexts for listeners and clients, made from `TlsSettings`."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kcli.errors import UsageError
from kcli.security.certificates.key_stores import WRONG_OR_DAMAGED, StoreContent, StoreSettings, read_store
from kcli.security.certificates.pem import to_pem

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from kcli.security.tls_settings import TlsSettings


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a listener; raise `UsageError` if a store cannot be used."""
    import ssl

    if settings.key_store is None:
        raise UsageError(
            "a listener with TLS needs a key and its certificate",
            hint="set `ssl.keystore.location`, or `ssl.keystore.key` and `ssl.keystore.certificate.chain`",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    # One is enough for clients that come back; each costs a record at every handshake.
    context.num_tickets = 1
    _set_up(context, settings)
    context.verify_mode = {
        "none": ssl.CERT_NONE,
        "requested": ssl.CERT_OPTIONAL,
        "required": ssl.CERT_REQUIRED,
    }[settings.client_auth]
    if settings.client_auth != "none":
        _trust(context, settings.trust_store, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a client's connections; raise `UsageError` if a store cannot be used."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_name
    _set_up(context, settings)
    _trust(context, settings.trust_store, ssl.Purpose.SERVER_AUTH)
    return context


def _set_up(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Set versions, cipher suites and the side's own key."""
    import ssl

    numbers = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
    context.minimum_version = numbers[settings.versions[0]]
    context.maximum_version = numbers[settings.versions[-1]]
    if settings.cipher_suites:
        try:
            context.set_ciphers(":".join(settings.cipher_suites))
        except ssl.SSLError as error:
            raise UsageError(
                "cannot use `ssl.cipher.suites`: this machine's OpenSSL has none of them"
            ) from error
    if settings.key_store is not None:
        _show_key(context, settings.key_store, read_store(settings.key_store))


def _show_key(context: ssl.SSLContext, store: StoreSettings, content: StoreContent) -> None:
    """Give a context its key and chain; raise `UsageError` if OpenSSL refuses them."""
    import ssl

    password = content.key_password.reveal() if content.key_password else ""
    with _private_file(content.key + to_pem(content.chain)) as path:
        try:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password=lambda: password)
        except ssl.SSLError as error:
            raise UsageError(
                f"cannot use {store.name}: {_REASONS.get(error.reason, WRONG_OR_DAMAGED)}"
            ) from error


def _trust(context: ssl.SSLContext, store: StoreSettings | None, purpose: ssl.Purpose) -> None:
    """Make a context trust what a store holds; without one what the system trusts."""
    import ssl

    if store is None:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(cadata=b"".join(read_store(store).trusted))
    except ssl.SSLError as error:
        raise UsageError(f"cannot use {store.name}: {WRONG_OR_DAMAGED}") from error
    # As in Java any certificate of the store ends a chain, whoever issued it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


_REASONS = {
    "KEY_VALUES_MISMATCH": "the private key does not belong to the first certificate",
    "EE_KEY_TOO_SMALL": "the key is too short to be secure",
    "CA_KEY_TOO_SMALL": "the key of an authority is too short to be secure",
    "CA_MD_TOO_WEAK": "the signature of a certificate is too weak to be secure",
}


@contextmanager
def _private_file(text: str) -> Iterator[str]:
    """Yield the path of a file that only this process can read: OpenSSL takes keys from files only."""
    from tempfile import mkstemp

    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        path = f"/proc/self/fd/{descriptor}"
        is_on_disk = False
    else:
        descriptor, path = mkstemp()
        is_on_disk = True
    try:
        with os.fdopen(descriptor, "w", encoding="latin-1", closefd=False) as file:
            file.write(text)
        yield path
    finally:
        os.close(descriptor)
        if is_on_disk:
            os.unlink(path)
