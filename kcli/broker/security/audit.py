"""Audit: the denials of one node, in its log and in memory (logger `kafka.authorizer.logger`).

Denials are written with level INFO, allowances with DEBUG. A connection writes at most `LINES_PER_SECOND`
lines; how many more there were is told with the next line that it may write.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.protocol.apis import api_name
from kcli.security.acl import PatternType, PermissionType, spelled
from kcli.security.acl_rules import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.security.acl import AclEntry
    from kcli.security.acl_rules import Decision, Question

LOGGER = "kafka.authorizer.logger"
LINES_PER_SECOND = 100
MOST_DENIALS = 200
"""The denials of a node that are kept in memory."""

_log = logging.getLogger(LOGGER)


class Denial(NamedTuple):
    """Something that a principal asked for and may not do. A request named it `references` times."""

    number: int
    time_ms: int
    question: Question
    api: str
    references: int
    rule: str

    def to_json(self) -> dict[str, Any]:
        """Return it as the control socket tells it."""
        question = self.question
        return {
            "number": self.number,
            "time_ms": self.time_ms,
            "principal": question.principal,
            "host": question.host,
            "operation": spelled(question.operation),
            "resource_type": spelled(question.resource_type),
            "resource_name": question.resource_name,
            "api": self.api,
            "count": self.references,
            "rule": self.rule,
        }


class Lines:
    """How many lines a connection has written in the second that began at `began_ms`."""

    __slots__ = ("began_ms", "left_out", "written")

    def __init__(self) -> None:
        self.began_ms = self.written = self.left_out = 0

    def take(self, now_ms: int) -> bool:
        """Return whether one more line may be written, and count it."""
        if not 0 <= now_ms - self.began_ms < 1000:
            self.began_ms, self.written = now_ms, 0
        if self.written >= LINES_PER_SECOND:
            self.left_out += 1
            return False
        self.written += 1
        return True


class Audit:
    """What the authorizer of one node has decided; `denials` has the last ones, the oldest first."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._number = 0
        self.denials: deque[Denial] = deque(maxlen=MOST_DENIALS)

    @property
    def notes_allowances(self) -> bool:
        """Whether allowances are written, too."""
        return _log.isEnabledFor(logging.DEBUG)

    def note(self, lines: Lines, question: Question, decision: Decision, *, api_key: int, count: int) -> None:
        """Write a decision about what a request named `count` times, and keep it if it is a denial."""
        api = api_name(api_key) or str(api_key)
        now_ms = self._wall_ms()
        if not decision.is_allowed:
            self._number += 1
            rule = rule_text(decision)
            self.denials.append(Denial(self._number, now_ms, question, api, count, rule))
        level = logging.DEBUG if decision.is_allowed else logging.INFO
        if not _log.isEnabledFor(level) or not lines.take(now_ms):
            return
        if lines.left_out:
            _log.info("%d more decisions about %s are not shown", lines.left_out, question.principal)
            lines.left_out = 0
        _log.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s "
            "with resourceRefCount = %d based on rule %s",
            question.principal,
            "Allowed" if decision.is_allowed else "Denied",
            question.operation.name,
            question.host,
            spelled(question.resource_type),
            question.resource_name,
            api,
            count,
            rule_text(decision),
        )


def rule_text(decision: Decision) -> str:
    """Return what decided, as Kafka writes it into this log."""
    match decision.step:
        case Step.SUPER_USER:
            return "SuperUser"
        case Step.ALLOW | Step.DENY if decision.entry is not None:
            return f"MatchingAcl(acl={_entry_text(decision.entry)})"
        case _:
            return "DefaultAllow" if decision.is_allowed else "DefaultDeny"


def _entry_text(entry: AclEntry) -> str:
    pattern = PatternType(entry.pattern_type).name
    permission = PermissionType(entry.permission).name
    return (
        f"StandardAcl[resourceType={entry.resource_type.name}, resourceName={entry.resource_name}, "
        f"patternType={pattern}, principal={entry.principal}, host={entry.host}, "
        f"operation={entry.operation.name}, permissionType={permission}]"
    )
