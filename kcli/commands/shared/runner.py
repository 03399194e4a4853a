"""`@command`: registers a function as a command, runs it, prints its result and its errors.

Only this module turns errors into exit codes; the table stands in `kcli.errors`. An error that is not a
`KcliError` is reported as a bug, with a traceback under `--verbose`. A command whose `--verbose` tells of its
work shows those of bugs only.

Command lines differ from Typer's in two ways: a number is written in decimal digits (Python, and so Typer,
takes `1_0` for ten), and an option may be declared to need no value.
"""

from __future__ import annotations

import errno
import functools
import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from copy import copy
from typing import Annotated, Any, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from kcli.commands.shared.arguments import with_values
from kcli.commands.shared.options import Output, OutputFormat, Verbose
from kcli.errors import Interrupted, KcliError, MissingArgument

NUMBERS = ("int", "integer", "float")
"""The first words of the names of Typer's number types, in all its versions."""


def command_class(optional_values: Mapping[str, str], needs: str | None) -> type[TyperCommand]:
    """Return a class of commands whose options `optional_values` take a value only if it has no dash.

    Its help shows the argument `needs` as required, although Typer sees that it may be left out.
    """

    class Command(TyperCommand):
        def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # Typer's own click
            super().__init__(*args, **kwargs)
            for parameter in self.params:
                if parameter.type.name.partition(" ")[0] in NUMBERS:
                    parameter.type = in_plain_digits(parameter.type)
                if parameter.name == needs:
                    show_as_required(parameter)

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  # the same
            return super().parse_args(ctx, with_values(args, optional_values))

    return Command


def show_as_required(argument: Any) -> None:  # noqa: ANN401  # an argument of Typer's own click
    """Have the usage and the help of an argument say what they say of Typer's required ones."""
    usage = f"{{{argument.metavar}}}"
    argument.get_usage_pieces = lambda ctx: [usage]
    argument.help = f"{argument.help}  [required]"


def in_plain_digits(kind: Any) -> Any:  # noqa: ANN401  # a type of Typer's own click
    """Return a number type that refuses digits which only Python accepts."""

    def convert(value: Any, parameter: Any, context: Any) -> Any:  # noqa: ANN401  # the same
        if isinstance(value, str) and ("_" in value or not value.isascii()):
            kind.fail(f"'{value}' is not a valid {kind.name}.", parameter, context)
        return kind.convert(value, parameter, context)

    strict = copy(kind)  # Typer shares a type between all commands.
    strict.convert = convert
    return strict


Body = Callable[..., Any]
"""A command: an async function, or a plain one, which runs without the event loop."""


def command(
    app: typer.Typer,
    name: str,
    *,
    example: str,
    needs: str | None = None,
    optional_values: Mapping[str, str] | None = None,
) -> Callable[[Body], Body]:
    """Register a function as the command `name` of `app`; its help ends with `example`.

    A parameter whose type is a NamedTuple is a group of options.

    The function returns a result (see `kcli.commands.shared.output`), or None if it has printed its own. It
    gets `output` and `verbose` if it has such parameters, whose annotations may replace the common ones. An
    option in `optional_values` may stand without a value and then has that one. `needs` is the argument that
    the function refuses to go without, although it has a default: a hidden option may give it.
    """

    def register(body: Body) -> Body:
        path = " ".join(("kcli", *([app.info.name] if isinstance(app.info.name, str) else ()), name))
        cls = command_class(optional_values or {}, needs)
        # `\b` alone on a line: what is to be copied is not wrapped.
        app.command(name, cls=cls, epilog=f"\b\nExample: {example}")(Callback(body, path))
        return body

    return register


class Callback:
    """What Typer calls for a command. Its parameters are evaluated when Typer asks: a line names one verb."""

    def __init__(self, body: Body, path: str) -> None:
        self.__name__ = body.__name__
        self.__doc__ = body.__doc__
        self.__annotations__: dict[str, Any] = {}  # Typer finds the types in the signature
        self._body = body
        self._path = path

    @functools.cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the body, groups included."""
        return inspect.signature(self._body, eval_str=True).parameters

    @functools.cached_property
    def __signature__(self) -> inspect.Signature:
        return with_common_options(self.parameters)

    def __call__(self, *, output: OutputFormat | None, verbose: bool, **arguments: object) -> None:
        common = {"output": output, "verbose": verbose}
        arguments.update((name, value) for name, value in common.items() if name in self.parameters)
        run(
            lambda: self._body(**grouped(self.parameters, arguments)),
            output=output,
            verbose=verbose,
            has_own_verbose=has_own(self.parameters, "verbose"),
            path=self._path,
        )


def is_group(kind: object) -> bool:
    """Return whether a parameter's type is a group of options: a NamedTuple.

    Its fields are declared like parameters of a command, or are groups themselves. Typer knows an option by
    the name of its field, which therefore occurs once in a command.
    """
    return isinstance(kind, type) and issubclass(kind, tuple)


@functools.cache
def options_of(group: Any) -> dict[str, inspect.Parameter]:  # noqa: ANN401  # the class of a NamedTuple
    """Return the fields of a group, in order, as parameters."""
    return {
        name: inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=group._field_defaults.get(name, inspect.Parameter.empty),
            annotation=annotation,
        )
        for name, annotation in get_type_hints(group, include_extras=True).items()
    }


def flattened(parameters: Mapping[str, inspect.Parameter]) -> Iterator[inspect.Parameter]:
    """Yield parameters, in place of each group its options."""
    for parameter in parameters.values():
        if is_group(parameter.annotation):
            yield from flattened(options_of(parameter.annotation))
        else:
            yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def grouped(parameters: Mapping[str, inspect.Parameter], given: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments for `parameters`; groups are built by name of what Typer gave."""
    return {
        name: kind(**grouped(options_of(kind), given)) if is_group(kind) else given[name]
        for name, kind in ((name, parameter.annotation) for name, parameter in parameters.items())
    }


def with_common_options(parameters: Mapping[str, inspect.Parameter]) -> inspect.Signature:
    """Return the options of a command's function and of its groups, and then `--output` and `--verbose`."""
    added: dict[str, tuple[Any, Any]] = {"output": (Output, None), "verbose": (Verbose, False)}
    for name, (_, default) in added.items():
        if has_own(parameters, name):
            added[name] = (parameters[name].annotation, default)
    own = [each for each in flattened(parameters) if each.name not in added]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in added.items()
    ]
    return inspect.Signature([*own, *common])


def has_own(parameters: Mapping[str, inspect.Parameter], name: str) -> bool:
    """Return whether a command declares a common option anew, for a meaning of its own."""
    return name in parameters and get_origin(parameters[name].annotation) is Annotated


def run(
    body: Callable[[], Any],
    *,
    output: OutputFormat | None,
    verbose: bool,
    has_own_verbose: bool = False,
    path: str = "kcli",
) -> None:
    """Run a body, print its result and errors, and raise `typer.Exit` after errors; hints name `path`."""
    from kcli.commands.shared.output import note, print_errors, print_result

    failures: list[BaseException] = []
    try:
        result = body()
        if inspect.isawaitable(result):
            result = wait_for(result)
        if result is not None:
            print_result(result, output)
            failures.extend(getattr(result, "failures", ()))
        sys.stdout.flush()
    except* BaseException as group:
        failures.extend(flatten(group))
    if not failures:
        return
    exit_code, shown = judge(failures)
    if verbose:
        from traceback import format_exception

        for failure in traced(failures, only_bugs=has_own_verbose):
            for line in "".join(format_exception(failure)).rstrip("\n").split("\n"):
                note(line)
    for error in shown:
        if isinstance(error, MissingArgument):
            error.hint = f"{path} --help"
    if shown:
        print_errors(shown, output, exit_code)
    raise typer.Exit(exit_code)


def traced(failures: list[BaseException], *, only_bugs: bool) -> list[BaseException]:
    """Return the failures whose tracebacks tell something: no interrupt, what it caused, or a closed pipe."""
    expected: tuple[type[BaseException], ...] = (typer.Exit, KeyboardInterrupt, BrokenPipeError)
    if only_bugs or any(isinstance(each, KeyboardInterrupt | Interrupted) for each in failures):
        expected += (KcliError,)
    return [each for each in failures if not isinstance(each, expected)]


def wait_for(awaitable: Awaitable[Any]) -> Any:  # noqa: ANN401  # whatever the command returns
    try:
        import trio

        async def wait() -> Any:  # noqa: ANN401  # the same
            return await awaitable

        return trio.run(wait)
    finally:
        # After an interrupt it may never have started: Python would warn of that.
        if inspect.iscoroutine(awaitable):
            awaitable.close()


def flatten(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the exceptions inside nested groups, in order."""
    found: list[BaseException] = []
    for error in group.exceptions:
        found.extend(flatten(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found


def judge(failures: list[BaseException]) -> tuple[int, list[KcliError]]:
    """Return the exit code of a set of failures, and the errors to print.

    A closed pipe ends the command silently, an interrupt hides the errors that it caused, and a command's own
    errors hide a bug behind them.
    """
    exits = [error.exit_code for error in failures if isinstance(error, typer.Exit)]
    known = [error for error in failures if isinstance(error, KcliError)]
    if any(isinstance(error, BrokenPipeError) for error in failures):
        discard_stdout()
        return 0, []
    if exits:
        return max(exits), known
    if any(isinstance(error, KeyboardInterrupt) for error in failures):
        reported = [error for error in known if isinstance(error, Interrupted)]
        return Interrupted.exit_code, [*reported] or [Interrupted("interrupted")]
    if known:
        return max(error.exit_code for error in known), known
    bug = failures[0]
    if isinstance(bug, OSError) and bug.errno == errno.ENOSPC:
        discard_stdout()
        return 1, [KcliError("cannot write the output: no space left on the device")]
    message = f"unexpected {type(bug).__name__}: {bug}"
    return 1, [KcliError(message, hint="run it again with `--verbose` for a traceback")]


def discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that the interpreter's flush at exit does not fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is closed, or is not a file
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - it lives as long as the process
    finally:
        os.close(null)
