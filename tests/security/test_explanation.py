"""Explanations: the proposed commands make allowed what was denied, whatever the entries are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.commands.acls.explain import command_line
from kcli.security.acl import AclEntry, Operation, ResourceType
from kcli.security.acl_rules import AclRules, Question, Step
from kcli.security.api_access import API_ACCESS
from kcli.security.explanation import Explanation
from tests.broker.handlers.test_authorization import ROWS
from tests.security.test_acl_rules import DENY, ENTRIES, PREFIXED, QUESTIONS, entry, question


@given(st.lists(ENTRIES, max_size=12, unique=True), QUESTIONS)
def test_what_is_proposed_allows_it(entries: list[AclEntry], asked: Question) -> None:
    rules = AclRules(entries)
    explained = Explanation.of(rules, asked)
    assert explained.decision == rules.decide(asked)
    added = [] if explained.add is None else [explained.add]
    assert bool(added or explained.remove) is not explained.decision.is_allowed
    assert rules.changed(removed=explained.remove, added=added).decide(asked).is_allowed
    for near in explained.near_misses:
        assert not asked.matches(near.entry) or near.field == "resource"


@pytest.mark.parametrize(
    ("entries", "near"),
    [
        ([entry(host="1.2.3.5")], "host"),
        ([entry(principal="User:b")], "principal"),
        ([entry("other")], "resource"),
        ([entry(operation=Operation.WRITE)], "operation"),
        ([entry("other", host="1.2.3.5")], None),
        ([entry("other", permission=DENY)], None),
    ],
)
def test_entries_that_almost_allow_it(entries: list[AclEntry], near: str | None) -> None:
    found = Explanation.of(AclRules(entries), question()).near_misses
    assert [each.field for each in found] == ([near] if near else [])


def test_the_reason_of_each_step() -> None:
    root = frozenset({"User:a"})
    reasons = {
        Explanation.of(rules, question()).decision.step: Explanation.of(rules, question()).reason
        for rules in (
            AclRules(super_users=root),
            AclRules(),
            AclRules([entry(principal="User:b")]),
            AclRules([entry()]),
            AclRules([entry(permission=DENY)]),
        )
    }
    assert reasons == {
        Step.SUPER_USER: "User:a is a super user",
        Step.NO_ENTRY: "no entry is about the resource",
        Step.NO_MATCH: "entries are about the resource, and none allows this",
        Step.ALLOW: "an entry allows it",
        Step.DENY: "an entry denies it",
    }
    open_to_all = Explanation.of(AclRules(allow_if_no_entry=True), question())
    assert (
        open_to_all.reason == "no entry is about the resource, and `allow.everyone.if.no.acl.found` is true"
    )


@pytest.mark.parametrize(
    ("about", "line"),
    [
        (
            entry(),
            "kcli acls add --allow-principal User:a --operation Read --topic t",
        ),
        (
            entry("a b*", Operation.ALL, DENY, pattern=PREFIXED, host="::1", principal="User:C=x, O=y"),
            "kcli acls add --deny-principal 'User:C=x, O=y' --deny-host ::1 --operation All "
            "--topic 'a b*' --resource-pattern-type prefixed",
        ),
        (
            entry("kafka-cluster", Operation.DESCRIBE_CONFIGS, type=ResourceType.CLUSTER),
            "kcli acls add --allow-principal User:a --operation DescribeConfigs --cluster",
        ),
    ],
)
def test_the_command_for_an_entry(about: AclEntry, line: str) -> None:
    assert command_line(about, "add") == line


OF_BROKERS = (" of a follower", " of a broker", " of a share group")
"""Requests that only brokers send, or that ask for what kcli does not have."""
DATA_DEPENDENT = {"DescribeCluster", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe"}
"""What these need besides follows from what they name, or is left out of the response."""


@pytest.mark.parametrize("name", [name for name in ROWS if not name.endswith(OF_BROKERS)])
def test_the_handlers_ask_for_what_the_table_says(name: str) -> None:
    api = name.split(" ")[0].rstrip(",")
    known = {
        f"{each.operation.name} {each.type.name}"
        for need in API_ACCESS[api]
        for each in (need.permission, *need.instead)
    }
    asked = {" ".join(each.split(" ")[:2]) for each in ROWS[name][2]}
    if api not in DATA_DEPENDENT:
        assert asked <= known
