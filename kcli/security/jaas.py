"""JAAS configurations: the login module of a client or listener, and its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="…";

A property holds entries alone; a file holds them in sections, `KafkaServer { … };`. Flags may have any
case, `//` and `/* */` are comments, and quoted values have Java's escapes (Kafka class `JaasConfig`).
Errors name line and column, never a value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import UsageError
from kcli.security.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"

MODULES = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    "OAUTHBEARER": OAUTHBEARER_MODULE,
    "GSSAPI": KERBEROS_MODULE,
}
"""The login module of each mechanism."""

FLAGS = ("required", "requisite", "sufficient", "optional")

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<word>(?:[^\s"'{};=/]|/(?![/*]))+)
    | (?P<mark>[{};=])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_QUOTED = re.compile(r'["\\\n]')
_WORD = re.compile(r"[\w.-]+", re.ASCII)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "v": "\v", "a": "\a"}


class JaasEntry(NamedTuple):
    """One login module with its options."""

    module: str
    flag: str
    options: Mapping[str, Secret]

    def option(self, name: str) -> str | None:
        """Return an option's value, None without it."""
        value = self.options.get(name)
        return None if value is None else value.reveal()

    def text(self) -> str:
        """Return the entry as a property holds it, secrets included."""
        options = "".join(
            f" {name if _WORD.fullmatch(name) else _quoted(name)}={_quoted(value.reveal())}"
            for name, value in self.options.items()
        )
        return f"{self.module} {self.flag}{options};"


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


class _Parser:
    def __init__(self, text: str, what: str) -> None:
        self._text = text
        self._what = what
        self._tokens = list(self._split())
        self._next = 0

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        position = 0
        while position < len(self._text):
            match = _TOKEN.match(self._text, position)
            if match is None:
                unclosed = self._text[position] in "\"'"
                raise self._error(position, "a quoted value without an end" if unclosed else "no JAAS syntax")
            if match.lastgroup != "blank":
                tokens.append(_Token(str(match.lastgroup), match.group(), position))
            position = match.end()
        return tokens

    @property
    def is_at_end(self) -> bool:
        return self._next == len(self._tokens)

    def sees(self, mark: str) -> bool:
        """Return whether the next token is this mark."""
        return not self.is_at_end and self._tokens[self._next][:2] == ("mark", mark)

    def take(self, expected: str, *kinds: str) -> _Token:
        """Return the next token, which must be one of these kinds or the mark `expected` itself."""
        if self.is_at_end:
            raise self._error(len(self._text), f"{expected} is missing")
        token = self._tokens[self._next]
        if token.kind not in kinds and token[:2] != ("mark", expected):
            raise self._error(token.position, f"{expected} is expected")
        self._next += 1
        return token

    def entry(self) -> JaasEntry:
        module = self.take("a login module", "word").text
        flag = self.take("a flag", "word")
        if flag.text.lower() not in FLAGS:
            raise self._error(flag.position, f"the flag must be one of {', '.join(FLAGS)}")
        options: dict[str, Secret] = {}
        while not self.sees(";"):
            name = self.take("an option or ;", "word", "quoted")
            self.take("=")
            value = self.take("a value", "word", "quoted")
            options[_plain(name)] = Secret(_plain(value))
        self.take(";")
        return JaasEntry(module, flag.text.lower(), options)

    def _error(self, position: int, problem: str) -> UsageError:
        before = self._text[:position]
        line, column = before.count("\n") + 1, position - before.rfind("\n")
        return UsageError(
            f"malformed JAAS configuration in {self._what}, line {line}, column {column}: {problem}"
        )


def _plain(token: _Token) -> str:
    if token.kind != "quoted":
        return token.text
    return _ESCAPE.sub(_unescaped, token.text[1:-1])


def _quoted(text: str) -> str:
    return f'"{_QUOTED.sub(_escaped, text)}"'


def _escaped(match: re.Match[str]) -> str:
    return "\\n" if match.group() == "\n" else f"\\{match.group()}"


def _unescaped(match: re.Match[str]) -> str:
    escaped = match.group(1)
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPES.get(escaped, escaped)


def parse_entries(text: str, what: str = "`sasl.jaas.config`") -> tuple[JaasEntry, ...]:
    """Return the entries of a property's value; raise `UsageError` that names `what` and the place."""
    parser = _Parser(text, what)
    entries = [parser.entry()]
    while not parser.is_at_end:
        entries.append(parser.entry())
    return tuple(entries)


def parse_sections(text: str, what: str) -> dict[str, tuple[JaasEntry, ...]]:
    """Return the entries of each section of a file; raise `UsageError` that names `what` and the place."""
    parser = _Parser(text, what)
    sections: dict[str, tuple[JaasEntry, ...]] = {}
    while not parser.is_at_end:
        name = parser.take("a section", "word", "quoted")
        parser.take("{")
        entries: list[JaasEntry] = []
        while not parser.sees("}"):
            entries.append(parser.entry())
        parser.take("}")
        parser.take(";")
        sections[_plain(name)] = tuple(entries)
    return sections
