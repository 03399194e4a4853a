"""Key stores and trust stores: what a file, or the PEM text of a property, holds.

The types are PEM, PKCS12 and JKS. As in Java, a store of type JKS may hold PKCS12 and the other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import UsageError, nearest_hint
from kcli.security.pem import certificates_of, private_key_of

if TYPE_CHECKING:
    from kcli.security.secret import Secret


class StoreSettings(NamedTuple):
    """Where a store is, or its PEM text, and the passwords that open it.

    `kind` is "key" or "trust". `key` and `certificates` are PEM text in place of a file.
    """

    kind: str
    type: str
    location: str | None = None
    password: Secret | None = None
    key_password: Secret | None = None
    key: Secret | None = None
    certificates: Secret | None = None

    @property
    def name(self) -> str:
        """Return the store as messages name it."""
        if self.location is None:
            return f"the PEM text of `ssl.{self.kind}store`"
        return f"the {self.kind} store `{self.location}`"


class StoreContent(NamedTuple):
    """What a store holds; certificates are DER.

    `key` is a private key as PEM text, "" without one; `chain` its certificates, its own first. `trusted` are
    the authorities.
    """

    key: str = ""
    key_password: Secret | None = None
    chain: tuple[bytes, ...] = ()
    trusted: tuple[bytes, ...] = ()


def read_store(store: StoreSettings) -> StoreContent:
    """Return what a store holds; raise `UsageError` if it cannot be read or lacks what its kind needs."""
    if store.type == "PEM":
        return _pem(store)
    raise UsageError(
        f"cannot use {store.name}: unknown type {store.type}", hint=nearest_hint(store.type, TYPES)
    )


TYPES = ("PEM", "PKCS12", "JKS")


def _pem(store: StoreSettings) -> StoreContent:
    if store.location is not None:
        # What stands around the blocks may be of any encoding.
        key = certificates = read_bytes(store).decode("latin-1")
    else:
        key = store.key.reveal() if store.key else ""
        certificates = store.certificates.reveal() if store.certificates else ""
    try:
        chain = certificates_of(certificates)
        if store.kind == "trust":
            return StoreContent(trusted=chain)
        block = private_key_of(key)
    except ValueError as error:
        raise UsageError(f"cannot use {store.name}: {error}") from error
    if block.is_encrypted and store.key_password is None:
        raise UsageError(
            f"cannot use {store.name}: its private key is encrypted",
            hint="give its password in `ssl.key.password`",
        )
    return StoreContent(block.to_text(), store.key_password, chain)


def read_bytes(store: StoreSettings) -> bytes:
    """Return the bytes of a store's file; raise `UsageError` if it cannot be read."""
    assert store.location is not None
    try:
        with open(store.location, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"cannot read {store.name}: {error.strerror}") from error
