"""AclRules: each step of a decision, and random rules against a plain reading of the table of steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.security.acl import (
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    number,
)
from kcli.security.acl_rules import AclRules, Question, Step

ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def entry(
    name: str = "t",
    operation: Operation = Operation.READ,
    permission: PermissionType = ALLOW,
    *,
    pattern: PatternType = LITERAL,
    principal: str = "User:a",
    host: str = "*",
    type: ResourceType = ResourceType.TOPIC,
) -> AclEntry:
    return AclEntry(type, name, pattern, principal, host, operation, permission)


def question(
    operation: Operation = Operation.READ, name: str = "t", principal: str = "User:a", host: str = "1.2.3.4"
) -> Question:
    return Question(principal, host, operation, ResourceType.TOPIC, name)


READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


@pytest.mark.parametrize(
    ("entries", "asked", "step"),
    [
        ([], question(), Step.NO_ENTRY),
        ([entry()], question(), Step.ALLOW),
        ([entry()], question(WRITE), Step.NO_MATCH),
        ([entry()], question(principal="User:b"), Step.NO_MATCH),
        ([entry(principal="User:*")], question(principal="User:b"), Step.ALLOW),
        ([entry(principal="Group:*")], question(principal="Group:b"), Step.NO_MATCH),
        ([entry(host="1.2.3.4")], question(), Step.ALLOW),
        ([entry(host="1.2.3.5")], question(), Step.NO_MATCH),
        ([entry("*")], question(), Step.ALLOW),
        ([entry("*", pattern=PREFIXED)], question(), Step.NO_ENTRY),
        ([entry("te", pattern=PREFIXED)], question(name="test"), Step.ALLOW),
        ([entry("te")], question(name="test"), Step.NO_ENTRY),
        ([entry("test-more", pattern=PREFIXED)], question(name="test"), Step.NO_ENTRY),
        ([entry(), entry(permission=DENY)], question(), Step.DENY),
        ([entry(), entry("*", permission=DENY)], question(), Step.DENY),
        ([entry(permission=DENY, operation=Operation.ALL)], question(), Step.DENY),
        ([entry(operation=WRITE)], question(DESCRIBE), Step.ALLOW),
        ([entry(operation=Operation.ALTER_CONFIGS)], question(Operation.DESCRIBE_CONFIGS), Step.ALLOW),
        ([entry(operation=Operation.CREATE)], question(DESCRIBE), Step.NO_MATCH),
        ([entry(operation=DESCRIBE), entry(permission=DENY)], question(DESCRIBE), Step.ALLOW),
        ([entry(type=ResourceType.GROUP)], question(), Step.NO_ENTRY),
        ([entry(permission=DENY)], question(principal="User:root"), Step.SUPER_USER),
    ],
)
def test_the_step_that_decides(entries: list[AclEntry], asked: Question, step: Step) -> None:
    decision = AclRules(entries, super_users=frozenset({"User:root"})).decide(asked)
    assert decision.step is step
    assert decision.is_allowed is (step in (Step.SUPER_USER, Step.ALLOW))
    assert (decision.entry is not None) is (step in (Step.ALLOW, Step.DENY))


def test_what_no_entry_is_about_may_be_open_to_everybody() -> None:
    rules = AclRules([entry("other", permission=DENY)], allow_if_no_entry=True)
    assert rules.decide(question()).is_allowed
    assert not rules.decide(question(name="other", principal="User:b")).is_allowed


def test_entries_of_newer_releases_deny_and_allow_nothing_else() -> None:
    unknown = entry(operation=number(Operation, 99), permission=number(PermissionType, 77))
    assert (unknown.operation, unknown.permission) == (Operation.UNKNOWN, PermissionType.UNKNOWN)
    assert AclRules([unknown]).decide(question()).step is Step.NO_MATCH


NAMES = st.sampled_from(["a", "ab", "abc", "b", "*", "ba"])
ENTRIES = st.builds(
    AclEntry,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    NAMES,
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:a", "User:b", "User:*", "Group:a"]),
    st.sampled_from(["*", "h1", "h2"]),
    st.sampled_from([op for op in Operation if op > Operation.ANY]),
    st.sampled_from([ALLOW, DENY]),
)
QUESTIONS = st.builds(
    Question,
    st.sampled_from(["User:a", "User:b", "User:c", "Group:a", "User:root"]),
    st.sampled_from(["h1", "h2", "h3"]),
    st.sampled_from([op for op in Operation if op > Operation.ALL]),
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    st.sampled_from(["a", "ab", "abc", "b", "bb", "c"]),
)


def applies(each: AclEntry, type: ResourceType, name: str) -> bool:
    if each.resource_type != type:
        return False
    if each.pattern_type == PREFIXED:
        return name.startswith(each.resource_name)
    return each.resource_name in ("*", name)


def plainly_allowed(entries: list[AclEntry], asked: Question, *, default: bool) -> bool:
    """Read the table of steps as it stands."""
    if asked.principal == "User:root":
        return True
    implied = {DESCRIBE: {READ, WRITE, Operation.DELETE, Operation.ALTER}}
    implied[Operation.DESCRIBE_CONFIGS] = {Operation.ALTER_CONFIGS}
    found = [each for each in entries if applies(each, asked.resource_type, asked.resource_name)]
    if not found:
        return default
    about = [
        each
        for each in found
        if each.principal in (asked.principal, "User:*") and each.host in (asked.host, "*")
    ]
    exact = {asked.operation, Operation.ALL}
    if any(each.permission == DENY and each.operation in exact for each in about):
        return False
    enough = exact | implied.get(asked.operation, set())
    return any(each.permission == ALLOW and each.operation in enough for each in about)


@given(st.lists(ENTRIES, max_size=8), st.lists(QUESTIONS, min_size=1, max_size=6), st.booleans())
def test_random_rules_decide_as_their_table_reads(
    entries: list[AclEntry], asked: list[Question], default: bool
) -> None:
    rules = AclRules(entries, super_users=frozenset({"User:root"}), allow_if_no_entry=default)
    for each in asked:
        assert rules.decide(each).is_allowed is plainly_allowed(entries, each, default=default), each


@given(st.lists(ENTRIES, max_size=8), QUESTIONS)
def test_an_operation_on_any_resource_is_allowed_if_one_could_exist(
    entries: list[AclEntry], asked: Question
) -> None:
    """Without implied operations: `decide` on a name for each pattern, and one that no pattern is about."""
    operation = asked.operation
    if operation in (DESCRIBE, Operation.DESCRIBE_CONFIGS):
        return
    rules = AclRules(entries)
    texts = {each.resource_name for each in entries} | {"hardcode"}
    candidates = {text for text in texts if text != "*"}
    # A prefix may be `*`: it is that of a name such as `*~`.
    candidates |= {f"{text}~" for text in texts}
    expected = any(rules.decide(asked._replace(resource_name=name)).is_allowed for name in candidates)
    assert rules.decide_any(asked.principal, asked.host, operation, asked.resource_type) is expected


@given(st.lists(ENTRIES, max_size=6), st.lists(ENTRIES, max_size=6), st.lists(QUESTIONS, max_size=4))
def test_changed_rules_are_those_of_the_entries_that_are_left(
    kept: list[AclEntry], gone: list[AclEntry], asked: list[Question]
) -> None:
    before = AclRules([*gone, *kept[:2]])
    changed = before.changed(removed=gone, added=kept[2:])
    assert sorted(changed) == sorted(kept)
    assert sorted(before) == sorted([*gone, *kept[:2]])
    fresh = AclRules(kept)
    for each in asked:
        assert changed.decide(each).is_allowed is fresh.decide(each).is_allowed


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), {"t", "te", "*", "other"}),
        (AclFilter(resource_name="te"), {"te"}),
        (AclFilter(resource_name="te", pattern_type=LITERAL), set()),
        (AclFilter(resource_name="test", pattern_type=PatternType.MATCH), {"te", "*"}),
        (AclFilter(resource_name="*", pattern_type=LITERAL), {"*"}),
        (AclFilter(pattern_type=PREFIXED), {"te"}),
        (AclFilter(principal="User:b"), {"other"}),
        (AclFilter(host="h"), {"other"}),
        (AclFilter(operation=WRITE), {"other"}),
        (AclFilter(permission=DENY), {"*"}),
        (AclFilter(ResourceType.GROUP), set()),
    ],
)
def test_what_a_filter_finds(wanted: AclFilter, found: set[str]) -> None:
    entries = [
        entry(),
        entry("te", pattern=PREFIXED),
        entry("*", permission=DENY),
        entry("other", WRITE, principal="User:b", host="h"),
    ]
    assert {each.resource_name for each in entries if wanted.matches(each)} == found
