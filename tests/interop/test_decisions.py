"""AclRules and Apache Kafka's StandardAuthorizer decide 20,000 random questions alike."""

from __future__ import annotations

import random
import subprocess
from typing import TYPE_CHECKING

import pytest

from kcli.broker.security.authorizer import host_text
from kcli.security.acl import AclEntry, Operation, PatternType, PermissionType, ResourceType
from kcli.security.acl_rules import AclRules, Question
from tests.support.apache_kafka import java_command
from tests.support.toolchain import java_classes, need

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.interop

RULE_SETS = 500
QUESTIONS = 40
NAMES = ("a", "ab", "abc", "abd", "b", "ba", "z.z", "abc-1", "hardcode", "hard")
HOSTS = ("127.0.0.1", "10.1.2.3", "::1", "2001:db8::7")
PRINCIPALS = ("User:alice", "User:bob", "User:eve", "User:ANONYMOUS", "Group:alice", "User:a:b")
TYPES = [type for type in ResourceType if type > ResourceType.ANY]
OPERATIONS = [operation for operation in Operation if operation > Operation.ALL]


def entries(chance: random.Random) -> list[AclEntry]:
    """Return the entries of a set, mostly about one type so that many of them meet."""
    types = [chance.choice(TYPES), chance.choice(TYPES)]
    operations = [Operation.ALL, *chance.choices(OPERATIONS, k=3), Operation.READ, Operation.ALTER_CONFIGS]
    deny = chance.choice([0.0, 0.2, 0.6])
    found = (
        AclEntry(
            chance.choice(types),
            chance.choice((*NAMES, "*")),
            chance.choice((PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED)),
            chance.choice((*PRINCIPALS, "User:*")),
            chance.choice(("*", "*", *map(host_text, HOSTS))),
            chance.choice(operations),
            PermissionType.DENY if chance.random() < deny else PermissionType.ALLOW,
        )
        for _ in range(chance.choice((0, 1, 3, 8, 30)))
    )
    return list(dict.fromkeys(found))  # Kafka keeps no entry twice.


def questions(chance: random.Random, found: list[AclEntry]) -> Iterator[Question]:
    """Yield questions, an empty name for any resource; most are about something an entry is about."""
    for _ in range(QUESTIONS):
        near = chance.choice(found) if found else None
        operation = chance.choice(OPERATIONS)
        if near is not None and near.operation is not Operation.ALL and chance.random() < 0.5:
            operation = near.operation
        yield Question(
            chance.choice(PRINCIPALS) if near is None or near.principal == "User:*" else near.principal,
            chance.choice(HOSTS),
            operation,
            chance.choice(TYPES) if near is None or chance.random() < 0.2 else near.resource_type,
            "" if chance.random() < 0.3 else chance.choice(NAMES),
        )


def test_random_questions_are_decided_as_by_the_standard_authorizer() -> None:
    need("java", "javac", "mvn")
    chance = random.Random(20_261_127)
    lines: list[str] = []
    decided: list[tuple[list[AclEntry], Question, bool]] = []
    for _ in range(RULE_SETS):
        super_users = chance.choice(("User:root", "User:root;User:eve"))
        is_open = chance.random() < 0.3
        found = entries(chance)
        lines.append(f"rules\t{super_users}\t{str(is_open).lower()}")
        lines += ["acl\t" + "\t".join(map(_word, entry)) for entry in found]
        rules = AclRules(found, super_users=frozenset(super_users.split(";")), allow_if_no_entry=is_open)
        for question in questions(chance, found):
            lines.append("ask\t" + "\t".join(map(_word, question)).rstrip("\t"))
            asked = question._replace(host=host_text(question.host))
            if question.resource_name:
                verdict = rules.decide(asked).is_allowed
            else:
                verdict = rules.decide_any(*asked[:4])
            decided.append((found, question, verdict))
    command = java_command("apache-kafka", "Decisions", classes=java_classes("apache-kafka", "Decisions"))
    text = "\n".join(lines) + "\n"
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = [line == "1" for line in done.stdout.splitlines()]
    assert len(theirs) == len(decided) == RULE_SETS * QUESTIONS
    different = [
        (question, ours, found)
        for (found, question, ours), their in zip(decided, theirs, strict=True)
        if ours is not their
    ]
    assert different[:3] == []
    # Both verdicts are common, for a name and for any.
    for is_any in (True, False):
        verdicts = [verdict for _, question, verdict in decided if bool(question.resource_name) is not is_any]
        assert 0.05 < sum(verdicts) / len(verdicts) < 0.95


def _word(part: object) -> str:
    return str(int(part)) if isinstance(part, int) else str(part)
