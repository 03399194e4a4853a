"""The runner: results and errors of any kind become output and exit codes, as one table says."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import pytest
import trio
import typer

from kcli import errors
from kcli.cli import COMMANDS, build_app, main
from kcli.commands.options import OutputFormat
from kcli.commands.output import note, print_error, print_json, warn
from kcli.commands.runner import command, run
from kcli.errors import ChecksFailed, Interrupted, KcliError, UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.conftest import Finished


def raising(*raised: BaseException) -> Callable[..., object]:
    """Return a body that raises one error, or a group of several."""

    async def body() -> None:
        if len(raised) == 1:
            raise raised[0]
        raise BaseExceptionGroup("several", raised)

    return body


async def nested() -> None:
    async with trio.open_nursery() as outer, trio.open_nursery():
        outer.start_soon(trio.sleep_forever)
        raise KcliError("inside two nurseries", hint="look here")


def finish(
    body: Callable[..., object], capfd: pytest.CaptureFixture[str], *, verbose: bool = False
) -> Finished:
    """Run a body and return what it left."""
    try:
        run(body, output=None, verbose=verbose)
        exit_code = 0
    except typer.Exit as exited:
        exit_code = exited.exit_code
    captured = capfd.readouterr()
    return Finished(exit_code, captured.out, captured.err)


def test_an_interrupt_before_a_command_begins_is_one_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = raising(KcliError("it began"))()

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trio, "run", interrupted)
    assert finish(lambda: begun, capfd) == Finished(130, "", "error: interrupted\n")
    assert inspect.getcoroutinestate(begun) == inspect.CORO_CLOSED  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "exit_code", "err"),
    [
        (raising(KcliError("it failed")), 1, "error: it failed\n"),
        (raising(KcliError("it failed", hint="try")), 1, "error: it failed\nhint: try\n"),
        (raising(KcliError("two\nlines")), 1, "error: two lines\n"),
        (raising(KafkaError(ErrorCode.INVALID_CONFIG, "no such name")), 1, "error: no such name\n"),
        (raising(UsageError("not so")), 2, "error: not so\n"),
        (raising(ChecksFailed("3 mismatches")), 3, "error: 3 mismatches\n"),
        (raising(Interrupted("interrupted: 5 done")), 130, "error: interrupted: 5 done\n"),
        (raising(KeyboardInterrupt()), 130, "error: interrupted\n"),
        (raising(typer.Exit(3)), 3, ""),
        (raising(BrokenPipeError()), 0, ""),
        (
            raising(ValueError("odd")),
            1,
            "error: unexpected ValueError: odd\nhint: run it again with `--verbose` for a traceback\n",
        ),
        (raising(KcliError("a"), UsageError("b")), 2, "error: a\nerror: b\n"),
        (raising(KcliError("a"), ValueError("odd")), 1, "error: a\n"),
        (raising(KcliError("a"), KeyboardInterrupt()), 130, "error: interrupted\n"),
        (raising(Interrupted("i: 1"), KeyboardInterrupt()), 130, "error: i: 1\n"),
        (nested, 1, "error: inside two nurseries\nhint: look here\n"),
    ],
)
def test_what_a_command_raises_becomes_an_exit_code(
    body: Callable[..., object], exit_code: int, err: str, capfd: pytest.CaptureFixture[str]
) -> None:
    # A closed pipe makes the runner give up stdout for good, so it gets one of its own here.
    saved = os.dup(1)
    try:
        assert finish(body, capfd) == Finished(exit_code, "", err)
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def test_verbose_shows_the_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    finished = finish(raising(ValueError("odd")), capfd, verbose=True)
    assert "Traceback (most recent call last):" in finished.err
    assert finished.err.endswith("for a traceback\n")


class Partial(NamedTuple):
    done: str
    failures: tuple[KcliError, ...]

    def lines(self) -> list[str]:
        return [self.done]


def test_a_partial_result_is_printed_before_its_failures(capfd: pytest.CaptureFixture[str]) -> None:
    async def body() -> Partial:
        return Partial("one done", (KcliError("two failed"), ChecksFailed("three is wrong")))

    assert finish(body, capfd) == Finished(3, "one done\n", "error: two failed\nerror: three is wrong\n")


def test_every_kind_of_error_has_its_exit_code() -> None:
    codes = {name: kind.exit_code for name, kind in vars(errors).items() if isinstance(kind, type)}
    assert codes == {
        "KcliError": 1,
        "UsageError": 2,
        "MissingArgument": 2,
        "ChecksFailed": 3,
        "Interrupted": 130,
    }


def test_a_body_is_told_of_the_common_options_that_it_names(capfd: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer()

    @command(app, "show", example="kcli show")
    async def show(output: OutputFormat | None = None, verbose: bool = False) -> None:
        print(output, verbose)

    app(["-o", "json", "--verbose"], standalone_mode=False)
    assert capfd.readouterr().out == "json True\n"


@pytest.mark.parametrize(
    ("arguments", "err"),
    [
        (["nothing"], "error: no such command `nothing`\nhint: kcli --help\n"),
        (["topics", "nothing"], "error: no such command `nothing`\nhint: kcli topics --help\n"),
        (["topics", "list", "-o", "xml"], "error: invalid value for `--output` / `-o`: `xml` is not one of "),
        (["completion"], "error: missing argument `shell`. Choose from: bash, zsh, fish\n"),
        (
            ["topics", "create", "t", "--partitions", "many"],
            "error: invalid value for `--partitions`: `many` is not a whole number\n"
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
        ("broker node --list", "--list", "a verb has no dashes: kcli broker node list"),
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


@pytest.mark.parametrize("arguments", [[], ["topics"]], ids=["kcli", "kcli topics"])
def test_a_group_without_a_verb_shows_its_help(arguments: list[str], kcli: Callable[..., Finished]) -> None:
    finished = kcli(*arguments)
    assert finished.exit_code == 2
    assert finished.err.startswith("Usage: kcli ")


def test_the_version(kcli: Callable[..., Finished]) -> None:
    from kcli import __version__

    assert kcli("--version") == Finished(0, f"kcli {__version__}\n", "")


def test_a_pipe_that_nobody_reads_ends_a_command_quietly() -> None:
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [sys.executable, "-m", "kcli", "completion", "bash"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert process.returncode == 0
    assert process.stderr == b""


def test_help_that_cannot_be_written_is_an_error_of_one_line() -> None:
    with open("/dev/full", "wb") as full:
        process = subprocess.run(
            [sys.executable, "-m", "kcli", "topics", "list", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert process.returncode == 1
    assert process.stderr == b"error: cannot write the output: no space left on the device\n"


def test_a_warning_that_nobody_reads_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unread(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Unread())
    warn("something")
    with pytest.raises(BrokenPipeError):
        note("something else")


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [
        ("nothing", 2),
        ("topics list -b 127.0.0.1:1", 1),
        ("topics list -b 127.0.0.1:1 --verbose", 1),
        ("dump-log nowhere.log", 1),
        ("completion bash", 0),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_errors_on_a_full_disk_keep_their_exit_code(line: str, exit_code: int, unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:
        process = subprocess.run(
            [sys.executable, "-m", "kcli", *line.split()],
            stdout=subprocess.PIPE,
            stderr=full,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            check=False,
        )
    assert process.returncode == exit_code
    assert bool(process.stdout) is (exit_code == 0)


def test_what_cannot_be_told_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        warn("something")
        note("something else")
        print_error(KcliError("it failed", hint="try again"))
        monkeypatch.undo()
        with suppress(OSError):
            full.close()


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    ("line", "exit_code"), [("nothing", 2), ("topics list -b 127.0.0.1:1", 1), ("dump-log nowhere.log", 1)]
)
def test_an_error_that_nobody_reads_keeps_its_exit_code(line: str, exit_code: int, unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [sys.executable, "-m", "kcli", *line.split()],
        stderr=write,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(write)
    assert process.returncode == exit_code


@pytest.mark.parametrize(
    ("redirections", "out"),
    [(">&-", b""), ("<&-", b"complete"), ("2>&-", b"complete"), (">&- <&- 2>&-", b"")],
)
def test_files_that_a_shell_closed_are_not_missed(redirections: str, out: bytes) -> None:
    command = f'exec "$0" -m kcli completion bash {redirections}'
    process = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, check=False)
    assert process.returncode == 0
    assert out in process.stdout
    assert process.stderr == b""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_text_can_be_written_in_any_encoding(encoding: str) -> None:
    script = (
        "from kcli.__main__ import write_any_text; write_any_text()\n"
        "from kcli.commands.output import note, print_error, print_json, warn; print_json('→'); print('→')"
    )
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    output = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    document, text = output.stdout.decode(encoding).splitlines()
    assert json.loads(document) == "→"
    assert text == ("→" if encoding == "utf-8" else "\\u2192")


def test_a_document_can_be_written_to_memory() -> None:
    with contextlib.redirect_stdout(io.StringIO()) as memory:
        print_json("→")
    assert memory.getvalue() == '"→"\n'


def test_all_commands_can_be_built_together() -> None:
    app = build_app()
    assert len(app.registered_commands) == 0
    assert len(app.registered_groups) == len(COMMANDS)


def test_an_interrupt_while_the_command_line_is_read_is_quiet(
    kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("kcli.cli.build_app", interrupted)
    assert kcli("topics", "list") == Finished(130, "", "")


def test_main_reads_the_command_line_of_the_process(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kcli", "--version"])
    assert main() == 0
    assert capfd.readouterr().out.startswith("kcli ")
