"""What Apache Kafka's tools say about groups: kafka-consumer-groups, and the dump of the offsets topic."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.waiting import PATIENCE_SECONDS, first

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools
    from tests.support.group_members import Member, Members

_RECORD = re.compile(r"\| offset: (?P<offset>\d+) .*? key: (?P<key>\{.*?\})(?: payload: (?P<payload>.*))?$")


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A line of `--describe --members --verbose`."""

    member_id: str
    instance: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class DescribedState:
    """The line of `--describe --state`."""

    strategy: str
    state: str
    members: int


class GroupTool:
    """kafka-consumer-groups against one broker; it must succeed."""

    def __init__(self, tools: KafkaTools, bootstrap: str) -> None:
        self._tools = tools
        self._bootstrap = bootstrap

    def __call__(self, *arguments: str) -> list[str]:
        """Run the tool; its lines but for empty ones."""
        result = self._tools("kafka-consumer-groups", "--bootstrap-server", self._bootstrap, *arguments)
        assert result.code == 0, result
        return [line for line in result.lines if line.strip()]

    def _rows(self, group: str, *options: str) -> Iterator[dict[str, str]]:
        """The table of a description; cells lie where their heads do. None of a group without such rows."""
        head, *lines = self("--describe", "--group", group, *options) or [""]
        if _is_unknown(head):
            head = ""
        assert head.startswith("GROUP ") or not (head or lines), head
        columns = [(match[0].strip(), match.start()) for match in re.finditer(r"[^ ]+( [^ ]+)* *", head)]
        ends = [start for _, start in columns[1:]] + [None]
        for line in lines:
            yield {name: line[start:end].strip() for (name, start), end in zip(columns, ends, strict=True)}

    def members(self, group: str) -> dict[str, DescribedMember]:
        """The members by client id."""
        return {
            row["CLIENT-ID"]: DescribedMember(
                row["CONSUMER-ID"], row.get("GROUP-INSTANCE-ID", ""), _partitions(row["CURRENT-ASSIGNMENT"])
            )
            for row in self._rows(group, "--members", "--verbose")
        }

    def state(self, group: str) -> DescribedState:
        """The state of the group; `Dead` if there is none of that name."""
        row = next(self._rows(group, "--state"), None)
        if row is None:
            return DescribedState("-", "Dead", 0)
        return DescribedState(row["ASSIGNMENT-STRATEGY"], row["STATE"], int(row["#MEMBERS"]))

    def offsets(self, group: str) -> dict[int, int]:
        """The committed offsets of the group's one topic."""
        rows = self._rows(group, "--offsets")
        return {
            int(row["PARTITION"]): int(row["CURRENT-OFFSET"]) for row in rows if row["CURRENT-OFFSET"] != "-"
        }

    def agreed(self, group: str, members: Members) -> dict[str, DescribedMember]:
        """The members, once the broker says the same as they do about who owns what."""
        described, _ = first(
            lambda: (self.members(group), {member.name: set(member.owned) for member in members.inside}),
            lambda both: {name: each.partitions for name, each in both[0].items()} == both[1],
            f"the broker and the members of {group} agree",
        )
        return described

    def rest(self, group: str, members: Members) -> None:
        """Wait until the group is stable and its members know what they have."""
        first(lambda: self.state(group).state, lambda state: state == "Stable", f"{group} is stable")
        self.agreed(group, members)

    def join_in_turn(self, group: str, partitions: int, *crew: Member, **options: str | int) -> None:
        """Let members join, each when the group is at rest.

        In the new protocol librdkafka keeps what is taken from it before it has said that it has it.
        """
        members = crew[0].members
        if members.inside:
            self.rest(group, members)
        for member in crew:
            member.join(group=group, **options)
            members.settle(partitions, PATIENCE_SECONDS, f"{member.name} has joined {options}")
            self.rest(group, members)

    def type(self, group: str) -> str:
        """`Classic` or `Consumer`; nothing of a group that is not listed."""
        rows = [line.split() for line in self("--list", "--type")]
        return next((row[1] for row in rows if row[0] == group), "")


def _is_unknown(line: str) -> bool:
    """Of the tool about a group that is not there, or not yet: it ends with 0."""
    return line.startswith("Error: ") and ("GroupIdNotFoundException" in line or "does not exist" in line)


def _partitions(assignment: str) -> frozenset[int]:
    """Of `topic:0,1,2`."""
    return frozenset(int(number) for number in re.findall(r"\d+", assignment.partition(":")[2]))


@dataclass(frozen=True, slots=True)
class OffsetsRecord:
    """A record of `__consumer_offsets` as the dump tool decodes it."""

    file: str
    offset: int
    key: dict[str, Any]
    value: dict[str, Any] | None
    """None of a tombstone."""

    @property
    def group(self) -> str:
        """The group it is about."""
        return str(self.key["data"]["group" if "group" in self.key["data"] else "groupId"])


def offsets_records(tools: KafkaTools, directory: Path) -> list[OffsetsRecord]:
    """Every record of a node's `__consumer_offsets`; the dump tool must neither fail nor complain."""
    found = []
    for path in sorted(directory.glob("__consumer_offsets-*/*.log")):
        if path.stat().st_size == 0:
            continue
        result = tools("kafka-dump-log", "--offsets-decoder", "--print-data-log", "--files", path)
        assert result.code == 0, result
        for complaint in ("Could not", "Exception", "Unable", "mismatch"):
            assert complaint not in result.output + result.errors, result
        for line in result.lines:
            match = _RECORD.match(line)
            assert match is not None or not line.startswith("| offset:") or "endTxnMarker" in line, line
            if match is not None:
                found.append(_record(path.parent.name, match))
    return found


def _record(file: str, match: re.Match[str]) -> OffsetsRecord:
    payload = match["payload"]
    value = None if payload in (None, "<DELETE>", "null") else json.loads(payload)
    return OffsetsRecord(file, int(match["offset"]), json.loads(match["key"]), value)


def group_metadata(records: list[OffsetsRecord], group: str) -> dict[str, Any]:
    """What the last record of a classic group says of it."""
    found = [record for record in records if record.group == group and int(record.key["type"]) == 2]
    assert found, f"no metadata of group {group}"
    value = found[-1].value
    assert value is not None, f"group {group} is deleted"
    data: dict[str, Any] = value["data"]
    return data
