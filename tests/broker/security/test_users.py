"""Users of the command line and login modules of a JAAS file become properties of the SASL listeners."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.security.users import User, add_logins, parse_users
from kcli.errors import UsageError
from kcli.security.jaas import PLAIN_MODULE, parse_entries
from kcli.security.secret import Secret

SASL = {"listeners": "SASL_PLAINTEXT://localhost:0", "sasl.enabled.mechanisms": "PLAIN"}
TWO = {
    "listeners": "INNER://localhost:0,OUTER://localhost:0,OPEN://localhost:0",
    "listener.security.protocol.map": "INNER:SASL_PLAINTEXT,OUTER:SASL_PLAINTEXT,OPEN:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
}
MARKER = "marker-password"


def plain(name: str, password: str) -> User:
    return User(name, Secret(password), "PLAIN")


def any_way(name: str, password: str) -> User:
    return User(name, Secret(password), "")


def passwords(properties: dict[str, str], listener: str) -> dict[str, str]:
    """The users of a listener and their passwords, as the broker takes them from the properties."""
    module = BrokerConfig.from_properties(properties).sasl_settings(listener).mechanisms[0].jaas
    assert module is not None
    return {name.removeprefix("user_"): value.reveal() for name, value in module.options.items()}


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("alice=secret", any_way("alice", "secret")),
        ("alice=secret,mechanism=SCRAM-SHA-256", User("alice", Secret("secret"), "SCRAM-SHA-256")),
        ("alice=secret,mechanism=PLAIN", plain("alice", "secret")),
        ("alice=a=b,c", any_way("alice", "a=b,c")),
        ("al ice= ", any_way("al ice", " ")),
        ("ålice=påss", any_way("ålice", "påss")),
    ],
)
def test_a_user_is_a_name_and_a_password(text: str, user: User) -> None:
    assert parse_users([text]) == (user,)


def test_a_file_has_one_user_a_line(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("# who\nalice=secret\n\nbob=#1,mechanism=PLAIN\n")
    assert parse_users([f"@{path}", "carol=c"]) == (
        any_way("alice", "secret"),
        plain("bob", "#1"),
        any_way("carol", "c"),
    )


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([MARKER], "number 1 of the users is malformed"),
        (["a=b", f"={MARKER}"], "number 2 of the users is malformed"),
        (["alice="], "number 1 of the users is malformed"),
        ([f"alice={MARKER},mechanism=PLANE"], "unknown mechanism `PLANE` of user `alice`"),
        ([f"alice={MARKER},mechanism=GSSAPI"], "user `alice` cannot log in by GSSAPI"),
        ([f"alice={MARKER}", "alice=other"], "user `alice` has two passwords"),
        (
            [f"alice={MARKER},mechanism=PLAIN", "alice=other,mechanism=PLAIN"],
            "user `alice` has two passwords for PLAIN",
        ),
        (["@no/such/file"], "cannot read the users of `no/such/file`: No such file or directory"),
    ],
)
def test_a_malformed_user_is_refused_without_its_password(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_users(texts)
    assert caught.value.message == message
    assert MARKER not in f"{caught.value.message}{caught.value.hint}"


def test_a_malformed_line_of_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"alice=a\n{MARKER}\n")
    with pytest.raises(UsageError) as caught:
        parse_users([f"@{path}"])
    assert caught.value.message == f"line 2 of `{path}` is malformed"


def test_users_may_log_in_at_each_sasl_listener() -> None:
    properties = dict(TWO)
    add_logins(properties, parse_users(["alice=secret", 'b"o\\b\n=p"w\\d\n']))
    assert passwords(properties, "INNER") == {"alice": "secret", 'b"o\\b\n': 'p"w\\d\n'}
    assert passwords(properties, "OUTER") == passwords(properties, "INNER")
    assert not any("open" in name for name in properties)


def test_users_join_those_of_the_properties() -> None:
    name = "listener.name.inner.plain.sasl.jaas.config"
    properties = {**TWO, name: f'{PLAIN_MODULE} required user_alice="a" username=broker;'}
    add_logins(properties, parse_users(["bob=b", "alice=a"]))
    entry = parse_entries(properties[name])[0]
    assert {option: value.reveal() for option, value in entry.options.items()} == {
        "user_alice": "a",
        "username": "broker",
        "user_bob": "b",
    }


def test_a_user_cannot_have_two_passwords() -> None:
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    properties = {**SASL, name: f'{PLAIN_MODULE} required user_alice="a";'}
    with pytest.raises(UsageError, match="user `alice` has another password in the JAAS configuration"):
        add_logins(properties, parse_users(["alice=b"]))


@pytest.mark.parametrize(
    ("properties", "user", "lacks", "hint"),
    [
        ({}, "a=b", "SASL", "`--sasl` makes the listeners SASL_PLAINTEXT"),
        (
            {"listeners": "PLAINTEXT://localhost:0"},
            "a=b",
            "SASL",
            "`--override sasl.enabled.mechanisms=PLAIN`, and SASL_PLAINTEXT or SASL_SSL in `listeners`",
        ),
        (
            {**SASL, "sasl.enabled.mechanisms": "SCRAM-SHA-256"},
            "a=b,mechanism=PLAIN",
            "PLAIN",
            "`--override sasl.enabled.mechanisms=PLAIN`, and SASL_PLAINTEXT or SASL_SSL in `listeners`",
        ),
        (
            SASL,
            "a=b,mechanism=SCRAM-SHA-512",
            "SCRAM-SHA-512",
            "`--override sasl.enabled.mechanisms=SCRAM-SHA-512`, and SASL_PLAINTEXT or SASL_SSL in "
            "`listeners`",
        ),
    ],
)
def test_users_without_a_login_are_refused(
    properties: dict[str, str], user: str, lacks: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        add_logins(dict(properties), parse_users([user]))
    assert caught.value.message == f"user `a` could not log in: no listener has {lacks}"
    assert caught.value.hint == hint


def test_users_of_scram_are_returned_and_are_in_no_property() -> None:
    properties = {**SASL, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}
    users = parse_users(["alice=a", "bob=b,mechanism=PLAIN", f"carol={MARKER},mechanism=SCRAM-SHA-512"])
    assert add_logins(properties, users) == (
        User("alice", Secret("a"), "SCRAM-SHA-256"),
        User("alice", Secret("a"), "SCRAM-SHA-512"),
        User("carol", Secret(MARKER), "SCRAM-SHA-512"),
    )
    assert passwords(properties, "SASL_PLAINTEXT") == {"alice": "a", "bob": "b"}
    assert MARKER not in str(properties)


def test_a_jaas_file_has_a_section_for_all_listeners_and_one_for_each(tmp_path: Path) -> None:
    path = tmp_path / "server.jaas"
    path.write_text(
        f"""
        KafkaServer {{ {PLAIN_MODULE} required user_alice="of all"; }};
        inner.KafkaServer {{
            org.apache.kafka.common.security.scram.ScramLoginModule required;
            {PLAIN_MODULE} required user_alice='of inner';
        }};
        KafkaClient {{ {PLAIN_MODULE} required username="client" password="client"; }};
        """
    )
    properties = dict(TWO)
    add_logins(properties, (), path)
    assert passwords(properties, "INNER") == {"alice": "of inner"}
    assert passwords(properties, "OUTER") == {"alice": "of all"}


def test_a_login_module_of_the_properties_stands_above_the_file(tmp_path: Path) -> None:
    path = tmp_path / "server.jaas"
    path.write_text(f"KafkaServer {{ {PLAIN_MODULE} required user_alice=file; }};")
    name = "listener.name.inner.plain.sasl.jaas.config"
    properties = {**TWO, name: f"{PLAIN_MODULE} required user_alice=inline;"}
    add_logins(properties, (), path)
    assert passwords(properties, "INNER") == {"alice": "inline"}
    assert passwords(properties, "OUTER") == {"alice": "file"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read the JAAS configuration `{path}`: No such file or directory"),
        (b"\xff", "cannot read the JAAS configuration `{path}`: it is not UTF-8"),
        (
            f'KafkaServer {{ {PLAIN_MODULE} needed user_a="{MARKER}"; }};'.encode(),
            "malformed JAAS configuration in `{path}`, line 1, column 71: "
            "the flag must be one of required, requisite, sufficient, optional",
        ),
        (
            f"KafkaServer {{ {PLAIN_MODULE} required; {PLAIN_MODULE} required; }};".encode(),
            "section `KafkaServer` has 2 login modules for PLAIN",
        ),
    ],
)
def test_a_jaas_file_that_cannot_be_used_is_refused(text: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "server.jaas"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(UsageError) as caught:
        add_logins(dict(SASL), (), path)
    assert caught.value.message == message.format(path=path)
