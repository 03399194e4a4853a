"""`kcli consumer-groups validate-regex`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import typer

from kcli.commands.groups.options import app
from kcli.commands.options import OutputFormat
from kcli.commands.output import print_result
from kcli.commands.runner import command
from kcli.errors import ChecksFailed


class Validated(NamedTuple):
    """The result of `consumer-groups validate-regex`: what is wrong with an expression, and where."""

    regex: str
    valid: bool
    error: str | None = None
    piece: str | None = None

    def lines(self) -> Iterator[str]:
        """Return the line of Kafka's own tool."""
        verdict = "valid" if self.valid else f"invalid: {self.error}"
        yield f"The regular expression `{self.regex}` is {verdict}."


@command(app, "validate-regex", example="kcli consumer-groups validate-regex 'orders-(eu|us)'")
def validate_regex(
    regex: Annotated[str, typer.Argument(metavar="REGEX", help="The expression", show_default=False)],
    output: OutputFormat | None = None,
) -> None:
    """Tell whether the broker can match topics against an expression: its syntax is RE2's, as in KIP-848.

    It is one that members of the consumer protocol may subscribe with. Asks no broker. The exit code of an
    invalid one is 3.
    """
    from kcli.protocol.re2 import InvalidExpression, parse

    result = Validated(regex, True)
    try:
        parse(regex)
    except InvalidExpression as error:
        result = Validated(regex, False, error.description, error.piece or None)
    print_result(result, output)
    if not result.valid:
        raise typer.Exit(ChecksFailed.exit_code)
