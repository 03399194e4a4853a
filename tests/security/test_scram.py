"""SCRAM: the vectors of RFC 5802 and 7677, both sides against each other, and messages that are wrong."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.security.principal import Principal
from kcli.security.sasl import Authenticated, SaslError, SaslFailure
from kcli.security.scram import (
    MECHANISMS,
    SALT_BYTES,
    SHA_256,
    Known,
    ScramClient,
    ScramCredential,
    ScramExchange,
    ScramHash,
    ScramMechanism,
)

SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
"""Salt, nonces and password of the example of RFC 7677."""
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def known(mechanism: ScramHash, user: str, password: str, iterations: int = 4096) -> Known:
    salted = mechanism.salted_password(password, SALT, iterations)
    outcome = Authenticated(Principal("User", user))
    return Known(ScramCredential.of(mechanism, salted, SALT, iterations), outcome)


def server(*users: Known, mechanism: ScramHash = SHA_256, tokens: bool = False) -> ScramMechanism:
    by_name = {each.outcome.principal.name: each for each in users}
    return ScramMechanism(mechanism, lambda name, is_token: by_name.get(name) if is_token is tokens else None)


def log_in(client: ScramClient, exchange: ScramExchange) -> Authenticated | None:
    """Carry a login to its end; raises the error of the side that ends it."""
    challenge: bytes | None = None
    while True:
        token = client.step(challenge)
        if client.is_complete:
            return exchange.outcome
        challenge = exchange.step(token)


def test_the_example_of_the_rfc() -> None:
    client = ScramClient(SHA_256, "user", "pencil")
    client._nonce, client._bare = CLIENT_NONCE, f"n=user,r={CLIENT_NONCE}"
    assert client.step(None) == f"n,,n=user,r={CLIENT_NONCE}".encode()
    first = f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    last = f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    assert client.step(first) == last
    exchange = server(known(SHA_256, "user", "pencil")).begin()
    exchange.step(f"n,,n=user,r={CLIENT_NONCE}".encode())
    exchange._nonce, exchange._messages = NONCE, f"n=user,r={CLIENT_NONCE},{first.decode()}"
    final = exchange.step(last)
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert client.step(final) == b""
    assert client.is_complete
    assert exchange.outcome == Authenticated(Principal("User", "user"))


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@given(
    user=st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=20),
    password=st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20),
)
def test_a_client_with_the_password_logs_in(mechanism: ScramHash, user: str, password: str) -> None:
    users = server(known(mechanism, user, password), mechanism=mechanism)
    assert log_in(ScramClient(mechanism, user, password), users.begin()) == Authenticated(
        Principal("User", user)
    )
    with pytest.raises(SaslFailure, match="invalid credentials"):
        log_in(ScramClient(mechanism, user, f"{password}x"), users.begin())


def test_tokens_are_known_by_their_extension_alone() -> None:
    users = server(known(SHA_256, "id", "hmac"), tokens=True)
    assert log_in(ScramClient(SHA_256, "id", "hmac", is_token=True), users.begin()) is not None
    with pytest.raises(SaslFailure):
        log_in(ScramClient(SHA_256, "id", "hmac"), users.begin())


def test_an_unknown_name_looks_like_a_wrong_password() -> None:
    users = server(known(SHA_256, "alice", "secret"))
    firsts = [users.begin().step(b"n,,n=nobody,r=abc").decode() for _ in range(2)]
    salts = {first.split(",s=")[1] for first in firsts}
    assert len(salts) == 1
    assert salts != {users.begin().step(b"n,,n=other,r=abc").decode().split(",s=")[1]}
    shape = re.compile(r"r=abc[\w+/=]{32},s=([\w+/=]{32}),i=4096")
    made = Known(ScramCredential.of(SHA_256, b"", bytes(SALT_BYTES), 4096), users.unknown("alice").outcome)
    assert all(shape.fullmatch(first) for first in firsts)
    assert shape.fullmatch(server(made).begin().step(b"n,,n=alice,r=abc").decode())
    for name in ("alice", "nobody"):
        with pytest.raises(SaslFailure) as failed:
            log_in(ScramClient(SHA_256, name, "wrong"), users.begin())
        assert failed.value.message == "login by SCRAM-SHA-256 failed: invalid credentials"


FIRST = b"n,,n=alice,r=abc"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n",
        b"p=tls-unique,,n=alice,r=abc",
        b"y,,n=alice,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=al,ice,r=abc",
        b"n,,n=al=ice,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=alice",
        b"n,a=bob,n=alice,r=abc",
        b"n,,n=al\0ice,r=abc",
        b"\xff\xfe",
        b"\0alice\0secret",
    ],
)
def test_first_messages_that_are_refused(message: bytes) -> None:
    with pytest.raises(SaslFailure) as failed:
        server(known(SHA_256, "alice", "secret")).begin().step(message)
    assert "alice" not in failed.value.message


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("c=biws", "c=cD10bHM="),
        lambda text: text.replace(",r=", ",r=x"),
        lambda text: text.replace("r=", "q="),
        lambda text: text.partition(",p=")[0],
        lambda text: text.partition(",p=")[0] + ",p=AAAA",
        lambda text: text.partition(",p=")[0] + ",p=",
        lambda text: text.partition(",p=")[0] + ",p=" + b64encode(bytes(64)).decode(),
        lambda text: text + "x",
        lambda text: "",
    ],
)
def test_last_messages_that_are_refused(change: object) -> None:
    exchange = server(known(SHA_256, "alice", "secret")).begin()
    client = ScramClient(SHA_256, "alice", "secret")
    last = client.step(exchange.step(client.step(None))).decode()
    with pytest.raises(SaslFailure):
        exchange.step(change(last).encode())  # type: ignore[operator]
    assert exchange.outcome is None


@given(st.lists(st.binary(max_size=80), min_size=1, max_size=3))
def test_any_bytes_are_a_failure_of_the_login(messages: list[bytes]) -> None:
    exchange = server(known(SHA_256, "alice", "secret")).begin()
    for message in messages:
        try:
            exchange.step(message)
        except SaslFailure:
            return
    assert exchange.outcome is None


@pytest.mark.parametrize(
    ("challenge", "told"),
    [
        (b"\xff", "not SCRAM-SHA-256"),
        (b"", "not SCRAM-SHA-256"),
        (b"r=other,s=AAAA,i=4096", "not SCRAM-SHA-256"),
        (b"r={nonce},s=AAAA,i=4096", "not SCRAM-SHA-256"),
        (b"r={nonce}x,s=AAAA,i=1", "1 iterations"),
        (b"r={nonce}x,s=AAAA,i=100000000", "100000000 iterations"),
    ],
)
def test_a_client_does_not_follow_a_wrong_server(challenge: bytes, told: str) -> None:
    client = ScramClient(SHA_256, "alice", "secret")
    client.step(None)
    with pytest.raises(SaslError, match=told):
        client.step(challenge.replace(b"{nonce}", client._nonce.encode()))


@pytest.mark.parametrize("final", [b"v=AAAA", b"v=", b"e=other-error", b"", b"nothing"])
def test_a_server_has_to_prove_that_it_knows_the_password(final: bytes) -> None:
    exchange = server(known(SHA_256, "alice", "secret")).begin()
    client = ScramClient(SHA_256, "alice", "secret")
    exchange.step(client.step(exchange.step(client.step(None))))
    with pytest.raises(SaslError, match=r"does not know the password|refused the login"):
        client.step(final)
    assert not client.is_complete


def test_nothing_shows_a_credential() -> None:
    credential = known(SHA_256, "alice", "secret").credential
    assert repr(credential) == "ScramCredential(iterations=4096)"
