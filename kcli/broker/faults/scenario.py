"""Scenario: what happens to a cluster and when, read from a YAML file.

    seed: 7                      # of faults with a probability
    steps:
      - at: 5                    # seconds after the cluster is ready
        do: kill
        node: 2
      - after: 10                # seconds after the step before
        do: start
        node: 2
      - do: error                # a fault, with the words of `kcli broker fault add`
        api: Produce
        code: NOT_LEADER_OR_FOLLOWER
        probability: 0.1
        for: 30                  # seconds until it is cleared
        name: refusals           # by which a step `do: clear` may clear it earlier
      - after: 5
        do: move-leader
        topic: orders
        partition: 0
        to: 3

Reading is pure; every error names its line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kcli.broker.config.option_values import text, whole
from kcli.broker.faults.fault import KINDS, OPTIONS, fault_of, one_of, takes
from kcli.errors import KcliError, UsageError, install_hint, nearest_hint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ACTIONS: Mapping[str, tuple[str, ...]] = {
    "stop": ("node",),
    "kill": ("node",),
    "start": ("node",),
    "pause": ("node",),
    "resume": ("node",),
    "move-leader": ("topic", "partition", "to"),
    "move-coordinator": ("group", "to"),
    "move-controller": ("to",),
    "clear": (),
}
"""The actions of a step besides the faults, and their options, all needed."""

_NUMBERS = ("node", "partition", "to")
_OF_FAULTS = ("at", "after", "for", "name")
_WITH_DASHES = {name.replace("_", "-"): name for names in OPTIONS.values() for name in names if "_" in name}
"""Option names as the command line spells them; steps may use either spelling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An action and its time."""

    line: int
    at_seconds: float
    action: str
    options: Mapping[str, Any]
    name: str | None = None
    for_seconds: float | None = None

    def __str__(self) -> str:
        words = [f"{name} {value}" for name, value in self.options.items()]
        words += [f"for {self.for_seconds:g} s"] if self.for_seconds is not None else []
        return " ".join([self.action, *words])


@dataclass(frozen=True, slots=True)
class Scenario:
    """Steps in the order of their times."""

    path: str
    seed: int
    steps: tuple[Step, ...]


def read_scenario(path: Path) -> Scenario:
    """Read a scenario. Raises `UsageError` that names the line, and `KcliError` where YAML cannot be read."""
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read the scenario `{path}`: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the scenario `{path}` is not UTF-8") from error
    return parse_scenario(content, str(path))


def parse_scenario(content: str, path: str) -> Scenario:
    """Return the scenario in a text; `path` is for errors."""
    try:
        from kcli.broker.faults.yaml_lines import Lines, read_yaml
    except ImportError as error:
        raise KcliError("scenarios need PyYAML", hint=install_hint("scenario")) from error
    lines = Lines(path)
    top = lines.mapping(read_yaml(content, path), "a scenario", hint="it has `seed` and `steps`")
    for name, entry in top.items():
        if name not in ("seed", "steps"):
            raise lines.error(entry, f"a scenario has no `{name}`", hint="it has `seed` and `steps`")
    seed = 0
    if "seed" in top:
        with lines.at(top["seed"]):
            seed = whole({"seed": top["seed"].value}, "seed")
    if "steps" not in top:
        raise UsageError(f"{path}: a scenario needs `steps`")
    steps: list[Step] = []
    names: set[str] = set()
    for entry in lines.sequence(top["steps"], "`steps`"):
        given = {name: each.value for name, each in lines.mapping(entry, "a step").items()}
        with lines.at(entry):
            options = _without_dashes(given)
            step = _step(options, steps[-1].at_seconds if steps else 0.0, entry.line)
            _check_names(step, names)
        steps.append(step)
    return Scenario(path, seed, tuple(sorted(steps, key=lambda step: step.at_seconds)))


def _without_dashes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a step by their names in Python, each once."""
    options: dict[str, Any] = {}
    for name, value in given.items():
        plain = _WITH_DASHES.get(name, name)
        if plain in options:
            raise UsageError(f"`{plain}` is given twice, also as `{plain.replace('_', '-')}`")
        options[plain] = value
    return options


def _step(options: dict[str, Any], previous_seconds: float, line: int) -> Step:
    if "do" not in options:
        raise UsageError("a step needs `do`", hint=one_of((*ACTIONS, *KINDS)))
    action = text(options, "do")
    del options["do"]
    if action not in ACTIONS and action not in KINDS:
        known = (*ACTIONS, *KINDS)
        raise UsageError(f"there is no step `{action}`", hint=nearest_hint(action, known) or one_of(known))
    if "at" in options and "after" in options:
        raise UsageError("`at` and `after` exclude each other")
    # `after: true` is a fault's, a number is a time.
    own_after = options.pop("after") if isinstance(options.get("after"), bool) else None
    at = _seconds(options, "at") if "at" in options else None
    after = _seconds(options, "after") if "after" in options else 0.0
    for_seconds = _seconds(options, "for") if "for" in options else None
    name = text(options, "name") if "name" in options else None
    for each in ("at", "after", "for", "name"):
        options.pop(each, None)
    if own_after is not None:
        options["after"] = own_after
    if action in KINDS:
        for each in options:
            if each not in OPTIONS[action]:
                raise UsageError(f"`{action}` takes no `{each}`", hint=takes({*OPTIONS[action], *_OF_FAULTS}))
        fault_of(action, options)
    else:
        _check_action(action, options, name, for_seconds)
    at_seconds = previous_seconds + after if at is None else at
    return Step(
        line=line, at_seconds=at_seconds, action=action, options=options, name=name, for_seconds=for_seconds
    )


def _check_action(
    action: str, options: Mapping[str, Any], name: str | None, for_seconds: float | None
) -> None:
    needed = ACTIONS[action]
    for each in options:
        if each not in needed:
            of_step = ("at", "after", "name") if action == "clear" else ("at", "after")
            raise UsageError(f"`{action}` takes no `{each}`", hint=takes((*needed, *of_step)))
    for each in needed:
        if each not in options:
            raise UsageError(f"`{action}` needs `{each}`")
        if each in _NUMBERS:
            whole(options, each)
        else:
            text(options, each)
    if for_seconds is not None:
        raise UsageError(f"`for` is only for faults, not for `{action}`")
    if name is not None and action != "clear":
        raise UsageError(f"`name` is for faults and `clear`, not for `{action}`")


def _check_names(step: Step, names: set[str]) -> None:
    if step.name is None:
        return
    if step.action == "clear":
        if step.name not in names:
            raise UsageError(f"no step before has the name `{step.name}`")
    elif step.name in names:
        raise UsageError(f"the name `{step.name}` is taken")
    names.add(step.name)


def _seconds(options: Mapping[str, Any], name: str) -> float:
    value = options[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise UsageError(f"`{name}` is a number of seconds, not {value!r}")
    return float(value)
