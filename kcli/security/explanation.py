"""Explanation: why an authorizer allows or denies something, and which entries would change that."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.security.acl import WILDCARD, AclEntry, PatternType, PermissionType, spelled
from kcli.security.acl_rules import EVERYBODY, IMPLIED_BY, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.security.acl_rules import AclRules, Decision, Question


class NearMiss(NamedTuple):
    """An entry that would have matched but for one field, and that field."""

    entry: AclEntry
    field: str


class Explanation(NamedTuple):
    """A decision about a question, with what has to do with it.

    `matching` has the other entries that match; `remove` those that deny, and `add` the one that would allow
    it then, None if no more is needed.
    """

    question: Question
    decision: Decision
    matching: Sequence[AclEntry] = ()
    near_misses: Sequence[NearMiss] = ()
    remove: Sequence[AclEntry] = ()
    add: AclEntry | None = None

    @property
    def reason(self) -> str:
        """What decided, as a clause."""
        match self.decision.step:
            case Step.SUPER_USER:
                return f"{self.question.principal} is a super user"
            case Step.NO_ENTRY if self.decision.is_allowed:
                return "no entry is about the resource, and `allow.everyone.if.no.acl.found` is true"
            case Step.NO_ENTRY:
                return "no entry is about the resource"
            case Step.NO_MATCH:
                return "entries are about the resource, and none allows this"
            case Step.DENY:
                return "an entry denies it"
            case Step.ALLOW:
                return "an entry allows it"

    @classmethod
    def of(cls, rules: AclRules, question: Question) -> Explanation:
        """Return why `rules` allow or deny something."""
        decision = rules.decide(question)
        applicable = list(rules.applicable(question.resource_type, question.resource_name))
        matching = [entry for entry in applicable if question.matches(entry)]
        remove: list[AclEntry] = []
        near_misses: list[NearMiss] = []
        add = None
        if not decision.is_allowed:
            near_misses = list(_near_misses(question, rules))
            remove = [entry for entry in matching if entry.permission is PermissionType.DENY]
            if len(remove) == len(matching):
                add = _allowing(question)
        return cls(
            question,
            decision,
            [entry for entry in matching if entry != decision.entry],
            near_misses,
            remove,
            add,
        )


def _allowing(question: Question) -> AclEntry:
    return AclEntry(
        question.resource_type,
        question.resource_name,
        PatternType.LITERAL,
        question.principal,
        WILDCARD,
        question.operation,
        PermissionType.ALLOW,
    )


def _near_misses(question: Question, rules: AclRules) -> Iterator[NearMiss]:
    """Yield the allowing entries that differ from the question in one field only."""
    applicable = set(rules.applicable(question.resource_type, question.resource_name))
    for entry in sorted(rules):
        if entry.permission is not PermissionType.ALLOW or entry.resource_type is not question.resource_type:
            continue
        allowed = IMPLIED_BY.get(question.operation, frozenset({question.operation}))
        differing = {
            "resource": entry not in applicable,
            "principal": entry.principal not in (question.principal, EVERYBODY),
            "host": entry.host not in (question.host, WILDCARD),
            "operation": entry.operation not in allowed and spelled(entry.operation) != "All",
        }
        fields = [name for name, differs in differing.items() if differs]
        if len(fields) == 1:
            yield NearMiss(entry, fields[0])
