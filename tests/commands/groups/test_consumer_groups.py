"""`kcli consumer-groups`: the whole output of each verb in text and JSON, errors and exit codes.

Lines of stderr are marked with `!` in the goldens. The text of groups is compared with that of Apache Kafka's
own tool in `tests/interop/test_consumer_groups_tool.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from kcli.commands.groups import explain
from kcli.commands.groups.history import GroupHistory
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.commands.conftest import Transcript
from tests.commands.fake_groups import FakeGroups
from tests.commands.groups.known_groups import add_known_groups
from tests.commands.groups.offsets_log import NOW, OffsetsLog, write_topic


@pytest.fixture
def groups(groups: FakeGroups, monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    """Two topics, and groups of both kinds, with and without members."""
    return add_known_groups(groups, monkeypatch)


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

    monkeypatch.setattr("kcli.commands.groups.records.first_timestamps", refused)
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


def test_members(groups: FakeGroups, transcript: Transcript) -> None:
    transcript(
        "consumer_groups_members",
        "consumer-groups members audit",
        "consumer-groups members billing",
        "consumer-groups members billing -o json",
        "consumer-groups members nothing",
    )


def test_remove_members(groups: FakeGroups, transcript: Transcript) -> None:
    transcript(
        "consumer_groups_remove_members",
        "consumer-groups remove-members audit --group-instance-id audit-1 --member-id ghost --reason moved",
        "consumer-groups remove-members modern --all-members -o json",
        "consumer-groups remove-members billing --all-members",
        "consumer-groups remove-members nothing --all-members",
        "consumer-groups remove-members audit",
        "consumer-groups remove-members audit --all-members --member-id two-id",
    )
    assert [each.client_id for each in groups.groups["audit"].description.members] == ["two"]
    assert groups.reasons == ["moved", "", ""]


async def no_history(
    client: object, names: Iterable[str], **more: object
) -> tuple[dict[str, GroupHistory], list[KcliError]]:
    return {}, []


async def forbidden_history(client: object, names: Iterable[str], **more: object) -> object:
    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_explain(groups: FakeGroups, transcript: Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    async def produce(seconds: float) -> None:
        start, end = groups.topics["orders"].offsets[1]
        groups.topics["orders"].offsets[1] = (start, end + 10)

    moments = iter(range(NOW, NOW + 1_000_000, 1000))
    monkeypatch.setattr(explain, "wall_ms", lambda: next(moments))
    monkeypatch.setattr("trio.sleep", produce)
    monkeypatch.setattr(explain, "read_histories", no_history)
    transcript(
        "consumer_groups_explain",
        "consumer-groups describe audit billing --explain",
        "consumer-groups describe modern --explain --interval 0.5 -o json",
        "consumer-groups describe modern --explain -o table",
        "consumer-groups describe nothing --explain",
    )
    monkeypatch.setattr(explain, "read_histories", forbidden_history)
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
