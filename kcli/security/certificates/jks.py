"""JKS: the key stores that Java's keytool wrote before Java 9 (class `JavaKeyStore`).

    magic FEEDFEED, version u32 (1 or 2), count u32
    each: tag u32, alias, time i64, then
      tag 1, a private key: length u32, EncryptedPrivateKeyInfo; count u32 of certificates
      tag 2, a trusted one: one certificate
    certificate: type (version 2 only), length u32, DER
    SHA-1 of: password as UTF-16, "Mighty Aphrodite", everything before

Names are u16 length and text. A key's cipher is Sun's own: its bytes XOR a chain of SHA-1 digests that starts
with a salt of 20 bytes before it; a digest of password and key stands behind it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

from kcli.security.certificates.der import OCTET_STRING, dotted, inner, only

MAGIC = bytes.fromhex("feedfeed")
_KEY, _TRUSTED = 1, 2
_SUN_CIPHER = "1.3.6.1.4.1.42.2.17.1.1"
_DIGEST_SIZE = 20


class JksEntry(NamedTuple):
    """One entry: certificates as DER, and an encrypted key, b"" for a trusted certificate."""

    alias: str
    key: bytes
    certificates: tuple[bytes, ...]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes; raise `ValueError` if there are fewer."""
        taken = self._data[self._position : self._position + size]
        if len(taken) < size:
            raise ValueError("cut store")
        self._position += size
        return taken

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        return self.take(self.number(2)).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self.text()) != "X.509":
            raise ValueError(f"a certificate of type {kind}")
        return self.take(self.number())

    def entry(self, version: int) -> JksEntry:
        tag, alias, _time = self.number(), self.text(), self.take(8)
        if tag == _TRUSTED:
            return JksEntry(alias, b"", (self.certificate(version),))
        if tag != _KEY:
            raise ValueError(f"an entry of kind {tag}")
        key = self.take(self.number())
        return JksEntry(alias, key, tuple(self.certificate(version) for _ in range(self.number())))


def read_jks(data: bytes, password: str | None) -> list[JksEntry]:
    """Return the entries of a store, unchecked without a password; raise `ValueError` if it is damaged."""
    content, digest = data[:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
    reader = _Reader(content)
    if reader.take(4) != MAGIC or (version := reader.number()) not in (1, 2):
        raise ValueError("no JKS store")
    if password is not None:
        computed = hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + content)
        if not hmac.compare_digest(computed.digest(), digest):
            raise ValueError("wrong password or damage")
    return [reader.entry(version) for _ in range(reader.number())]


def decrypt_key(encrypted: bytes, password: str) -> bytes:
    """Return a private key as PKCS 8; raise `ValueError` for a wrong password or another cipher."""
    algorithm, protected = inner(only(encrypted))
    if dotted(inner(algorithm)[0].value) != _SUN_CIPHER or protected.tag != OCTET_STRING:
        raise ValueError("another cipher than Sun's")
    secret = password.encode("utf-16-be")
    digest, data = protected.value[:_DIGEST_SIZE], protected.value[_DIGEST_SIZE:-_DIGEST_SIZE]
    stream = b""
    while len(stream) < len(data):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    key = bytes(a ^ b for a, b in zip(data, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), protected.value[-_DIGEST_SIZE:]):
        raise ValueError("wrong password or damage")
    return key
