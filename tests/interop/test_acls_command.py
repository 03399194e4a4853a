"""`kcli acls` beside kafka-acls.sh, on Apache Kafka and on kcli, and denied Java consumers that it helps."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support.kcli_broker import KcliBroker
from tests.support.ports import free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.apache_kafka import KafkaTools, ToolResult
    from tests.support.guarded_brokers import GuardedApache

pytestmark = pytest.mark.interop

Run = Callable[..., "Finished"]
Tool = Callable[..., "ToolResult"]
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Guarded(NamedTuple):
    """A broker with an authorizer: PLAINTEXT is a super user, SASL_PLAINTEXT knows `alice` by PLAIN."""

    bootstrap: str
    sasl: str
    password: str


@pytest.fixture(scope="module")
def guarded_kcli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    plain, sasl = (f"127.0.0.1:{port}" for port in free_ports(2))
    settings = {
        "listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{sasl}",
        "authorizer.class.name": "standard",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{JAAS} required user_alice="alice-s3cret";',
    }
    broker = KcliBroker(tmp_path_factory.mktemp("guarded"), settings=settings)
    broker.start()
    yield Guarded(plain, sasl, "alice-s3cret")
    assert broker.stop() == 0


@pytest.fixture(scope="module")
def guarded_kafka(guarded_apache: GuardedApache) -> Guarded:
    return Guarded(guarded_apache.bootstrap, guarded_apache.doors.address("SASL_PLAINTEXT"), "alice-s3cret")


@pytest.fixture(params=["guarded_kafka", "guarded_kcli"])
def guarded(request: pytest.FixtureRequest, kcli: Run, monkeypatch: pytest.MonkeyPatch) -> Guarded:
    """Each of the two brokers, the one that `kcli` talks to."""
    found: Guarded = request.getfixturevalue(request.param)
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", found.bootstrap)
    return found


@pytest.fixture
def theirs(guarded: Guarded, kafka_tool: KafkaTools) -> Tool:
    """Run kafka-acls.sh."""
    return lambda *arguments: kafka_tool("kafka-acls", "--bootstrap-server", guarded.bootstrap, *arguments)


def blocks(output: str) -> dict[str, set[str]]:
    """Return the lines of the entries by the line of their resource; their order is Java's hash order."""
    found: dict[str, set[str]] = {}
    entries: set[str] = set()
    for line in output.splitlines():
        if line.strip(" ").startswith("\t"):
            entries.add(line.strip())
        elif line.strip():
            entries = found.setdefault(line.strip(), set())
    return found


BOB = ("--allow-principal", "User:bob")
SETS = (
    (*BOB, "--operation", "Read", "--operation", "DescribeConfigs", "--topic", "a"),
    ("--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "Write", "--topic", "a"),
    (*BOB, "--allow-principal", "User:carol", "--cluster"),
    (*BOB, "--producer", "--idempotent", "--topic", "b", "--transactional-id", "x"),
    (*BOB, "--consumer", "--topic", "c", "--group", "g"),
    (*BOB, "--operation", "Read", "--topic", "pre", "--resource-pattern-type", "prefixed"),
    (*BOB, "--operation", "CreateTokens", "--user-principal", "User:carol"),
    (*BOB, "--operation", "Describe", "--delegation-token", "abc"),
)


def test_entries_are_added_listed_and_removed_as_by_the_original(
    guarded: Guarded, theirs: Tool, kcli: Run
) -> None:
    for index, each in enumerate(SETS):
        ours = kcli("acls", "add", *each) if index % 2 else theirs("--add", *each)
        added = ours.out if index % 2 else ours.output  # type: ignore[union-attr]
        again = theirs("--add", *each) if index % 2 else kcli("acls", "add", *each)
        told = again.output if index % 2 else again.out  # type: ignore[union-attr]
        new = {
            f"Acl (pattern={heading.split('`')[1]}, entry={entry}) already exists."
            for heading, entries in blocks(added).items()
            for entry in entries
        }
        assert new
        assert set(told.splitlines()) == new
    for arguments in (
        (),
        ("--topic", "a"),
        ("--topic", "prefix", "--resource-pattern-type", "match"),
        ("--topic", "pre", "--resource-pattern-type", "any"),
        ("--principal", "User:carol"),
        ("--principal", "User:bob", "--cluster"),
    ):
        assert blocks(kcli("acls", "list", *arguments).out) == blocks(theirs("--list", *arguments).output)
    for index, each in enumerate(SETS):
        removed = (
            kcli("acls", "remove", *each).exit_code
            if index % 2
            else theirs("--remove", "--force", *each).code
        )
        assert removed == 0
    assert kcli("acls", "list").out.strip() == theirs("--list").output.strip() == ""


def test_what_is_not_named_exactly_needs_a_yes(guarded: Guarded, kcli: Run) -> None:
    both = ("--topic", "gone", "--topic", "kept")
    assert kcli("acls", "add", "--allow-principal", "User:bob", *both).exit_code == 0
    refused = kcli("acls", "remove", "--topic", "gone")
    assert (refused.exit_code, refused.err) == (
        2,
        "error: this matches 1 entry: nobody can be asked here\n"
        "hint: `--dry-run` shows them, `--yes` removes them\n",
    )
    shown = kcli("acls", "remove", "--topic", "gone", "--dry-run")
    assert shown.out == (
        "Would remove ACLs for resource "
        "`ResourcePattern(resourceType=TOPIC, name=gone, patternType=LITERAL)`:\n"
        "\t(principal=User:bob, host=*, operation=ALL, permissionType=ALLOW)\n\n"
    )
    done = kcli("acls", "remove", "--topic", "gone", "--yes", "-o", "json")
    assert [each["resource_name"] for each in json.loads(done.out)["removed"]] == ["gone"]
    nothing = kcli("acls", "remove", "--topic", "gone", "--yes")
    assert (nothing.exit_code, nothing.err) == (0, "no entry matches: nothing was removed\n")
    assert "name=kept" in kcli("acls", "list").out
    assert kcli("acls", "remove", *both, "--yes").exit_code == 0


@pytest.fixture
def alice(guarded: Guarded, tmp_path: Path) -> Path:
    """Client properties of alice."""
    path = tmp_path / "alice.properties"
    path.write_text(
        f"bootstrap.servers={guarded.sasl}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={JAAS} required username="alice" password="{guarded.password}";\n'
    )
    return path


def test_the_proposed_lines_make_a_denied_consumer_work(
    guarded: Guarded, alice: Path, kcli: Run, kafka_tool: KafkaTools
) -> None:
    assert kcli("topics", "create", "explained").exit_code == 0
    assert kcli("produce", "explained", input=b"value\n").exit_code == 0

    def consume() -> ToolResult:
        consuming = (
            "--topic",
            "explained",
            "--group",
            "explained-g",
            "--from-beginning",
            "--max-messages",
            "1",
        )
        return kafka_tool(
            "kafka-console-consumer", *consuming, "--timeout-ms", "8000",
            "--bootstrap-server", guarded.sasl, "--command-config", alice,
        )  # fmt: skip

    denied = consume()
    assert "AuthorizationException" in denied.output + denied.errors
    asked = ("--principal", "User:alice", "--topic", "explained", "--group", "explained-g")
    lines: list[str] = []
    for api in ("Fetch", "JoinGroup"):
        explained = kcli("acls", "explain", *asked, "--api", api, "-o", "json")
        assert explained.exit_code == 3
        for each in json.loads(explained.out)["permissions"]:
            lines += each["remedy"]
    assert lines == [
        "kcli acls add --allow-principal User:alice --operation Read --topic explained",
        "kcli acls add --allow-principal User:alice --operation Read --group explained-g",
    ]
    for line in lines:
        assert kcli(*shlex.split(line)[1:]).exit_code == 0
    assert consume().output == "value\n"
    allowed = kcli("acls", "explain", *asked, "--api", "Fetch")
    assert (allowed.exit_code, allowed.out) == (
        0,
        "allowed: User:alice from 127.0.0.1: Read on Topic explained\n"
        "  because an entry allows it\n"
        "    (principal=User:alice, host=*, operation=READ, permissionType=ALLOW) on "
        "ResourcePattern(resourceType=TOPIC, name=explained, patternType=LITERAL)\n",
    )
    removed = ("--allow-principal", "User:alice", "--operation", "Read")
    for line in (("--topic", "explained"), ("--group", "explained-g")):
        assert kcli("acls", "remove", *removed, *line).exit_code == 0
    assert kcli("topics", "delete", "explained").exit_code == 0
