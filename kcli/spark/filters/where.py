"""The conditions of `--where`: the text, split at its ANDs into forms that need no SQL engine.

    comparison   column = | == | <=> | != | <> | < | <= | > | >= literal, either way round
    between      column BETWEEN literal AND literal, which is two comparisons
    membership   column [NOT] IN (literal, ...)
    null         column IS [NOT] NULL
    prefix       column LIKE 'text%'  or  startswith(column, 'text')

Everything else is `Opaque`: only Spark can evaluate it. A column may be a path (`value.user.id`), and may be
in backquotes. Literals are numbers, 'text' (a quote is doubled), TRUE, FALSE, TIMESTAMP '...', and for the
column `timestamp` also ISO 8601 text and milliseconds since 1970.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from kcli.errors import UsageError
from kcli.spark.filters.timestamps import parse_timestamp_us
from kcli.spark.split import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

Literal: TypeAlias = str | int | float | bool | datetime
Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a literal by =, !=, <, <=, > or >=."""

    column: Path
    operator: str
    value: Literal


@dataclass(frozen=True, slots=True)
class In:
    """A column that is, or is not, one of some literals."""

    column: Path
    values: tuple[Literal, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    column: Path
    negated: bool = False


@dataclass(frozen=True, slots=True)
class StartsWith:
    column: Path
    prefix: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """SQL that only Spark understands."""

    text: str


Condition: TypeAlias = Comparison | In | IsNull | StartsWith | Opaque

_RECORD_COLUMNS = {name.lower(): name for name in COLUMNS}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w.]))"
    r"|(?P<name>(?:`[^`]+`|[A-Za-z_]\w*)(?:\.(?:`[^`]+`|[A-Za-z_]\w*))*)"
    r"|(?P<sign><=>|==|!=|<>|<=|>=|[=<>(),])|(?P<other>\S))"
)
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SAME = {"==": "=", "<=>": "=", "<>": "!="}
_COMPARISONS = {"=", "!=", *_FLIPPED, *_SAME}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int

    def is_word(self, word: str) -> bool:
        return self.kind == "name" and self.text.upper() == word

    def is_sign(self, sign: str) -> bool:
        return self.kind == "sign" and self.text == sign


def parse_where(text: str) -> tuple[Condition, ...]:
    """Return the conditions that a text joins by AND; raise `UsageError` for an open quote or bracket."""
    tokens = _tokens(text)
    found: list[Condition] = []
    for part in _split_at_ands(tokens, text):
        found += _conditions(part, text)
    return tuple(found)


def is_evaluable(conditions: tuple[Condition, ...]) -> bool:
    """Return whether no condition needs Spark."""
    return not any(isinstance(one, Opaque) for one in conditions)


def sql_of(condition: Condition) -> str:
    match condition:
        case Comparison(column, operator, value):
            return f"{_name_sql(column)} {operator} {_literal_sql(value)}"
        case In(column, values, negated):
            inside = ", ".join(_literal_sql(value) for value in values)
            return f"{_name_sql(column)} {'NOT ' if negated else ''}IN ({inside})"
        case IsNull(column, negated):
            return f"{_name_sql(column)} IS {'NOT ' if negated else ''}NULL"
        case StartsWith(column, prefix):
            return f"startswith({_name_sql(column)}, {_literal_sql(prefix)})"
        case Opaque(text):
            return f"({text})"


def _tokens(text: str) -> list[_Token]:
    tokens = []
    depth = 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        token = _Token(kind, match[kind], match.start(kind), match.end(kind))
        depth += token.is_sign("(") - token.is_sign(")")
        if depth < 0 or (kind == "other" and token.text in "'`"):
            raise UsageError(f"invalid filter: {text}", hint="a quote or a bracket is not closed")
        tokens.append(token)
    if depth or not tokens:
        raise UsageError(
            f"invalid filter: {text}", hint="a bracket is not closed" if depth else "it says nothing"
        )
    return tokens


def _split_at_ands(tokens: list[_Token], text: str) -> list[list[_Token]]:
    """Return the parts between the outermost ANDs; a single part if there is an outermost OR."""
    parts: list[list[_Token]] = [[]]
    depth = 0
    between = False
    for token in tokens:
        depth += token.is_sign("(") - token.is_sign(")")
        if depth == 0 and token.is_word("OR"):
            return [tokens]
        if depth == 0 and token.is_word("BETWEEN"):
            between = True
        elif depth == 0 and token.is_word("AND"):
            if not between:
                parts.append([])
                continue
            between = False
        parts[-1].append(token)
    if not all(parts):
        raise UsageError(f"invalid filter: {text}", hint="something is missing beside AND")
    return parts


def _conditions(part: list[_Token], text: str) -> list[Condition]:
    inner = _without_brackets(part)
    if inner is not part:
        nested = _split_at_ands(inner, text)
        return [one for piece in nested for one in _conditions(piece, text)]
    for form in (_comparison, _between, _membership, _null, _like, _startswith):
        found = form(part)
        if found is not None:
            return found
    return [Opaque(text[part[0].start : part[-1].end])]


def _without_brackets(part: list[_Token]) -> list[_Token]:
    if len(part) < 3 or not (part[0].is_sign("(") and part[-1].is_sign(")")):
        return part
    depth = 0
    for token in part[:-1]:
        depth += token.is_sign("(") - token.is_sign(")")
        if depth == 0:
            return part
    return part[1:-1]


def _comparison(part: list[_Token]) -> list[Condition] | None:
    for index, token in enumerate(part):
        if token.kind == "sign" and token.text in _COMPARISONS:
            operator = _SAME.get(token.text, token.text)
            left, right = part[:index], part[index + 1 :]
            column, value = _column(left), _literal(right, _column(left))
            if column is None:
                column = _column(right)
                value = _literal(left, column)
                operator = _FLIPPED.get(operator, operator)
            if column is None or value is None:
                return None
            return [Comparison(column, operator, value)]
    return None


def _between(part: list[_Token]) -> list[Condition] | None:
    where = [index for index, token in enumerate(part) if token.is_word("BETWEEN") or token.is_word("AND")]
    if len(where) != 2 or where[0] != 1:
        return None
    column = _column(part[:1])
    low, high = _literal(part[2 : where[1]], column), _literal(part[where[1] + 1 :], column)
    if column is None or low is None or high is None:
        return None
    return [Comparison(column, ">=", low), Comparison(column, "<=", high)]


def _membership(part: list[_Token]) -> list[Condition] | None:
    negated = len(part) > 1 and part[1].is_word("NOT")
    rest = part[2 if negated else 1 :]
    column = _column(part[:1])
    if column is None or len(rest) < 4 or not rest[0].is_word("IN") or not rest[1].is_sign("("):
        return None
    values: list[Literal] = []
    item: list[_Token] = []
    for token in rest[2:]:
        if token.is_sign(",") or token.is_sign(")"):
            value = _literal(item, column)
            if value is None:
                return None
            values.append(value)
            item = []
        else:
            item.append(token)
    return [In(column, tuple(values), negated)] if rest[-1].is_sign(")") and not item else None


def _null(part: list[_Token]) -> list[Condition] | None:
    words = [token.text.upper() for token in part[1:]]
    column = _column(part[:1])
    if column is None or words not in (["IS", "NULL"], ["IS", "NOT", "NULL"]):
        return None
    return [IsNull(column, negated=len(words) == 3)]


def _like(part: list[_Token]) -> list[Condition] | None:
    if len(part) != 3 or not part[1].is_word("LIKE") or part[2].kind != "text":
        return None
    column, pattern = _column(part[:1]), _unquoted(part[2])
    prefix = pattern[:-1]
    if column is None or not pattern.endswith("%") or any(sign in prefix for sign in "%_\\"):
        return None
    return [StartsWith(column, prefix)]


def _startswith(part: list[_Token]) -> list[Condition] | None:
    shape = "".join(
        "n" if token.kind == "name" else "t" if token.kind == "text" else token.text for token in part
    )
    if shape != "n(n,t)" or part[0].text.lower() not in ("startswith", "starts_with"):
        return None
    column = _column(part[2:3])
    return None if column is None else [StartsWith(column, _unquoted(part[4]))]


def _column(tokens: list[_Token]) -> Path | None:
    if len(tokens) != 1 or tokens[0].kind != "name":
        return None
    if tokens[0].text.upper() in ("TRUE", "FALSE", "NULL", "AND", "NOT"):
        return None
    path = tuple(part.strip("`") for part in re.findall(r"`[^`]+`|\w+", tokens[0].text))
    return (_RECORD_COLUMNS.get(path[0].lower(), path[0]), *path[1:])


def _literal(tokens: list[_Token], column: Path | None) -> Literal | None:
    """Return the literal beside `column`, None if it is something else."""
    is_time = column is not None and column == ("timestamp",)
    if len(tokens) == 2 and tokens[0].is_word("TIMESTAMP") and tokens[1].kind == "text":
        return _moment(parse_timestamp_us(_unquoted(tokens[1])))
    if len(tokens) != 1:
        return None
    (token,) = tokens
    if token.kind == "text":
        text = _unquoted(token)
        return _moment(parse_timestamp_us(text)) if is_time else text
    if token.kind == "number":
        number = _number(token.text)
        return _moment(int(number * 1000)) if is_time else number
    words: dict[str, Callable[[], Literal]] = {"TRUE": lambda: True, "FALSE": lambda: False}
    word = words.get(token.text.upper()) if token.kind == "name" else None
    return word() if word else None


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _moment(microseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError as error:
        raise UsageError(f"a timestamp out of range: {microseconds // 1000} ms since 1970") from error


def _unquoted(token: _Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _name_sql(column: Path) -> str:
    return ".".join(f"`{name}`" for name in column)


def _literal_sql(value: Literal) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case datetime():
            return f"TIMESTAMP '{value.astimezone(UTC).isoformat(sep=' ')}'"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case _:
            return repr(value)
