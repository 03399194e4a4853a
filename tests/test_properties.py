"""Java properties: what `Properties.load` of a JDK makes of the same text."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.errors import UsageError
from kcli.properties import parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        (
            "a=1\nb = 2\nc:3\nd : 4\ne 5\nf\t=\t6",
            {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"},
        ),
        ("# a=1\n ! b=2\n\n   \n  c=3  ", {"c": "3  "}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=one,\\\n    two,\\\n# three", {"a": "one,two,# three"}),
        ("a=x\\\\\nb=2", {"a": "x\\", "b": "2"}),
        ("a=x\\\\\\\n  y", {"a": "x\\y"}),
        ("a\\ b\\=c=d\\te\\nf\\q", {"a b=c": "d\te\nfq"}),
        ("a=\\u00e9\\uD83D\\uDE00", {"a": "é😀"}),
        ("a==b\na2= =b", {"a": "=b", "a2": "=b"}),
        ("a\nb=\nc =", {"a": "", "b": "", "c": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("=x", {"": "x"}),
        ("", {}),
    ],
)
def test_grammar(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u12g4"])
def test_a_malformed_escape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="malformed escape"):
        parse_properties(text)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("log.dirs=/tmp/ä\n", encoding="utf-8")
    assert read_properties(path) == {"log.dirs": "/tmp/ä"}
    path.write_bytes(b"\xff\xfe=1")
    with pytest.raises(UsageError, match="not UTF-8 text"):
        read_properties(path)
    path.write_text("a=\\u1")
    with pytest.raises(UsageError, match="malformed escape"):
        read_properties(path)
    with pytest.raises(UsageError, match="No such file"):
        read_properties(tmp_path / "none")
