"""Key stores and trust stores: what a file, or the PEM text of a property, holds.

The types are PEM, PKCS12 and JKS. As in Java, a store of type JKS may hold PKCS12 and the other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError, UsageError, install_hint, nearest_hint
from kcli.security.certificates.distinguished_name import issuer_of, subject_of
from kcli.security.certificates.jks import MAGIC as JKS_MAGIC
from kcli.security.certificates.jks import decrypt_key, read_jks
from kcli.security.certificates.pem import PemBlock, certificates_of, private_key_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

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


TYPES = ("PEM", "PKCS12", "JKS")
WRONG_OR_DAMAGED = "wrong password, or the file is damaged"

_CONVERTED = {
    "JCEKS": "",
    "BKS": " -providerclass org.bouncycastle.jce.provider.BouncyCastleProvider -providerpath bcprov.jar",
    "PKCS11": " -providerclass sun.security.pkcs11.SunPKCS11 -providerarg pkcs11.cfg",
}
"""Types that keytool converts, with what it needs for that."""


def read_store(store: StoreSettings) -> StoreContent:
    """Return what a store holds; raise `UsageError` if it cannot be read or lacks what its kind needs."""
    if store.type == "PEM":
        return _pem(store)
    if store.type not in TYPES:
        raise _refused(store, store.type)
    content = _java_store(store, read_bytes(store))
    if store.kind == "key" and not content.key:
        raise UsageError(f"cannot use {store.name}: it has no private key")
    if store.kind == "trust" and not content.trusted:
        raise UsageError(f"cannot use {store.name}: it has no trusted certificate")
    return content


def _refused(store: StoreSettings, kind: str) -> UsageError:
    """Return the error for a type that kcli does not read, with the line that converts it."""
    if kind not in _CONVERTED:
        hint = nearest_hint(kind, TYPES) or f"kcli reads {', '.join(TYPES)}"
        return UsageError(f"cannot use {store.name}: unknown type {kind}", hint=hint)
    source = "NONE" if kind == "PKCS11" else store.location
    return UsageError(
        f"cannot use {store.name}: kcli does not read {kind}",
        hint=(
            f"convert it: keytool -importkeystore -srckeystore {source} -srcstoretype {kind}"
            f" -destkeystore store.p12 -deststoretype PKCS12{_CONVERTED[kind]}"
        ),
    )


def _java_store(store: StoreSettings, data: bytes) -> StoreContent:
    """Return what a file of Java holds. As in Java it tells itself which of the two types it has."""
    if data.startswith(b"\xce\xce\xce\xce"):
        raise _refused(store, "JCEKS")
    if b"-----BEGIN " in data[:4096]:
        raise UsageError(
            f"cannot use {store.name}: it is PEM, and `ssl.{store.kind}store.type` is {store.type}",
            hint=f"set `ssl.{store.kind}store.type=PEM`",
        )
    try:
        return _jks(store, data) if data.startswith(JKS_MAGIC) else _pkcs12(store, data)
    except ValueError as error:
        raise UsageError(f"cannot use {store.name}: {WRONG_OR_DAMAGED}") from error


def _jks(store: StoreSettings, data: bytes) -> StoreContent:
    entries = read_jks(data, store.password.reveal() if store.password else None)
    if store.kind == "trust":
        # Java trusts a key's own certificate too, and none of those behind it.
        return StoreContent(trusted=tuple(each.certificates[0] for each in entries if each.certificates))
    password = store.key_password or store.password
    for entry in entries:
        if entry.key and password is not None:
            key = PemBlock("PRIVATE KEY", "", decrypt_key(entry.key, password.reveal()))
            return StoreContent(key.to_text(), None, entry.certificates)
    return StoreContent()


def _pkcs12(store: StoreSettings, data: bytes) -> StoreContent:
    if store.key_password not in (None, store.password):
        raise ValueError("the password of a key is that of its store")
    read = load_pkcs12(data, store.password.reveal() if store.password else None)
    from cryptography.hazmat.primitives import serialization

    form = serialization.Encoding.DER
    others = [(each.friendly_name, each.certificate.public_bytes(form)) for each in read.additional_certs]
    if read.key is None or read.cert is None:
        return StoreContent(trusted=tuple(certificate for _name, certificate in others))
    own = read.cert.certificate.public_bytes(form)
    if store.kind == "trust":
        return StoreContent(trusted=(own, *(each for name, each in others if is_trusted_entry(name, each))))
    key = read.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = chain_of(own, [certificate for _name, certificate in others])
    return StoreContent(key.decode("ascii"), None, chain)


def load_pkcs12(data: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    """Return what a PKCS12 store holds; raise `ValueError` for a wrong password or damage.

    Raises `KcliError` without `cryptography`.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise KcliError(
            "PKCS12 stores need cryptography", hint=install_hint("tls", "cryptography")
        ) from error
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from error


def is_trusted_entry(friendly_name: bytes | None, certificate: bytes) -> bool:
    """Whether a certificate beside a key is one that Java trusts, and not only a part of the key's chain.

    Java gives a trusted one its alias as name, and one of a chain its subject; OpenSSL names neither.
    """
    return friendly_name is not None and friendly_name.decode("utf-8", "replace") != subject_of(certificate)


def chain_of(own: bytes, others: list[bytes]) -> tuple[bytes, ...]:
    """Return a certificate and those that vouch for it, in order, as far as they are at hand."""
    by_subject = {subject_of(each): each for each in others}
    chain = [own]
    while (above := by_subject.pop(issuer_of(chain[-1]), None)) is not None:
        chain.append(above)
    return tuple(chain)


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
    if store.key_password is not None and not block.is_encrypted:
        raise UsageError(
            f"cannot use {store.name}: `ssl.key.password` is set, and its private key is not encrypted",
            hint="leave the password out",
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
