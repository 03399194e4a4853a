"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), both sides of a login; bytes in, bytes out.

The password itself never travels, and a broker keeps only what checks it. Nothing is bound to a channel: the
first message begins with `n,`. The client may send the extension `tokenauth=true`: then its name is the id
of a delegation token (KIP-48).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, NamedTuple

from kcli.security.principal import USER_TYPE, Principal
from kcli.security.sasl import Authenticated, SaslError, SaslFailure, invalid_credentials

if TYPE_CHECKING:
    from collections.abc import Callable

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
"""Of stored credentials (Kafka enum `ScramMechanism`); a client takes more."""
MAX_CLIENT_ITERATIONS = 1_000_000
"""A server that asks for more would only keep the client busy."""
SALT_BYTES = 24
"""Of the credentials that kcli makes, with `MIN_ITERATIONS` unless asked otherwise, and of unknown names."""
NONCE_BYTES = 24
TOKEN_AUTH = "tokenauth"


class ScramHash(NamedTuple):
    """A mechanism: its name in SaslHandshake, its number in records and requests, its hash function."""

    name: str
    number: int
    digest: str

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.digest, data).digest()

    def sign(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.digest)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return `SaltedPassword`: milliseconds of work for each thousand iterations."""
        return hashlib.pbkdf2_hmac(self.digest, password.encode(), salt, iterations)


SHA_256 = ScramHash("SCRAM-SHA-256", 1, "sha256")
SHA_512 = ScramHash("SCRAM-SHA-512", 2, "sha512")
MECHANISMS = {each.name: each for each in (SHA_256, SHA_512)}
BY_NUMBER = {each.number: each for each in (SHA_256, SHA_512)}


class ScramCredential(NamedTuple):
    """What a broker keeps of a password (Kafka class `ScramCredential`)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"

    @classmethod
    def of(
        cls, mechanism: ScramHash, salted_password: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        """Return the credential of a salted password."""
        client_key = mechanism.sign(salted_password, b"Client Key")
        server_key = mechanism.sign(salted_password, b"Server Key")
        return cls(salt, mechanism.hash(client_key), server_key, iterations)


class Known(NamedTuple):
    """What the server knows of who logs in: the credential, and whom it proves until when."""

    credential: ScramCredential
    outcome: Authenticated


class ScramMechanism:
    """Logs in by SCRAM. `find` returns what is known of a name, which is a token's id if the flag is set."""

    def __init__(self, mechanism: ScramHash, find: Callable[[str, bool], Known | None]) -> None:
        self.name = mechanism.name
        self.hash = mechanism
        self.find = find
        # An unknown name gets the same salt each time, and fails at the end like a wrong password.
        self.secret = os.urandom(32)

    def begin(self) -> ScramExchange:
        """Return a new login."""
        return ScramExchange(self)

    def unknown(self, name: str) -> Known:
        """Return what an unknown name is checked against."""
        digest = self.hash.sign(self.secret, name.encode())
        nobody = Authenticated(Principal(USER_TYPE, name))
        return Known(
            ScramCredential(digest[:SALT_BYTES], os.urandom(len(digest)), digest, MIN_ITERATIONS), nobody
        )


_NAME = r"(?:[^,=\0]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^,\0]*)*"
_CLIENT_FIRST = re.compile(rf"n,(?:a=({_NAME}))?,(?:m=[^,]*,)?(n=({_NAME}),r=({_NONCE})({_EXTENSIONS}))")
_CLIENT_FINAL = re.compile(rf"(c=([A-Za-z0-9+/=]+),r=({_NONCE}){_EXTENSIONS}),p=([A-Za-z0-9+/]+={{0,2}})")
_SERVER_FIRST = re.compile(
    rf"(?:m=[^,]*,)?r=({_NONCE}),s=([A-Za-z0-9+/]+={{0,2}}),i=(\d{{1,9}}){_EXTENSIONS}"
)


class ScramExchange:
    """One login on the server: the client's first message, then its last."""

    def __init__(self, mechanism: ScramMechanism) -> None:
        self._mechanism = mechanism
        self._known: Known | None = None
        self._is_known = False
        self._nonce = ""
        self._messages = ""
        self.outcome: Authenticated | None = None

    def step(self, token: bytes) -> bytes:
        """Answer a message of the client. Raises `SaslFailure`."""
        text = _text(token)
        return self._first(text) if self._known is None else self._last(self._known, text)

    def _first(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise SaslFailure(f"the first message is not {self._mechanism.name}")
        authorization_id, bare, quoted, client_nonce, extensions = match.groups()
        name = _unquoted(quoted)
        if authorization_id is not None and _unquoted(authorization_id) != name:
            raise SaslFailure("the authorization id is not the user name")
        found = self._mechanism.find(name, f"{TOKEN_AUTH}=true" in extensions.lower().split(","))
        self._is_known = found is not None
        self._known = found or self._mechanism.unknown(name)
        self._nonce = client_nonce + b64encode(os.urandom(NONCE_BYTES)).decode()
        credential = self._known.credential
        first = f"r={self._nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._messages = f"{bare},{first}"
        return first.encode()

    def _last(self, known: Known, text: str) -> bytes:
        mechanism = self._mechanism.hash
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise SaslFailure(f"the last message is not {mechanism.name}")
        without_proof, channel, nonce, proof = match.groups()
        if not hmac.compare_digest(nonce, self._nonce) or not _decoded(channel).startswith(b"n,"):
            raise SaslFailure("nonce or channel binding of the last message are wrong")
        signed = f"{self._messages},{without_proof}".encode()
        signature = mechanism.sign(known.credential.stored_key, signed)
        given = _decoded(proof)
        client_key = bytes(a ^ b for a, b in zip(given, signature, strict=False))
        is_right = hmac.compare_digest(mechanism.hash(client_key), known.credential.stored_key)
        if not (is_right and len(given) == len(signature) and self._is_known):
            raise invalid_credentials(mechanism.name)
        self.outcome = known.outcome
        return b"v=" + b64encode(mechanism.sign(known.credential.server_key, signed))


class ScramClient:
    """One login on the client.

    With `is_token` the user is the id of a delegation token, and the password its HMAC in base64. The first
    answer takes the time of `ScramHash.salted_password`.
    """

    def __init__(self, mechanism: ScramHash, user: str, password: str, *, is_token: bool = False) -> None:
        self.mechanism = mechanism.name
        self._hash = mechanism
        self._password = password
        self._nonce = b64encode(os.urandom(NONCE_BYTES)).decode()
        extension = f",{TOKEN_AUTH}=true" if is_token else ""
        self._bare = f"n={_quoted(user)},r={self._nonce}{extension}"
        self._signature: bytes | None = None
        self.is_complete = False

    def step(self, challenge: bytes | None) -> bytes:
        """Return the next message; raise `SaslError` for a challenge that does not prove what it must."""
        if challenge is None:
            return f"n,,{self._bare}".encode()
        try:
            text = challenge.decode()
        except UnicodeDecodeError:
            raise SaslError(f"the broker's answer is not {self.mechanism}") from None
        return self._final(text) if self._signature is None else self._verify(text, self._signature)

    def _final(self, text: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(text)
        if match is None or not match[1].startswith(self._nonce) or match[1] == self._nonce:
            raise SaslError(f"the broker's first answer is not {self.mechanism}")
        nonce, salt, iterations = match[1], _decoded(match[2]), int(match[3])
        if not MIN_ITERATIONS <= iterations <= MAX_CLIENT_ITERATIONS:
            raise SaslError(
                f"the broker asks for {iterations} iterations of {self.mechanism}, and not "
                f"{MIN_ITERATIONS} to {MAX_CLIENT_ITERATIONS}"
            )
        salted = self._hash.salted_password(self._password, salt, iterations)
        credential = ScramCredential.of(self._hash, salted, salt, iterations)
        without_proof = f"c=biws,r={nonce}"
        signed = f"{self._bare},{text},{without_proof}".encode()
        client_key = self._hash.sign(salted, b"Client Key")
        signature = self._hash.sign(credential.stored_key, signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = self._hash.sign(credential.server_key, signed)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def _verify(self, text: str, signature: bytes) -> bytes:
        if text.startswith("e="):
            raise SaslError(f"the broker refused the login: {text[2:]}")
        if not hmac.compare_digest(_decoded(text.removeprefix("v=").partition(",")[0]), signature):
            raise SaslError(
                "the broker does not know the password either: its signature is wrong",
                hint="somebody may pretend to be the broker",
            )
        self.is_complete = True
        return b""


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise SaslFailure("the message is not UTF-8") from None


def _quoted(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unquoted(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    """Return the bytes of base64, none if it is malformed: they match nothing."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""
