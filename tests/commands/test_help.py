"""Help: every command has one, with an example that parses, and the goldens hold all of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import pytest

from kcli.cli import COMMANDS
from tests.commands.fake_cluster import FakeCluster
from tests.conftest import Finished

VERBS = {
    "broker": ("start", "stop", "status", "requests", "compact", "node", "fault"),
    "topics": ("create", "list", "describe", "alter", "delete"),
    "users": ("list", "create", "delete"),
    "acls": ("add", "remove", "list", "explain", "denials"),
    "configs": ("describe", "alter"),
    "consumer-groups": (
        "list",
        "describe",
        "reset-offsets",
        "delete",
        "delete-offsets",
        "members",
        "remove-members",
        "clone",
        "validate-regex",
    ),
    "transactions": (
        "list",
        "describe",
        "describe-producers",
        "find-hanging",
        "abort",
        "force-terminate",
    ),
    "reassign-partitions": ("generate", "execute", "verify", "list", "cancel"),
    "log-dirs": ("describe", "move"),
    "cluster": ("id", "nodes", "unregister", "api-versions"),
    "tls": ("show", "client-cert", "reload"),
}
NESTED = {
    ("broker", "node"): ("list", "stop", "kill", "start", "pause", "resume", "add", "remove"),
    ("broker", "fault"): ("list", "add", "clear", "move-leader", "move-coordinator", "move-controller"),
}
"""Nested groups of commands."""
GIVEN_OTHERWISE = {
    ("consumer-groups", "describe"),  # --all-groups
    ("consumer-groups", "reset-offsets"),
    ("consumer-groups", "delete"),
    ("reassign-partitions", "generate"),  # --all-topics, --drain
    ("spark-export",),  # --assign, --topic-pattern
}
"""Commands that miss an argument unless an option says the same."""
PATHS = [
    path
    for name in COMMANDS
    for verb in ([(v,) for v in VERBS.get(name, ())] or [()])
    for path in [(name, *verb, each) for each in NESTED.get((name, *verb), ())] or [(name, *verb)]
]


def test_the_root_lists_every_command(
    kcli: Callable[..., Finished], golden: Callable[[str, str], None]
) -> None:
    finished = kcli("--help")
    golden("cli/help.txt", finished.out)
    assert [name for name in COMMANDS if re.search(rf"^  {name} ", finished.out, re.MULTILINE)] == [*COMMANDS]


@pytest.mark.parametrize("path", PATHS, ids="-".join)
def test_a_command_explains_itself(
    path: tuple[str, ...], kcli: Callable[..., Finished], golden: Callable[[str, str], None]
) -> None:
    finished = kcli(*path, "--help")
    assert finished.exit_code == 0
    golden(f"cli/help/{'_'.join(path)}.txt", finished.out)
    example = re.search(r"^  Example: (.*)\n\Z", finished.out, re.MULTILINE)
    assert example is not None, "the help does not end with an example on one line"
    words = shlex.split(example[1].partition(">")[0])
    assert words[: len(path) + 1] == ["kcli", *path]
    # `--help` comes last, so everything before it has been parsed.
    assert kcli(*words[1:], "--help").exit_code == 0


@pytest.mark.parametrize("path", [(), *((name,) for name in VERBS), *NESTED], ids=" ".join)
def test_no_summary_is_cut(path: tuple[str, ...], kcli: Callable[..., Finished]) -> None:
    assert "..." not in kcli(*path, "--help").out.partition("Commands:")[2]


@pytest.mark.parametrize("path", PATHS, ids="-".join)
def test_options_tell_what_they_take(path: tuple[str, ...], kcli: Callable[..., Finished]) -> None:
    assert not re.search(r"<(int|float|str)\b", kcli(*path, "--help").out)


@pytest.mark.parametrize("group", VERBS)
def test_a_group_lists_its_verbs(group: str, kcli: Callable[..., Finished]) -> None:
    verbs = re.findall(r"^  ([a-z-]+) ", kcli(group, "--help").out.partition("Commands:")[2], re.MULTILINE)
    assert tuple(verbs) == VERBS[group]


@pytest.mark.parametrize("path", NESTED, ids="-".join)
def test_a_group_in_a_group_lists_its_verbs(path: tuple[str, str], kcli: Callable[..., Finished]) -> None:
    verbs = re.findall(r"^  ([a-z-]+) ", kcli(*path, "--help").out.partition("Commands:")[2], re.MULTILINE)
    assert tuple(verbs) == NESTED[path]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_the_help_of_the_command(name: str, kcli: Callable[..., Finished]) -> None:
    text = " ".join(kcli(name, "--help").out.split())
    assert COMMANDS[name][1] in text or name not in VERBS


@pytest.mark.parametrize("path", PATHS, ids="-".join)
def test_usage_shows_a_needed_argument_as_required(
    path: tuple[str, ...], kcli: Callable[..., Finished], cluster: FakeCluster
) -> None:
    usage = kcli(*path, "--help").out.partition("\n\n")[0]
    arguments = usage.removeprefix(f"Usage: kcli {' '.join(path)} [OPTIONS]").split()
    if not arguments:
        return
    missing = re.match(r"error: missing argument '?`?([^`'\n]+)", kcli(*path).err)
    if missing is None or path in GIVEN_OTHERWISE:
        assert arguments[0].startswith("[")
    else:
        assert arguments[0] == f"{{{missing[1]}}}"
