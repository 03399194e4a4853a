"""PrincipalRules: `ssl.principal.mapping.rules`, from a certificate's subject to a user.

The rules are those of Kafka's class `SslPrincipalMapper`.

`DEFAULT` takes the subject as it is. `RULE:pattern/replacement/[LU]` takes the replacement if the pattern
matches the whole subject, in lower or upper case if asked. The first rule that matches counts. Patterns are
Java's: those that Python reads in another way, or not at all, are refused.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_RULE = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)")
_NESTED_CLASS = re.compile(r"(?s)^(?:[^\\[]|\\.|\[\^?\]?(?:[^\\\[\]]|\\.)*\])*\[\^?\]?(?:[^\\\[\]]|\\.)*\[")
"""A bracket in a character class: for Java another class, for Python a character."""
_BOUNDARY = re.compile(r"\\[bB]")
_LINE_ENDS = re.compile("[\n\r\x85\u2028\u2029]")


class Rule(NamedTuple):
    """One rule. `pattern` is None for DEFAULT; a part of `parts` is text, or the number of a group."""

    pattern: re.Pattern[str] | None = None
    parts: tuple[str | int, ...] = ()
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """Return the user's name; None if the pattern does not match."""
        if self.pattern is None:
            return subject
        # At ends of lines Java's `.` and `$` differ from Python's, and its words from those of ASCII.
        if _LINE_ENDS.search(subject) or (_BOUNDARY.search(self.pattern.pattern) and not subject.isascii()):
            return None
        if not self.pattern.fullmatch(subject):
            return None
        name = "".join(self._replaced(self.pattern, subject))
        return {"L": name.lower(), "U": name.upper()}.get(self.case, name)

    def _replaced(self, pattern: re.Pattern[str], subject: str) -> Iterator[str]:
        """Yield a subject with every match replaced, as `Matcher.replaceAll` does.

        Behind an empty match Java goes on at the next character, and Python at the same one.
        """
        copied = position = 0
        while position <= len(subject) and (match := pattern.search(subject, position)):
            yield subject[copied : match.start()]
            yield self._replacement(match)
            copied = match.end()
            position = copied + (match.start() == match.end())
        yield subject[copied:]

    def _replacement(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self.parts)


class PrincipalRules(NamedTuple):
    """The rules in order."""

    rules: tuple[Rule, ...]

    @classmethod
    def parse(cls, text: str) -> PrincipalRules:
        """Return the rules of a property; raise `UsageError` for a malformed one."""
        found = []
        rest = text.strip()
        while rest:
            match = _RULE.match(rest)
            end = match.end() if match else 0
            item, _comma, rest = rest[end:].partition(",")
            if match:
                if item.strip():
                    raise _invalid(match[0] + item)
                found.append(_rule(match))
            elif item.strip() == "DEFAULT":
                found.append(Rule())
            elif item.strip():
                raise _invalid(item.strip())
            rest = rest.lstrip()
        return cls(tuple(found))

    def name_of(self, subject: str) -> str | None:
        """Return the user's name for a subject; None if no rule matches, which lets nobody in."""
        return next((name for rule in self.rules if (name := rule.apply(subject)) is not None), None)


def _invalid(rule: str) -> UsageError:
    return UsageError(
        f"bad rule in `ssl.principal.mapping.rules`: {rule}",
        hint="a rule is `DEFAULT`, or `RULE:pattern/replacement/` with `L` or `U` behind it for the case",
    )


def _rule(match: re.Match[str]) -> Rule:
    pattern = _compiled(match["pattern"])
    return Rule(pattern, _parts(match["replacement"], pattern.groups), match["case"])


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            # Python warns of unions and intersections of character classes, which Java has and it has not.
            warnings.simplefilter("error", FutureWarning)
            # As in Java `\w`, `\d` and `\s` are those of ASCII.
            compiled = re.compile(pattern, re.ASCII)
    except (re.error, FutureWarning) as error:
        raise UsageError(
            f"cannot use the pattern `{pattern}` of `ssl.principal.mapping.rules`: {error}",
            hint="kcli reads the regular expressions that Java and Python share",
        ) from error
    if compiled.flags & re.VERBOSE or _NESTED_CLASS.search(pattern):
        raise UsageError(
            f"cannot use the pattern `{pattern}` of `ssl.principal.mapping.rules`: Python reads it otherwise",
            hint="without the flag `x`, and with `\\[` for a bracket inside of brackets",
        )
    return compiled


def _parts(replacement: str, groups: int) -> tuple[str | int, ...]:
    """Return the text and groups of a replacement: `\\x` is x, and `$n` without group n is text.

    As in Java's `Matcher.replaceAll` a number has as many digits as there is a group for.
    """
    parts: list[str | int] = []
    position = unknown = 0
    while position < len(replacement):
        character = replacement[position]
        position += 1
        if character == "\\":
            parts.append(replacement[position])
            position += 1
        elif character != "$":
            parts.append(character)
        else:
            digits = re.match("[0-9]+", replacement[position:])
            size = _digits_of_a_group(digits[0], groups) if digits else 0
            unknown += not size
            # Without any group, and for a second unknown one, Kafka fails at each name.
            if digits is None or (not size and not groups) or unknown > 1:
                raise _invalid_replacement(replacement)
            parts.append(int(digits[0][:size]) if size else "$")
            position += size
    return tuple(parts)


def _digits_of_a_group(digits: str, groups: int) -> int:
    """Return how many leading digits are the number of a group, 0 if none."""
    size = 0
    while size < len(digits) and int(digits[: size + 1]) <= groups:
        size += 1
    return size


def _invalid_replacement(replacement: str) -> UsageError:
    return UsageError(
        f"bad replacement in `ssl.principal.mapping.rules`: {replacement}",
        hint="`$` stands before the number of a group; `\\$` is the character",
    )
