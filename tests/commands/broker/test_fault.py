"""`kcli broker fault` against a running cluster of three nodes, and scenarios from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.kcli_broker import KcliBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.commands.conftest import Transcript
    from tests.conftest import Finished


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KcliBroker]:
    """Three nodes, whose directory commands find."""
    running = KcliBroker(tmp_path, arguments=["--nodes", "3"]).start()
    monkeypatch.setenv("KCLI_DATA_DIR", str(running.data))
    yield running
    running.stop()


def test_faults_are_added_listed_and_cleared(
    nodes: KcliBroker, transcript: Transcript, kcli: Callable[..., Finished]
) -> None:
    assert kcli("topics", "create", "orders", "-b", nodes.bootstrap).exit_code == 0
    transcript(
        "broker_fault",
        "broker fault list",
        "broker fault add error --api produce --code NOT_LEADER_OR_FOLLOWER --client-id 'app-*' --next 3",
        "broker fault add drop --node 2 --topic 'orders*' --probability 0.5 --after",
        "broker fault add cut --from 1 --to 3",
        "broker fault add slow --from 1 --to 2 --delay-ms 50 --one-way",
        "broker fault add freeze --node 3",
        "broker fault add hold-markers --topic orders",
        "broker fault add hang-transactions --topic 'orders*' --next 2",
        "broker fault list",
        "broker fault list -o json",
        "broker fault list -o table",
        "broker fault clear 2 4",
        "broker fault list",
        "broker fault clear 2",
        "broker fault clear",
        "broker fault clear 1 --all",
        "broker fault clear --all",
        "broker fault add drop --topic order --next 1",
        "broker fault add hang-transactions --topic 'x*'",
        "broker fault add hold-markers --topic __transaction_state",
        "broker fault clear 8",
        "broker fault clear 9 10 -o json",
        "broker fault clear --all",
        "broker fault list",
    )


def test_what_makes_no_sense_is_refused(
    nodes: KcliBroker, transcript: Transcript, kcli: Callable[..., Finished]
) -> None:
    assert kcli("topics", "create", "orders", "--partitions", "3", "-b", nodes.bootstrap).exit_code == 0
    transcript(
        "broker_fault_refused",
        "broker fault add eror --code 6",
        "broker fault add error --code NOT_LEADER",
        "broker fault add error",
        "broker fault add delay --code 6 --delay-ms 5",
        "broker fault add drop --api fech",
        "broker fault add drop --api Foo",
        "broker fault add foo",
        "broker fault add error --code foo",
        "broker fault add error --code NONE",
        "broker fault add error --code 0",
        "broker fault add error --code NON",
        "broker fault add drop --node 4",
        "broker fault add drop --probability 1.5",
        "broker fault add cut --from 1 --to 1",
        "broker fault add isolate",
        "broker fault add fill-disk --node 0",
        "broker fault add slow --from 1 --to 2 --delay-ms 0",
        "broker fault add cut --from 1 --to 2 --node 3",
        "broker fault add hold-markers --next 2",
        "broker fault add hang-transactions --next 0",
        "broker fault list",
        "broker fault move-leader order 0 2",
        "broker fault move-leader orders 7 2",
        "broker fault move-leader orders:7 2",
        "broker fault move-leader orders 0",
        "broker fault move-leader orders:first 2",
        "broker fault move-coordinator my-group 2",
    )


def test_an_error_that_was_ordered_is_what_a_client_gets(
    nodes: KcliBroker, kcli: Callable[..., Finished]
) -> None:
    order = "broker fault add error --api CreateTopics --code 44 --next 1"
    assert kcli(*order.split()).exit_code == 0
    refused = kcli("topics", "create", "orders", "-b", nodes.bootstrap)
    assert refused.exit_code == 1
    assert "(fault 1)" in refused.err
    assert kcli("topics", "create", "orders", "-b", nodes.bootstrap).exit_code == 0


def test_without_a_broker_it_is_said_so(
    tmp_path: Path, kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    finished = kcli("broker", "fault", "list", "--data-dir", "nowhere")
    assert (finished.exit_code, finished.err.splitlines()[0]) == (
        1,
        f"error: no broker runs in `{tmp_path / 'nowhere'}`",
    )


def test_a_wrong_scenario_is_refused_before_anything_starts(
    tmp_path: Path, kcli: Callable[..., Finished]
) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("steps:\n  - do: kil\n    node: 2\n")
    finished = kcli(
        "broker", "start", "--data-dir", str(tmp_path / "data"), "--scenario", str(scenario), "--port", "0"
    )
    assert finished.exit_code == 2
    assert finished.err.splitlines() == [
        f"error: {scenario}:2: there is no step `kil`",
        "hint: did you mean `kill`?",
    ]
    assert not (tmp_path / "data").exists()


def test_a_scenario_runs_once_the_cluster_is_ready(tmp_path: Path, kcli: Callable[..., Finished]) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        """
seed: 3
steps:
  - {do: error, api: CreateTopics, code: POLICY_VIOLATION, name: refusals}
  - {do: move-leader, topic: missing, partition: 0, to: 1}
"""
    )
    broker = KcliBroker(tmp_path, arguments=["--scenario", str(scenario)]).start()
    try:
        refused = kcli("topics", "create", "orders", "-b", broker.bootstrap)
        assert (refused.exit_code, "(fault 1)" in refused.err) == (1, True)
    finally:
        broker.stop()
    said = broker.messages()
    assert "scenario, 0 s: error api CreateTopics code POLICY_VIOLATION" in said
    assert f"{scenario}:5: there is no topic `missing`" in said
