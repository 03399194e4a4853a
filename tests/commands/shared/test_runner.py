"""The runner: results and errors of any kind become output and exit codes, as one table says."""

from __future__ import annotations

import inspect
import os
import signal
import sys
from collections.abc import Callable
from typing import Annotated, NamedTuple

import pytest
import trio
import typer
from typer.testing import CliRunner

from kcli import errors
from kcli.cli import COMMANDS, build_app, main
from kcli.commands.shared.options import OutputFormat
from kcli.commands.shared.runner import command, run
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
    """Run a body and return its output and exit code."""
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
    # A closed pipe makes the runner redirect stdout permanently, so it gets its own here.
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


@pytest.mark.parametrize(
    ("raised", "has_own_verbose", "traced"),
    [
        ([KcliError("it failed")], False, ["KcliError"]),
        ([KcliError("it failed")], True, []),
        ([KcliError("it failed"), ValueError("odd")], True, ["ValueError"]),
        ([KeyboardInterrupt(), KcliError("it was cut off")], False, []),
        ([Interrupted("interrupted")], False, []),
        ([KeyboardInterrupt(), ValueError("odd")], True, ["ValueError"]),
        ([BrokenPipeError()], False, []),
    ],
)
def test_verbose_shows_no_traceback_of_what_is_expected(
    raised: list[BaseException], has_own_verbose: bool, traced: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    saved = os.dup(1)
    try:
        with pytest.raises(typer.Exit):
            run(raising(*raised), output=None, verbose=True, has_own_verbose=has_own_verbose)
    finally:
        os.dup2(saved, 1)
        os.close(saved)
    err = capfd.readouterr().err
    assert ("Traceback" in err) == (traced == ["KcliError"]), "an error inside a group has no frames here"
    assert [name for name in ("KcliError", "Interrupt", "ValueError") if f"{name}: " in err] == traced


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


def test_a_command_whose_verbose_tells_of_its_work_shows_no_traceback_of_its_errors(
    capfd: pytest.CaptureFixture[str],
) -> None:
    app = typer.Typer()

    @command(app, "show", example="kcli show")
    def show(verbose: Annotated[bool, typer.Option("--verbose", help="Tell more")] = False) -> None:
        raise KcliError(f"told: {verbose}")

    app(["--verbose"], standalone_mode=False)
    assert capfd.readouterr().err == "error: told: True\n"


@pytest.mark.parametrize("arguments", [[], ["topics"]], ids=["kcli", "kcli topics"])
def test_a_group_without_a_verb_shows_its_help(arguments: list[str], kcli: Callable[..., Finished]) -> None:
    finished = kcli(*arguments)
    assert finished.exit_code == 2
    assert finished.err.startswith("Usage: kcli ")


def test_the_version(kcli: Callable[..., Finished]) -> None:
    from kcli import __version__

    assert kcli("--version") == Finished(0, f"kcli {__version__}\n", "")


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


class Inner(NamedTuple):
    """What stands in another group."""

    size: Annotated[int, typer.Option("--size")] = 3
    names: Annotated[list[str] | None, typer.Option("--name")] = None


class Outer(NamedTuple):
    """A group that holds another one between its own options."""

    topic: Annotated[str, typer.Argument()]
    inner: Inner
    is_quick: Annotated[bool, typer.Option("--quick")] = False


def test_groups_of_options_stand_in_the_help_in_order_and_arrive_whole() -> None:
    app = typer.Typer()
    seen: list[object] = []

    @command(app, "try", example="try orders")
    def try_(outer: Outer, last: Annotated[bool, typer.Option("--last")] = False) -> None:
        seen.append((outer, last))

    help_text = CliRunner().invoke(app, ["--help"]).output
    options = ("--size", "--name", "--quick", "--last", "--output")
    assert sorted(options, key=help_text.index) == [*options]
    for words, expected in (
        (["orders"], (Outer(topic="orders", inner=Inner()), False)),
        (
            ["orders", "--quick", "--name", "a", "--name", "b", "--size", "7", "--last"],
            (Outer(topic="orders", inner=Inner(7, ["a", "b"]), is_quick=True), True),
        ),
    ):
        CliRunner().invoke(app, words, catch_exceptions=False)
        assert seen.pop() == expected
