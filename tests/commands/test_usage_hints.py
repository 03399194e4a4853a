"""Wrong usage: an error of one line, and a hint with the probable word or the help."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Finished


@pytest.mark.parametrize(
    ("arguments", "err"),
    [
        (["nothing"], "error: no such command `nothing`\nhint: kcli --help\n"),
        (["topics", "nothing"], "error: no such command `nothing`\nhint: kcli topics --help\n"),
        (["topics", "list", "-o", "xml"], "error: invalid value for `--output` / `-o`: `xml` is not one of "),
        (["completion"], "error: missing argument `SHELL`: one of bash, zsh, fish\n"),
        (
            ["topics", "create", "t", "--partitions", "many"],
            "error: invalid value for `--partitions` / `-p`: `many` is not a whole number\n"
            "hint: kcli topics create --help\n",
        ),
        (
            ["broker", "stop", "--timeout", "soon"],
            "error: invalid value for `--timeout`: `soon` is not a number\n",
        ),
        (
            ["consumer-groups", "copy", "a", "b"],
            "error: no such command `copy`\nhint: kcli consumer-groups clone\n",
        ),
    ],
)
def test_wrong_usage_is_two_lines(arguments: list[str], err: str, kcli: Callable[..., Finished]) -> None:
    finished = kcli(*arguments)
    assert finished.exit_code == 2
    assert finished.out == ""
    assert finished.err.startswith(err)
    assert len(finished.err.splitlines()) == 2


@pytest.mark.parametrize(
    ("line", "option", "command"),
    [
        ("topics list -b", "-b", "topics list"),
        ("topics create x --partitions", "--partitions", "topics create"),
        ("broker node kill --data-dir", "--data-dir", "broker node kill"),
        ("consume topics --partition", "--partition", "consume"),
    ],
)
def test_an_option_without_its_value_is_named(
    line: str, option: str, command: str, kcli: Callable[..., Finished]
) -> None:
    err = f"error: option `{option}` requires an argument\nhint: kcli {command} --help\n"
    assert kcli(*line.split()) == Finished(2, "", err)


@pytest.mark.parametrize(
    ("line", "option", "hint"),
    [
        (
            "produce orders --producer-propertie a=1",
            "--producer-propertie",
            "did you mean `--reader-property`?",
        ),
        ("topics create x --partition 1", "--partition", "did you mean `--partitions`?"),
        ("consume x --from-beginnin", "--from-beginnin", "did you mean `--from-beginning`?"),
        ("topics --hepl", "--hepl", "did you mean `--help`?"),
        ("topics --hepl list", "--hepl", "did you mean `--help`?"),
        ("--verion topics list", "--verion", "did you mean `--version`?"),
        ("topics list --what", "--what", "kcli topics list --help"),
        ("topics list --tpic a", "--tpic", "kcli topics list --help"),
    ],
)
def test_a_misspelt_option_is_told_what_is_near_it(
    line: str, option: str, hint: str, kcli: Callable[..., Finished]
) -> None:
    assert kcli(*line.split()) == Finished(2, "", f"error: no such option: {option}\nhint: {hint}\n")


@pytest.mark.parametrize(
    ("line", "word", "hint"),
    [
        ("topcs list", "topcs", "did you mean `topics`?"),
        ("topics lst", "lst", "did you mean `list`?"),
        ("broker node klil", "klil", "did you mean `kill`?"),
        ("topics frobnicate", "frobnicate", "kcli topics --help"),
    ],
)
def test_a_misspelt_command_is_told_what_is_near_it(
    line: str, word: str, hint: str, kcli: Callable[..., Finished]
) -> None:
    assert kcli(*line.split()) == Finished(2, "", f"error: no such command `{word}`\nhint: {hint}\n")


@pytest.mark.parametrize(
    ("line", "option", "hint"),
    [
        ("produce orders --broker-list a:1", "--broker-list", "`-b HOST:PORT` names the brokers"),
        (
            "consume x --zookeeper a:1",
            "--zookeeper",
            "no ZooKeeper is asked: `-b HOST:PORT` names the brokers",
        ),
        ("topics --create --topic t", "--create", "a verb has no dashes: kcli topics create"),
        ("topics --topic t --create", "--topic", "the verb comes before its options: kcli topics create"),
        ("topics --topic t", "--topic", "kcli topics --help"),
        ("--verify-index data", "--verify-index", "a verb has no dashes: kcli verify-index"),
        ("broker node --list", "--list", "a verb has no dashes: kcli broker node list"),
        ("configs alter t --remove x", "--remove", "did you mean `--delete`?"),
        ("configs alter t --set x=1", "--set", "did you mean `--add`?"),
        ("topics alter t --remove x", "--remove", "did you mean `--delete-config`?"),
        (
            "--bootstrap-server localhost:9092 topics list",
            "--bootstrap-server",
            "the command comes before its options: kcli topics",
        ),
    ],
)
def test_an_option_of_other_tools_is_told_what_does_its_work(
    line: str, option: str, hint: str, kcli: Callable[..., Finished]
) -> None:
    err = f"error: no such option: {option}\nhint: {hint}\n"
    assert kcli(*line.split()) == Finished(2, "", err)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("config", "kcli configs describe"),
        ("topic", "kcli topics list"),
        ("group", "kcli consumer-groups describe"),
        ("bench", "kcli measures no throughput"),
        ("ui", "kcli has no web page: commands show tables on a terminal"),
        ("--json", "`-o json` prints JSON; it follows a command: kcli topics list -o json"),
        ("topics --json", "`-o json` prints JSON; it follows a command"),
        ("consumer-group list", "kcli consumer-groups list"),
        ("topic create orders", "kcli topics create"),
        ("config describe orders", "kcli configs describe"),
        ("topic orders", "kcli topics list"),
        ("start", "kcli broker start"),
        ("topics list --json", "`-o json` prints JSON"),
        ("topics list --format json", "`-o json`, `-o text` and `-o table`"),
        ("consume t --json", "`-o json` prints JSON"),
        ("broker status --json", "`-o json` prints JSON"),
        ("consume t --format json", "`-o json`, `-o text` and `-o table`"),
    ],
)
def test_a_word_from_elsewhere_leads_to_the_right_one(
    line: str, hint: str, kcli: Callable[..., Finished]
) -> None:
    finished = kcli(*line.split())
    assert finished.exit_code == 2
    assert finished.err.splitlines()[1].startswith(f"hint: {hint}")
