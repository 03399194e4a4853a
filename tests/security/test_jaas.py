"""JAAS configurations: entries of a property, sections of a file, and errors that tell no value."""

from __future__ import annotations

import pytest

from kcli.errors import UsageError
from kcli.security.jaas import PLAIN_MODULE, parse_entries, parse_sections


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('username="alice" password="secret"', {"username": "alice", "password": "secret"}),
        ("username=alice password='se cret'", {"username": "alice", "password": "se cret"}),
        ('password="a\\"b\\\\c\\n\\101;=}"', {"password": 'a"b\\c\nA;=}'}),
        ('/* who */ username="a" // and no password\n', {"username": "a"}),
        ('"user_bob"="x" user_alice="//no comment"', {"user_bob": "x", "user_alice": "//no comment"}),
        ("path=/etc/kafka/user.keytab", {"path": "/etc/kafka/user.keytab"}),
        ("", {}),
    ],
)
def test_options_of_an_entry(text: str, options: dict[str, str]) -> None:
    (entry,) = parse_entries(f"{PLAIN_MODULE} Required {text};")
    assert (entry.module, entry.flag) == (PLAIN_MODULE, "required")
    assert {name: entry.option(name) for name in entry.options} == options
    assert all(repr(value) not in repr(entry) for value in options.values())


def test_a_file_has_sections() -> None:
    text = 'KafkaServer {\n  A required user_a="1";\n  B OPTIONAL;\n};\nexternal.KafkaServer { C required; };'
    sections = parse_sections(text, "jaas.conf")
    assert {name: [entry.module for entry in entries] for name, entries in sections.items()} == {
        "KafkaServer": ["A", "B"],
        "external.KafkaServer": ["C"],
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "line 1, column 1: a login module is missing"),
        ("M required", "line 1, column 11: an option or ; is missing"),
        ('M required password="marker', "line 1, column 21: a quoted value without an end"),
        ("M\n needed;", "line 2, column 2: the flag must be one of"),
        ('M required password "marker";', "line 1, column 21: = is expected"),
        ("M required password=;", "line 1, column 21: a value is expected"),
        ("M required; /* marker", "line 1, column 13: no JAAS syntax"),
    ],
)
def test_a_mistake_is_told_by_its_place_alone(text: str, place: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_entries(text)
    assert raised.value.message.startswith(f"malformed JAAS configuration in `sasl.jaas.config`, {place}")
    assert "marker" not in raised.value.message
