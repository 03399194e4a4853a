"""`kcli consumer-groups`: list and validate-regex; the verbs in the order of the help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import typer

from kcli.commands.groups import delete_command as delete_command  # each registers its verbs
from kcli.commands.groups import describe_command as describe_command
from kcli.commands.groups import members_command as members_command
from kcli.commands.groups import reset_command as reset_command
from kcli.commands.groups.head import STATES, TYPES, GroupRow, Listing, in_tool_order, parse_words
from kcli.commands.groups.options import DEFAULT_TIMEOUT_MS, LogDir, TimeoutMs, app, refuse_broker_options
from kcli.commands.shared.options import ClusterAddress, OutputFormat
from kcli.commands.shared.output import print_result
from kcli.commands.shared.runner import command
from kcli.errors import ChecksFailed


@command(
    app,
    "list",
    example="kcli consumer-groups list --state stable,empty",
    optional_values={"--state": "", "--type": ""},
)
async def list_groups(
    context: typer.Context,
    state: Annotated[
        str | None, typer.Option(metavar="[STATES]", help="Show states; with STATES, only groups in these")
    ] = None,
    type: Annotated[
        str | None,
        typer.Option(
            metavar="[TYPES]", help="Show types; with TYPES, only groups of these: classic, consumer"
        ),
    ] = None,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    log_dir: LogDir = None,
    *,
    cluster: ClusterAddress,
) -> Listing:
    """List the consumer groups of a cluster, or those in the files of a broker."""
    states, types = parse_words(state, "--state", STATES), parse_words(type, "--type", TYPES)
    if log_dir:
        refuse_broker_options(context)
        from kcli.commands.groups.files import GroupFiles, listing_row
        from kcli.commands.groups.lookup import CONSUMER_PROTOCOL_TYPES

        files = GroupFiles(log_dir)
        every = [listing_row(group) for group in files.groups().values() if group.exists]
        rows = [
            row
            for row in every
            if row.protocol_type in CONSUMER_PROTOCOL_TYPES
            and (not states or row.state in states)
            and (not types or row.type in types)
        ]
        failures = files.failures
    else:
        from kcli.commands.groups.lookup import list_consumer_groups

        async with cluster.connect(timeout_ms=timeout_ms) as client:
            groups, failures = await list_consumer_groups(
                client, states=states, types=types, timeout_ms=timeout_ms
            )
        rows = [GroupRow(group.group_id, group.type, group.state, group.protocol_type) for group in groups]
    return Listing(
        in_tool_order(rows), show_type=type is not None, show_state=state is not None, failures=failures
    )


class Validated(NamedTuple):
    """The result of `consumer-groups validate-regex`: the error in an expression, and its place."""

    regex: str
    valid: bool
    error: str | None = None
    piece: str | None = None

    def lines(self) -> Iterator[str]:
        verdict = "valid" if self.valid else f"invalid: {self.error}"
        yield f"The regular expression `{self.regex}` is {verdict}."


@command(app, "validate-regex", example="kcli consumer-groups validate-regex 'orders-(eu|us)'")
def validate_regex(
    regex: Annotated[str, typer.Argument(metavar="REGEX", help="The expression")],
    output: OutputFormat | None = None,
) -> None:
    """Check a regular expression of the consumer protocol (KIP-848), whose syntax is RE2's.

    No broker is asked. The exit code for an invalid expression is 3.
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


VERBS = ["list", "describe", "reset-offsets", "delete", "delete-offsets"]
VERBS += ["members", "remove-members", "clone", "validate-regex"]

app.registered_commands.sort(key=lambda verb: VERBS.index(verb.name or ""))
