"""`kcli consumer-groups`, whole: each verb in text and JSON, its errors and exit codes.

Lines of stderr are marked with `!` in the goldens. The text of groups is compared with that of Apache Kafka's
own tool in `tests/interop/test_consumer_groups_tool.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.client import admin
from kcli.client.admin import TopicPartition
from kcli.commands.groups import inquiry
from kcli.commands.groups.history import GroupHistory
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.commands.conftest import Transcript
from tests.commands.fake_groups import FakeGroups, member, partitions_of
from tests.commands.offsets_log import NOW, OffsetsLog, write_topic
from tests.conftest import Finished

MINUTE = 60_000


@pytest.fixture
def groups(groups: FakeGroups, monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    """Two topics, and groups of either kind, with members and without."""
    fake = groups
    monkeypatch.setattr("kcli.commands.record_times.first_timestamps", fake.first_timestamps)
    monkeypatch.setattr(time, "time_ns", lambda: NOW * 1_000_000)
    orders = fake.add("orders", [1], [1], [1])
    orders.offsets = {0: (10, 100), 1: (0, 50), 2: (0, 7)}
    fake.add("clicks", [1]).offsets = {0: (0, 40)}
    fake.timestamps = {
        ("orders", 0): [NOW - (100 - n) * MINUTE for n in range(10, 100)],
        ("orders", 1): [NOW - (50 - n) * 1000 for n in range(50)],
        ("clicks", 0): [NOW - 3 * 24 * 60 * MINUTE] * 40,
    }
    fake.add_group("billing", orders_0=40, orders_1=50, clicks_0=5)
    fake.add_group(
        "audit",
        member("one", "orders-0", "orders-1", instance_id="audit-1"),
        member("two", "orders-2", rack_id="r1"),
        orders_0=100,
        orders_1=20,
        old_0=3,
    )
    fake.add_group(
        "modern",
        member("three", "clicks-0", epoch=7, target_assignment=partitions_of("clicks-0"), is_classic=False),
        member("four", epoch=6, target_assignment=(), is_classic=True),
        state="Reconciling",
        type=admin.CONSUMER,
        clicks_0=40,
    )
    connect = fake.add_group("connect-sink", member("worker"))
    connect.description = replace(connect.description, protocol_type="connect")
    return fake


def test_list(groups: FakeGroups, transcript: Transcript) -> None:
    transcript(
        "consumer_groups_list",
        "consumer-groups list",
        "consumer-groups list --state",
        "consumer-groups list --type --state",
        "consumer-groups list --type consumer,Classic --state=stable,reconciling",
        "consumer-groups list --state empty -o table",
        "consumer-groups list -o json",
        "consumer-groups list --state sleepy",
        "consumer-groups list --type share",
    )


def test_validate_regex(transcript: Transcript) -> None:
    transcript(
        "consumer_groups_validate_regex",
        "consumer-groups validate-regex 'orders-(eu|us)'",
        "consumer-groups validate-regex 'orders-(eu|us)' -o json",
        "consumer-groups validate-regex 'orders-(eu|us'",
        "consumer-groups validate-regex 'orders-(?!eu)' -o table",
        "consumer-groups validate-regex 'orders-(?!eu)' -o json",
        "consumer-groups validate-regex",
    )


def test_brokers_that_do_not_tell_their_groups(groups: FakeGroups, transcript: Transcript) -> None:
    groups.silent[2] = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    transcript(
        "consumer_groups_list_partial",
        "consumer-groups list",
        "consumer-groups describe --all-groups --state",
    )


def test_describe(groups: FakeGroups, transcript: Transcript) -> None:
    transcript(
        "consumer_groups_describe",
        "consumer-groups describe billing",
        "consumer-groups describe audit",
        "consumer-groups describe --group audit --verbose",
        "consumer-groups describe audit -o json",
        "consumer-groups describe audit billing -o table",
        "consumer-groups describe --all-groups",
        "consumer-groups describe billing --time-lag",
        "consumer-groups describe billing --time-lag -o json",
        "consumer-groups describe nothing billing",
        "consumer-groups describe nothing",
        "consumer-groups describe nothing -o json",
        "consumer-groups describe",
        "consumer-groups describe billing --all-groups",
        "consumer-groups describe billing --members --state",
        "consumer-groups describe billing --members --time-lag",
        "consumer-groups describe billing --explain --watch 1",
    )


def test_records_that_may_not_be_read_have_no_time(
    groups: FakeGroups, transcript: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    monkeypatch.setattr("kcli.commands.record_times.first_timestamps", refused)
    transcript("consumer_groups_time_lag_refused", "consumer-groups describe billing --time-lag")


def test_a_partition_without_a_leader_has_no_end(groups: FakeGroups, transcript: Transcript) -> None:
    groups.topics["orders"].leaderless = {1}
    transcript(
        "consumer_groups_leaderless",
        "consumer-groups describe billing",
        "consumer-groups describe billing --total-lag",
        "consumer-groups clone billing copy --dry-run -o table",
    )


def test_describe_members(groups: FakeGroups, transcript: Transcript) -> None:
    transcript(
        "consumer_groups_describe_members",
        "consumer-groups describe audit --members",
        "consumer-groups describe audit --members --verbose",
        "consumer-groups describe modern --members",
        "consumer-groups describe modern --members --verbose",
        "consumer-groups describe billing --members --verbose",
        "consumer-groups describe audit modern --members --verbose -o table",
        "consumer-groups describe modern --members -o json",
        "consumer-groups members audit",
        "consumer-groups members modern -o table",
        "consumer-groups members audit -o json",
        "consumer-groups members nothing",
        "consumer-groups members",
    )


def test_describe_state(groups: FakeGroups, transcript: Transcript) -> None:
    transcript(
        "consumer_groups_describe_state",
        "consumer-groups describe audit --state",
        "consumer-groups describe modern billing --state --verbose",
        "consumer-groups describe --all-groups --state -o table",
        "consumer-groups describe modern --state -o json",
    )


def test_describe_total_lag(groups: FakeGroups, transcript: Transcript) -> None:
    transcript(
        "consumer_groups_describe_total_lag",
        "consumer-groups describe billing --total-lag",
        "consumer-groups describe --all-groups --total-lag --time-lag",
        "consumer-groups describe --all-groups --total-lag -o table",
        "consumer-groups describe nothing --total-lag",
    )


def test_a_group_that_does_not_exist_for_an_old_broker(groups: FakeGroups, transcript: Transcript) -> None:
    groups.add_group("ghost", state="Dead")
    transcript("consumer_groups_dead", "consumer-groups describe ghost", "consumer-groups clone ghost new")


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
        group.description = replace(group.description, members=(member("late"),))
        return answer

    monkeypatch.setattr("kcli.client.admin.describe_groups", joined)
    transcript(
        "consumer_groups_reset_race",
        "consumer-groups reset-offsets billing --to-latest --topic clicks --execute",
    )


def test_delete(groups: FakeGroups, transcript: Transcript) -> None:
    groups.add_group("a")
    groups.add_group("b")
    transcript(
        "consumer_groups_delete",
        "consumer-groups delete a b",
        "consumer-groups delete billing nothing audit",
        "consumer-groups delete billing -o json",
        "consumer-groups delete --all-groups",
        "consumer-groups delete",
    )
    assert sorted(groups.groups) == ["audit", "connect-sink", "modern"]


def test_delete_offsets(groups: FakeGroups, transcript: Transcript) -> None:
    transcript(
        "consumer_groups_delete_offsets",
        "consumer-groups delete-offsets billing --topic clicks --topic orders:0",
        "consumer-groups delete-offsets billing --topic nothing --topic orders:1,9",
        "consumer-groups delete-offsets audit --topic orders:0 --topic clicks -o json",
        "consumer-groups delete-offsets audit --topic orders -o table",
        "consumer-groups delete-offsets nothing --topic orders",
        "consumer-groups delete-offsets billing",
        "consumer-groups delete-offsets billing --group audit --topic orders",
    )
    assert groups.groups["billing"].offsets == {}


def test_remove_members(groups: FakeGroups, transcript: Transcript) -> None:
    transcript(
        "consumer_groups_remove_members",
        "consumer-groups remove-members audit --group-instance-id audit-1 --member-id ghost --reason moved",
        "consumer-groups remove-members modern --all-members -o json",
        "consumer-groups remove-members nothing --all-members",
        "consumer-groups remove-members audit",
        "consumer-groups remove-members audit --all-members --member-id two-id",
    )
    assert [each.client_id for each in groups.groups["audit"].description.members] == ["two"]
    assert groups.reasons == ["moved", ""]


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


async def no_history(
    client: object, names: Iterable[str], *, with_commits: bool, timeout_ms: int | None = None
) -> tuple[dict[str, GroupHistory], list[KcliError]]:
    return {}, []


async def forbidden_history(client: object, names: Iterable[str], **more: object) -> object:
    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_explain(groups: FakeGroups, transcript: Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    async def produce(seconds: float) -> None:
        start, end = groups.topics["orders"].offsets[1]
        groups.topics["orders"].offsets[1] = (start, end + 10)

    moments = iter(range(NOW, NOW + 1_000_000, 1000))
    monkeypatch.setattr(inquiry, "wall_ms", lambda: next(moments))
    monkeypatch.setattr("trio.sleep", produce)
    monkeypatch.setattr(inquiry, "read_histories", no_history)
    transcript(
        "consumer_groups_explain",
        "consumer-groups describe audit billing --explain",
        "consumer-groups describe modern --explain --interval 0.5 -o json",
        "consumer-groups describe modern --explain -o table",
        "consumer-groups describe nothing --explain",
    )
    monkeypatch.setattr(inquiry, "read_histories", forbidden_history)
    transcript("consumer_groups_explain_forbidden", "consumer-groups describe billing --explain")


def test_log_dir(
    groups: FakeGroups, transcript: Transcript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = OffsetsLog(Path("logs"))
    Path("one-file").touch()
    write_topic(log.directory, "orders", 0, 9)
    log.generation("audit", 1, NOW, one={"orders": (0, 1)}, two={"orders": (2,)})
    log.commit("audit", "orders", 0, 5, NOW + 1000)
    log.commit("audit", "orders", 1, 7, NOW + 2000)
    log.generation("audit", 2, NOW + 5000)
    log.commit("billing", "orders", 0, 5, NOW + 6000)
    log.generation("billing", 4, NOW + 7000, three={"orders": (0,)})
    transcript(
        "consumer_groups_log_dir",
        "consumer-groups list --log-dir logs --state --type",
        "consumer-groups list --log-dir logs --state stable -o json",
        "consumer-groups describe audit --log-dir logs",
        "consumer-groups describe --all-groups --log-dir logs -o json",
        "consumer-groups describe billing --log-dir logs --members --verbose",
        "consumer-groups describe billing --log-dir logs --state",
        "consumer-groups describe --all-groups --log-dir logs --total-lag",
        "consumer-groups describe audit --log-dir logs --history",
        "consumer-groups describe billing --log-dir logs --history -o json",
        "consumer-groups describe billing --log-dir logs --history -o table",
        "consumer-groups describe nothing --log-dir logs",
        "consumer-groups describe nothing --log-dir logs --history",
        "consumer-groups describe billing --log-dir logs --explain",
        "consumer-groups describe billing --log-dir logs --time-lag",
        "consumer-groups describe billing --log-dir logs --watch 1",
        "consumer-groups list --log-dir logs -b localhost:9092",
        "consumer-groups describe billing --log-dir logs -X client.id=me",
        "consumer-groups list --log-dir missing",
        "consumer-groups list --log-dir one-file",
        "consumer-groups list --log-dir logs/orders-0",
    )
    log.corrupt(-1)
    transcript("consumer_groups_log_dir_damaged", "consumer-groups describe billing --log-dir logs")
