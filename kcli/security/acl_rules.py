"""AclRules: what a set of access control entries allows (Kafka class `StandardAuthorizerData`).

| step | verdict |
|---|---|
| the principal is a super user | allowed |
| an entry that applies to the resource matches and denies | denied |
| an entry that applies to the resource matches and allows | allowed |
| no entry at all applies to the resource, whoever it is for | `allow_if_no_entry` |
| otherwise | denied |

An entry applies if its pattern is the name itself, `*`, or with PREFIXED a prefix of the name. It matches if
principal, host and operation do. An allowed operation implies those of `IMPLIED_BY`, a denied one nothing.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kcli.security.acl import WILDCARD, AclEntry, Operation, PatternType, PermissionType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

EVERYBODY = "User:*"
"""The principal of entries that are for every principal."""

IMPLIED_BY: Mapping[Operation, frozenset[Operation]] = MappingProxyType(
    {
        Operation.DESCRIBE: frozenset(
            {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
        ),
        Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
    }
)
"""The operations of which each one, if it is allowed, allows the key."""

_ANY_NAME = "hardcode"
"""Kafka asks for this name first when it asks for any resource (`Authorizer.authorizeByResourceType`)."""


class Step(Enum):
    """The step that decides."""

    SUPER_USER = "super user"
    DENY = "denied by an entry"
    ALLOW = "allowed by an entry"
    NO_ENTRY = "no entry for the resource"
    NO_MATCH = "no entry that matches"


class Decision(NamedTuple):
    """A verdict, the step that made it, and the entry that did if there is one."""

    is_allowed: bool
    step: Step
    entry: AclEntry | None = None


class Question(NamedTuple):
    """What is asked: whether `principal` (`Type:name`) at `host` may do an operation on a resource."""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    resource_name: str

    def matches(self, entry: AclEntry) -> bool:
        """Return whether an entry that applies to the resource is about the principal, host and operation."""
        if entry.principal not in (self.principal, EVERYBODY) or entry.host not in (self.host, WILDCARD):
            return False
        if entry.operation in (Operation.ALL, self.operation):
            return True
        return (
            entry.permission is PermissionType.ALLOW
            and self.operation in IMPLIED_BY
            and entry.operation in IMPLIED_BY[self.operation]
        )


class _Patterns:
    """The entries about resources of one type, by the text of their patterns."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(
        self,
        literal: Mapping[str, tuple[AclEntry, ...]] = MappingProxyType({}),
        prefixed: Mapping[str, tuple[AclEntry, ...]] = MappingProxyType({}),
    ) -> None:
        self.literal = literal
        self.prefixed = prefixed
        self.lengths = sorted({len(text) for text in prefixed})

    def applicable(self, name: str) -> Iterator[AclEntry]:
        """Yield the entries that apply to a resource."""
        yield from self.literal.get(name, ())
        if name != WILDCARD:
            yield from self.literal.get(WILDCARD, ())
        for length in self.lengths:
            if length > len(name):
                break
            yield from self.prefixed.get(name[:length], ())

    def __iter__(self) -> Iterator[AclEntry]:
        for patterns in (self.literal, self.prefixed):
            for entries in patterns.values():
                yield from entries


_NO_PATTERNS = _Patterns()


class AclRules:
    """An immutable set of entries, and the configuration of the authorizer.

    `super_users` are principals as `Type:name`, compared as text.
    """

    __slots__ = ("_by_type", "allow_if_no_entry", "super_users")

    def __init__(
        self,
        entries: Iterable[AclEntry] = (),
        *,
        super_users: frozenset[str] = frozenset(),
        allow_if_no_entry: bool = False,
    ) -> None:
        self.super_users = super_users
        self.allow_if_no_entry = allow_if_no_entry
        self._by_type: Mapping[ResourceType, _Patterns] = _changed({}, removed=(), added=entries)

    def changed(self, *, removed: Iterable[AclEntry] = (), added: Iterable[AclEntry] = ()) -> AclRules:
        """Return the rules with other entries; what is not about their types is shared."""
        rules = AclRules(super_users=self.super_users, allow_if_no_entry=self.allow_if_no_entry)
        rules._by_type = _changed(self._by_type, removed=removed, added=added)
        return rules

    def __iter__(self) -> Iterator[AclEntry]:
        for patterns in self._by_type.values():
            yield from patterns

    def applicable(self, type: ResourceType, name: str) -> Iterator[AclEntry]:
        """Yield the entries that apply to a resource, whoever they are for."""
        return self._by_type.get(type, _NO_PATTERNS).applicable(name)

    def decide(self, question: Question) -> Decision:
        """Return whether something is allowed, and why."""
        if question.principal in self.super_users:
            return Decision(True, Step.SUPER_USER)
        allowing = None
        is_empty = True
        for entry in self.applicable(question.resource_type, question.resource_name):
            is_empty = False
            if question.matches(entry):
                if entry.permission is not PermissionType.ALLOW:
                    return Decision(False, Step.DENY, entry)
                allowing = allowing or entry
        if allowing is not None:
            return Decision(True, Step.ALLOW, allowing)
        if is_empty:
            return Decision(self.allow_if_no_entry, Step.NO_ENTRY)
        return Decision(False, Step.NO_MATCH)

    def decide_any(self, principal: str, host: str, operation: Operation, type: ResourceType) -> bool:
        """Return whether an operation is allowed on at least one resource of a type.

        Resources need not exist. Here no operation implies another (`Authorizer.authorizeByResourceType`).
        """
        if self.decide(Question(principal, host, operation, type, _ANY_NAME)).is_allowed:
            return True
        found: dict[tuple[PermissionType, PatternType], set[str]] = {}
        for entry in self._by_type.get(type, _NO_PATTERNS):
            if (
                entry.principal in (principal, EVERYBODY)
                and entry.host in (host, WILDCARD)
                and entry.operation in (operation, Operation.ALL)
            ):
                found.setdefault((entry.permission, entry.pattern_type), set()).add(entry.resource_name)
        denied = found.get((PermissionType.DENY, PatternType.LITERAL), set())
        if WILDCARD in denied:
            return False
        allowed = found.get((PermissionType.ALLOW, PatternType.LITERAL), set())
        if WILDCARD in allowed:
            return True
        denied_prefixes = found.get((PermissionType.DENY, PatternType.PREFIXED), set())
        left = (allowed - denied) | found.get((PermissionType.ALLOW, PatternType.PREFIXED), set())
        return any(denied_prefixes.isdisjoint(_prefixes(text)) for text in left)


def _prefixes(text: str) -> Iterator[str]:
    return (text[:length] for length in range(1, len(text) + 1))


def _changed(
    before: Mapping[ResourceType, _Patterns], *, removed: Iterable[AclEntry], added: Iterable[AclEntry]
) -> Mapping[ResourceType, _Patterns]:
    """Return the patterns without some entries and with others; only types that are named are made anew."""
    after = dict(before)
    drafts: dict[ResourceType, tuple[dict[str, tuple[AclEntry, ...]], dict[str, tuple[AclEntry, ...]]]] = {}

    def draft(entry: AclEntry) -> dict[str, tuple[AclEntry, ...]]:
        if entry.resource_type not in drafts:
            patterns = before.get(entry.resource_type, _NO_PATTERNS)
            drafts[entry.resource_type] = dict(patterns.literal), dict(patterns.prefixed)
        return drafts[entry.resource_type][entry.pattern_type is PatternType.PREFIXED]

    for entry in removed:
        texts = draft(entry)
        left = list(texts[entry.resource_name])
        left.remove(entry)
        if left:
            texts[entry.resource_name] = tuple(left)
        else:
            del texts[entry.resource_name]
    for entry in added:
        texts = draft(entry)
        texts[entry.resource_name] = (*texts.get(entry.resource_name, ()), entry)
    after.update({type: _Patterns(*texts) for type, texts in drafts.items()})
    return after
