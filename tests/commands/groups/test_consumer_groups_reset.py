"""`kcli consumer-groups reset-offsets` and `clone`: their whole output, as in `test_consumer_groups`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kcli.client import admin
from kcli.client.admin import TopicPartition
from tests.commands.conftest import Transcript
from tests.commands.fake_groups import FakeGroups, member, partitions_of
from tests.commands.groups.known_groups import add_known_groups
from tests.conftest import Finished


@pytest.fixture
def groups(groups: FakeGroups, monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    """Two topics, and groups of both kinds, with and without members."""
    return add_known_groups(groups, monkeypatch)


def test_reset_offsets(groups: FakeGroups, transcript: Transcript) -> None:
    before = dict(groups.groups["billing"].offsets)
    reset = "consumer-groups reset-offsets billing"
    transcript(
        "consumer_groups_reset",
        f"{reset} --to-earliest --all-topics",
        f"{reset} --to-earliest --all-topics --dry-run -o table",
        f"{reset} --to-latest --topic orders --dry-run -o json",
        f"{reset} --to-current --topic orders:2,0 --topic clicks --dry-run",
        f"{reset} --to-offset 60 --topic orders:0,1 --dry-run",
        f"{reset} --shift-by -35 --topic orders:0,1 --dry-run",
        f"{reset} --shift-by 5 --topic orders --dry-run",
        f"{reset} --to-datetime 2023-11-14T22:03:20.000 --topic orders:0,1 --dry-run -o table",
        f"{reset} --by-duration PT30M --topic orders:0 --dry-run",
        f"{reset} --to-earliest --all-topics --export",
        "consumer-groups reset-offsets billing new --to-latest --topic clicks --export",
        "consumer-groups reset-offsets --all-groups --to-current --all-topics --export",
        "consumer-groups reset-offsets new --to-latest --topic clicks --dry-run",
        "consumer-groups reset-offsets new --to-latest --all-topics",
        "consumer-groups reset-offsets audit modern --to-latest --all-topics --dry-run",
        f"{reset} --to-latest --topic nothing",
        f"{reset} --to-latest --topic orders:3",
        f"{reset} --to-latest --topic orders:x",
        f"{reset} --to-latest",
        f"{reset} --topic orders",
        f"{reset} --to-latest --to-offset 5 --topic orders",
        f"{reset} --to-latest --topic orders --all-topics",
        f"{reset} --to-latest --topic orders --execute --dry-run",
        f"{reset} --to-datetime tomorrow --topic orders",
        f"{reset} --by-duration 1h --topic orders",
        "consumer-groups reset-offsets --to-latest --topic orders",
    )
    assert groups.groups["billing"].offsets == before
    assert "new" not in groups.groups


def test_reset_offsets_executed(
    groups: FakeGroups, transcript: Transcript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("orders,0,60\norders,1,999\n")
    Path("partition.csv").write_text("orders,0,60\n\norders,9,1\n")
    Path("topic.csv").write_text("orders,0,60\nnothing,0,1\n")
    Path("several.csv").write_text("billing,orders,0,61\nnew,clicks,0,7\n")
    Path("bad.csv").write_text("topic,partition,offset\n")
    Path("binary.csv").write_bytes(b"\xff\xfe")
    transcript(
        "consumer_groups_reset_executed",
        "consumer-groups reset-offsets billing --from-file one.csv --execute",
        "consumer-groups reset-offsets --from-file several.csv --execute",
        "consumer-groups reset-offsets billing other --from-file several.csv --dry-run",
        "consumer-groups reset-offsets billing new --from-file one.csv",
        "consumer-groups reset-offsets billing --from-file bad.csv",
        "consumer-groups reset-offsets billing --from-file binary.csv",
        "consumer-groups reset-offsets billing --from-file missing.csv",
        "consumer-groups reset-offsets billing --from-file one.csv --topic orders",
        "consumer-groups reset-offsets billing --from-file partition.csv --execute",
        "consumer-groups reset-offsets billing --from-file topic.csv --export",
    )
    offsets = groups.groups["billing"].offsets
    assert [offsets[partition].offset for partition in partitions_of("orders-0", "orders-1", "clicks-0")] == [
        61,
        50,
        5,
    ]
    assert groups.groups["new"].offsets == {TopicPartition("clicks", 0): admin.CommittedOffset(7)}


def test_what_was_exported_is_what_is_imported(
    groups: FakeGroups, kcli: Callable[..., Finished], tmp_path: Path
) -> None:
    names, path = ("billing", "audit-copy"), tmp_path / "offsets.csv"
    groups.add_group("audit-copy", orders_0=99, orders_1=20)
    before = {name: dict(groups.groups[name].offsets) for name in names}
    reset = ("consumer-groups", "reset-offsets", *names)
    path.write_text(kcli(*reset, "--to-current", "--all-topics", "--export").out)
    assert kcli(*reset, "--to-earliest", "--all-topics", "--execute").exit_code == 0
    assert {name: groups.groups[name].offsets for name in names} != before
    assert kcli(*reset, "--from-file", str(path), "--execute").exit_code == 0
    for name in names:
        assert {p: entry.offset for p, entry in groups.groups[name].offsets.items()} == {
            p: entry.offset for p, entry in before[name].items()
        }


def test_somebody_joins_between_the_plan_and_the_commit(
    groups: FakeGroups, transcript: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = groups.describe_groups

    async def joined(client: object, names: Iterable[str], **more: object) -> object:
        answer = await original(client, names)
        group = groups.groups["billing"]
        group.description = group.description._replace(members=(member("late"),))
        return answer

    monkeypatch.setattr("kcli.client.admin.describe_groups", joined)
    transcript(
        "consumer_groups_reset_race",
        "consumer-groups reset-offsets billing --to-latest --topic clicks --execute",
    )


def test_clone(groups: FakeGroups, transcript: Transcript) -> None:
    groups.groups["billing"].offsets[TopicPartition("orders", 0)] = admin.CommittedOffset(40, 3, "note")
    transcript(
        "consumer_groups_clone",
        "consumer-groups clone billing copy",
        "consumer-groups clone billing copy --topic orders --execute -o table",
        "consumer-groups clone billing copy --execute",
        "consumer-groups clone billing copy --execute --force -o json",
        "consumer-groups clone billing audit",
        "consumer-groups clone nothing copy",
        "consumer-groups clone billing other --topic old",
        "consumer-groups clone billing billing",
        "consumer-groups clone billing other --execute --dry-run",
        "consumer-groups clone billing",
    )
    assert groups.groups["copy"].offsets == groups.groups["billing"].offsets
