"""StoreEntries: everything in a store file, of whatever type, for somebody who looks into it."""

from __future__ import annotations

from typing import NamedTuple

from kcli.errors import UsageError
from kcli.security.certificates.certificate import Certificate
from kcli.security.certificates.jks import MAGIC as JKS_MAGIC
from kcli.security.certificates.jks import read_jks
from kcli.security.certificates.key_stores import chain_of, is_trusted_entry, load_pkcs12
from kcli.security.certificates.pem import certificates_of, pem_blocks

KEY, CHAIN, TRUSTED = "key", "chain", "trusted"


class StoreEntry(NamedTuple):
    """A certificate in DER and its role: that of a private key, one of that key's chain, or trusted."""

    role: str
    certificate: bytes


class StoreEntries(NamedTuple):
    """The type of a store and its certificates."""

    type: str
    entries: tuple[StoreEntry, ...]


class PasswordNeeded(UsageError):
    """The store does not open without a password, or not with this one."""


def store_entries(name: str, data: bytes, password: str | None) -> StoreEntries:
    """Return the certificates of a store; `name` stands in errors.

    PEM, JKS and single certificates need no password to be looked at. Raises `PasswordNeeded`,
    `UsageError` for a damaged store, and `KcliError` if PKCS12 lacks its library.
    """
    if b"-----BEGIN " in data:
        return _pem(name, data.decode("latin-1"))
    if _is_certificate(data):
        return StoreEntries("DER", _trusted((data,)))
    is_jks = data.startswith(JKS_MAGIC)
    try:
        return _jks(data, password) if is_jks else _pkcs12(data, password)
    except ValueError as error:
        if password is None and not is_jks:
            raise PasswordNeeded(
                f"`{name}` needs a password, or is no store",
                hint="`--password-file FILE` has it on its first line",
            ) from error
        raise PasswordNeeded(f"cannot read `{name}`: wrong password, or the file is damaged") from error


def _is_certificate(data: bytes) -> bool:
    try:
        Certificate.parse(data)
    except ValueError:
        return False
    return True


def _pem(name: str, text: str) -> StoreEntries:
    try:
        certificates = certificates_of(text)
        has_key = any(block.label.endswith("PRIVATE KEY") for block in pem_blocks(text))
    except ValueError as error:
        raise UsageError(f"cannot read `{name}`: {error}") from error
    return StoreEntries("PEM", _of_key(certificates) if has_key else _trusted(certificates))


def _jks(data: bytes, password: str | None) -> StoreEntries:
    found: list[StoreEntry] = []
    for entry in read_jks(data, password):
        found += _of_key(entry.certificates) if entry.key else _trusted(entry.certificates)
    return StoreEntries("JKS", tuple(found))


def _pkcs12(data: bytes, password: str | None) -> StoreEntries:
    read = load_pkcs12(data, password)
    from cryptography.hazmat.primitives.serialization import Encoding

    others = [
        (each.friendly_name, each.certificate.public_bytes(Encoding.DER)) for each in read.additional_certs
    ]
    if read.key is None or read.cert is None:
        return StoreEntries("PKCS12", _trusted(tuple(each for _name, each in others)))
    own = read.cert.certificate.public_bytes(Encoding.DER)
    chain = _of_key(chain_of(own, [each for _name, each in others]))
    trusted = _trusted(tuple(each for name, each in others if is_trusted_entry(name, each)))
    return StoreEntries("PKCS12", (*chain, *trusted))


def _of_key(certificates: tuple[bytes, ...]) -> tuple[StoreEntry, ...]:
    return tuple(StoreEntry(CHAIN if number else KEY, each) for number, each in enumerate(certificates))


def _trusted(certificates: tuple[bytes, ...]) -> tuple[StoreEntry, ...]:
    return tuple(StoreEntry(TRUSTED, each) for each in certificates)
