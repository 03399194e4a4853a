"""Scenario files, and the errors of malformed ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from kcli.broker.faults.scenario import parse_scenario, read_scenario
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = """
seed: 7
steps:
  - at: 5
    do: kill
    node: 2
  - after: 10
    do: start
    node: 2
  - do: error
    api: Produce
    code: NOT_LEADER_OR_FOLLOWER
    probability: 0.1
    after: true
    for: 30
    name: refusals
  - {after: 2.5, do: move-leader, topic: orders, partition: 0, to: 3}
  - {at: 1, do: cut, from: 1, to: 3}
  - {at: 50, do: hold-markers, topic: orders, for: 3}
  - {at: 60, do: hang-transactions, next: 2}
  - {at: 100, do: clear, name: refusals}
  - {at: 100, do: clear}
"""


def test_steps_come_in_the_order_of_their_times() -> None:
    scenario = parse_scenario(EXAMPLE, "s.yaml")
    assert scenario.seed == 7
    assert [(step.line, step.at_seconds, str(step)) for step in scenario.steps] == [
        (18, 1, "cut from 1 to 3"),
        (4, 5, "kill node 2"),
        (7, 15, "start node 2"),
        (
            10,
            15,
            "error api Produce code NOT_LEADER_OR_FOLLOWER probability 0.1 after True for 30 s",
        ),
        (17, 17.5, "move-leader topic orders partition 0 to 3"),
        (19, 50, "hold-markers topic orders for 3 s"),
        (20, 60, "hang-transactions next 2"),
        (21, 100, "clear"),
        (22, 100, "clear"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.yaml:1: a scenario is a mapping of names to values"),
        ("- do: kill", "s.yaml:1: a scenario is a mapping of names to values"),
        ("seed: 1", "s.yaml: a scenario needs `steps`"),
        ("seed: x\nsteps: []", "s.yaml:1: `seed` is a whole number from 0 on, not 'x'"),
        ("steps: 3", "s.yaml:1: `steps` is a list"),
        ("steps: []\nsteps: []", "s.yaml:2: `steps` is given twice"),
        ("stops: []", "s.yaml:1: a scenario has no `stops`"),
        ("steps:\n- kill", "s.yaml:2: a step is a mapping of names to values"),
        ("steps:\n- node: 2", "s.yaml:2: a step needs `do`"),
        ("steps:\n- do: kil\n  node: 2", "s.yaml:2: there is no step `kil`"),
        ("steps:\n- do: kill", "s.yaml:2: `kill` needs `node`"),
        ("steps:\n- do: kill\n  node: two", "s.yaml:2: `node` is a whole number from 0 on, not 'two'"),
        (
            "steps:\n- do: kill\n  node: 2\n  for: 3",
            "s.yaml:2: `for` is only for faults, not for `kill`",
        ),
        ("steps:\n- do: kill\n  node: 2\n  topic: x", "s.yaml:2: `kill` takes no `topic`"),
        ("steps:\n- {do: drop, at: 1, after: 1}", "s.yaml:2: `at` and `after` exclude each other"),
        ("steps:\n- {do: drop, at: soon}", "s.yaml:2: `at` is a number of seconds, not 'soon'"),
        ("steps:\n- {do: drop, at: -1}", "s.yaml:2: `at` is a number of seconds, not -1"),
        ("steps:\n- {do: drop, api: Produze}", "s.yaml:2: there is no API `Produze`"),
        ("steps:\n- {do: error}", "s.yaml:2: `error` needs `code`"),
        ("steps:\n- {do: error, code: NONE}", "s.yaml:2: `NONE` is Kafka's code for no error"),
        ("steps:\n- {do: drop, probability: 2}", "s.yaml:2: `probability` is above 0 and at most 1, not 2"),
        ("steps:\n- {do: drop, next: 0}", "s.yaml:2: `next` is a whole number from 1 on, not 0"),
        ("steps:\n- {do: drop, code: 3}", "s.yaml:2: `drop` takes no `code`"),
        ("steps:\n- {do: drop, delay-ms: 3}", "s.yaml:2: `drop` takes no `delay_ms`"),
        (
            "steps:\n- {do: delay, delay-ms: 3, delay_ms: 3}",
            "s.yaml:2: `delay_ms` is given twice, also as `delay-ms`",
        ),
        ("steps:\n- {do: cut, from: 1, to: 1}", "s.yaml:2: `cut` is between two nodes, not 1 and itself"),
        ("steps:\n- {do: cut, from: 1}", "s.yaml:2: `cut` needs `to`"),
        ("steps:\n- {do: cut, from: 1, to: 2, one_way: 3}", "s.yaml:2: `one_way` is true or false, not 3"),
        ("steps:\n- {do: clear, name: x}", "s.yaml:2: no step before has the name `x`"),
        ("steps:\n- {do: drop, name: x}\n- {do: drop, name: x}", "s.yaml:3: the name `x` is taken"),
        ("steps:\n  - {do: drop", "s.yaml:2: this is not YAML: expected ',' or '}', but got '<stream end>'"),
        ("a: \x07", "s.yaml: this is not YAML: unacceptable character #x0007"),
        ("steps: &all [*all]", "s.yaml: this is nested too deeply"),
        ("[" * 5000, "s.yaml: this is nested too deeply"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_scenario(text, "s.yaml")
    assert caught.value.message.startswith(message)


def test_options_are_spelled_as_on_the_command_line_or_as_in_python() -> None:
    steps = [
        parse_scenario(f"steps: [{{do: {words}}}]", "s.yaml").steps[0]
        for words in (
            "slow, from: 1, to: 2, delay-ms: 3, one-way: true, for: 1",
            "slow, from: 1, to: 2, delay_ms: 3, one_way: true, for: 1",
        )
    ]
    assert steps[0] == steps[1]
    assert steps[0].options == {"from": 1, "to": 2, "delay_ms": 3, "one_way": True}


def test_the_nearest_name_is_the_hint() -> None:
    for text, hint in (
        ("- do: pause", "it has `seed` and `steps`"),
        ("steps:\n- {do: paus, node: 2}", "did you mean `pause`?"),
        ("steps:\n- {do: drop, api: fech}", "did you mean `Fetch`?"),
        ("steps:\n- {do: error, code: not_leader}", "did you mean `NOT_LEADER_OR_FOLLOWER`?"),
        ("steps:\n- {do: drop, api: Foo}", "`kcli cluster api-versions` lists the APIs"),
        ("steps:\n- {do: freeze, nod: 2}", "it takes `after`, `at`, `for`, `name`, `node`"),
        ("steps:\n- {do: kill, nod: 2}", "it takes `after`, `at`, `node`"),
        ("steps:\n- {do: clear, nod: 2}", "it takes `after`, `at`, `name`"),
    ):
        with pytest.raises(UsageError) as caught:
            parse_scenario(text, "s.yaml")
        assert caught.value.hint == hint


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the scenario"):
        read_scenario(tmp_path / "missing.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"steps: \xe4")
    with pytest.raises(UsageError, match="is not UTF-8"):
        read_scenario(tmp_path / "latin.yaml")


def test_without_pyyaml_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.delitem(sys.modules, "kcli.broker.faults.yaml_lines", raising=False)
    with pytest.raises(KcliError, match="PyYAML") as caught:
        parse_scenario("steps: []", "s.yaml")
    assert caught.value.hint == "pip install 'pyyaml>=6'"
