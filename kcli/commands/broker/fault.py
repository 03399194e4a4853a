"""`kcli broker fault`: begins and ends deliberate faults of a running broker."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from kcli.commands.broker.node import DEFAULT_DATA_DIR, DataDir, ask_process
from kcli.commands.shared.formatting import counted
from kcli.commands.shared.output import Table, warn
from kcli.commands.shared.runner import command
from kcli.errors import MissingArgument, UsageError

app = typer.Typer(
    name="broker fault",
    help="Make requests, links, followers, disks and transactions of a running broker fail on purpose.",
    no_args_is_help=True,
)

ANSWER_SECONDS = 30.0

ask_faults = partial(ask_process, timeout_seconds=ANSWER_SECONDS)

KINDS_HELP = "What goes wrong: drop, disconnect, delay, error (requests); cut, slow, lose (links between \
nodes); isolate, freeze, fill-disk (nodes); hold-markers, hang-transactions (transactions)"


def complete_kind(incomplete: str) -> list[str]:
    from kcli.broker.faults.fault import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete)]


def complete_api(incomplete: str) -> list[str]:
    from kcli.broker.network.apis import APIS

    return [api.name for api in APIS if api.name.lower().startswith(incomplete.lower())]


def complete_code(incomplete: str) -> list[str]:
    from kcli.protocol.error_codes import ErrorCode

    return [name for name in ErrorCode.__members__ if name.startswith(incomplete.upper()) and name != "NONE"]


Kind = Annotated[str, typer.Argument(metavar="KIND", help=KINDS_HELP, autocompletion=complete_kind)]
NodeOption = Annotated[
    int | None, typer.Option(metavar="ID", help="Only requests to this node, or the node itself")
]
ApiOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only requests of this API", autocompletion=complete_api)
]
ClientId = Annotated[
    str | None, typer.Option(metavar="PATTERN", help="Only requests of these clients, such as 'app-*'")
]
TopicPattern = Annotated[
    str | None, typer.Option(metavar="PATTERN", help="Only requests or markers for such a topic")
]
Code = Annotated[
    str | None,
    typer.Option(metavar="ERROR", help="The code of `error`: name or number", autocompletion=complete_code),
]
DelayMs = Annotated[int | None, typer.Option(metavar="MS", help="The delay of `delay` and `slow`")]
Next = Annotated[
    int | None,
    typer.Option(metavar="N", help="End after so many requests, calls or markers; by default when cleared"),
]
Probability = Annotated[float | None, typer.Option(metavar="P", help="The fraction of requests to hit")]
After = Annotated[bool, typer.Option("--after", help="Process the request first: only its response fails")]
From = Annotated[
    int | None, typer.Option("--from", metavar="ID", help="One node of the link of `cut`, `slow` and `lose`")
]
To = Annotated[int | None, typer.Option(metavar="ID", help="The other node of the link")]
OneWay = Annotated[bool, typer.Option("--one-way", help="Only calls from the node `--from` to the other")]
Numbers = Annotated[list[int] | None, typer.Argument(metavar="[NUMBER]...", help="Which faults")]
All = Annotated[bool, typer.Option("--all", help="Every fault")]
Target = Annotated[int, typer.Argument(metavar="NODE", help="The target node")]
LeaderTarget = Annotated[int | None, typer.Argument(metavar="NODE", help="The target node")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic")]
Partition = Annotated[int, typer.Argument(metavar="PARTITION", min=0, help="The partition")]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group")]


OPTION_NAMES = re.compile(
    r"`(node|api|client_id|topic|code|delay_ms|next|probability|after|from|to|one_way)`"
)
"""The options of a fault as scenarios, and so refusals, name them."""


def _as_flags(text: str) -> str:
    """Return a broker's text with the options as the command line names them."""
    return OPTION_NAMES.sub(lambda name: f"`--{name[1].replace('_', '-')}`", text)


class ActiveFault(NamedTuple):
    """A fault of the running broker. `hits` and `left` are None for faults that count nothing."""

    number: int
    kind: str
    fault: str
    hits: int | None
    left: int | None

    def lines(self) -> list[str]:
        hits = "" if self.hits is None else f", hits {self.hits}"
        left = "" if self.left is None else f", left {self.left}"
        return [f"{self.number}: {self.fault}{hits}{left}"]


class ActiveFaults(NamedTuple):
    """The faults of the running broker, oldest first."""

    faults: tuple[ActiveFault, ...]

    def lines(self) -> list[str]:
        return [line for fault in self.faults for line in fault.lines()]

    def tables(self) -> list[Table]:
        rows = [
            (each.number, each.fault, *("" if count is None else count for count in (each.hits, each.left)))
            for each in self.faults
        ]
        return [Table(("Number", "Fault", "Hits", "Left"), rows)]


class Cleared(NamedTuple):
    """The result of `broker fault clear`: how many faults, and which."""

    cleared: int
    numbers: tuple[int, ...]

    def lines(self) -> list[str]:
        if self.cleared == 1:
            return [f"cleared fault {self.numbers[0]}"]
        return [f"cleared {counted(self.cleared, 'fault')}"]


class Moved(NamedTuple):
    moved: str
    node: int

    def lines(self) -> list[str]:
        return [f"moved: {self.moved} to node {self.node}"]


@command(app, "list", example="kcli broker fault list -o json")
def list_faults(*, data_dir: DataDir = DEFAULT_DATA_DIR) -> ActiveFaults:
    """List the faults, and how often each has hit a request or a marker.

    `clear` ends a fault by its number. A fault of the next requests disappears from the list after them.
    """
    answer = ask_faults(data_dir, "fault.list")
    return ActiveFaults(tuple(ActiveFault(**each) for each in answer))


@command(
    app,
    "add",
    example="kcli broker fault add error --api Produce --code NOT_LEADER_OR_FOLLOWER --node 1 --next 3",
)
def add(
    kind: Kind,
    *,
    node: NodeOption = None,
    api: ApiOption = None,
    client_id: ClientId = None,
    topic: TopicPattern = None,
    code: Code = None,
    delay_ms: DelayMs = None,
    next: Next = None,
    probability: Probability = None,
    after: After = False,
    from_: From = None,
    to: To = None,
    one_way: OneWay = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> ActiveFault:
    """Begin a fault, which lasts until it is cleared or has hit often enough.

    Requests: `drop` never answers, `disconnect` closes the connection, `delay` answers late, `error` answers
    with an error. Without further options it hits every request of every client. If a request also names
    other topics, an error applies only to the topics that match; any other fault applies to the whole
    request. With `--after` the request is processed, and only its response fails: a producer does not get its
    acknowledgement.

    Links: `cut` blocks the calls of a node to another, `slow` delays them, `lose` drops the next ones.

    Nodes: `isolate` cuts every link of a node, but clients still reach it; `freeze` stops the copying of its
    followers; `fill-disk` makes every write to its log directories fail.

    Transactions: `hold-markers` lets no coordinator write markers until it is cleared, so that ended
    transactions stay prepared; `hang-transactions` loses markers that count as written, so that partitions
    keep open transactions. `kcli transactions abort`, or Kafka's own tool, still ends those;
    `kcli transactions find-hanging --topic TOPIC --max-transaction-timeout 0` shows them at once.
    """
    options: dict[str, Any] = {
        "node": node,
        "api": api,
        "client_id": client_id,
        "topic": topic,
        "code": code,
        "delay_ms": delay_ms,
        "next": next,
        "probability": probability,
        "after": after or None,
        "from": from_,
        "to": to,
        "one_way": one_way or None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    try:
        answer = ask_faults(data_dir, "fault.add", kind=kind, **given)
    except UsageError as error:
        raise UsageError(_as_flags(error.message), hint=error.hint and _as_flags(error.hint)) from error
    warning = answer.pop("warning")
    if warning is not None:
        warn(warning)
    return ActiveFault(**answer)


@command(app, "clear", example="kcli broker fault clear --all")
def clear(*, numbers: Numbers = None, all: All = False, data_dir: DataDir = DEFAULT_DATA_DIR) -> Cleared:
    """End faults by their numbers, or all of them.

    Dropped requests stay without an answer: their clients time out.
    """
    if bool(numbers) == all:
        raise UsageError(
            "name the faults by their numbers, or use `--all`", hint="`kcli broker fault list` shows them"
        )
    cleared = ask_faults(data_dir, "fault.clear", numbers=list(numbers or ()))
    return Cleared(len(cleared), tuple(cleared))


@command(app, "move-leader", example="kcli broker fault move-leader orders 0 2")
def move_leader(
    topic: Topic, partition: Partition, node: LeaderTarget = None, *, data_dir: DataDir = DEFAULT_DATA_DIR
) -> Moved:
    """Make a node lead a partition: `TOPIC PARTITION NODE`, or `TOPIC:PARTITION NODE`.

    The node must have an in-sync replica. It also becomes the preferred replica, so that it stays the leader.
    """
    if node is None:
        if ":" not in topic:
            raise MissingArgument("NODE")
        from kcli.commands.shared.topic_filter import parse_partition

        # The second word is the node then.
        (topic, partition), node = parse_partition(topic), partition
    ask_faults(data_dir, "fault.move-leader", topic=topic, partition=partition, to=node)
    return Moved(f"{topic}-{partition}", node)


@command(app, "move-coordinator", example="kcli broker fault move-coordinator my-group 2")
def move_coordinator(group: Group, node: Target, *, data_dir: DataDir = DEFAULT_DATA_DIR) -> Moved:
    """Make a node coordinate a group.

    It becomes the leader of the group's partition of `__consumer_offsets`, and so the coordinator of all
    groups of that partition.
    """
    ask_faults(data_dir, "fault.move-coordinator", group=group, to=node)
    return Moved(group, node)


@command(app, "move-controller", example="kcli broker fault move-controller 2")
def move_controller(node: Target, *, data_dir: DataDir = DEFAULT_DATA_DIR) -> Moved:
    """Make a node the controller."""
    ask_faults(data_dir, "fault.move-controller", to=node)
    return Moved("controller", node)
