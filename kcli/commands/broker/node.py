"""`kcli broker node`: stops, kills, pauses, starts, adds and removes nodes of a running broker process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from kcli.commands.broker.start import DATA_DIR_VARIABLE
from kcli.commands.broker.start import DEFAULT_DATA_DIR as DEFAULT_DATA_DIR
from kcli.commands.shared.formatting import counted
from kcli.commands.shared.output import Table
from kcli.commands.shared.runner import command
from kcli.control_socket import ask
from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DataDir = Annotated[
    Path, typer.Option(metavar="DIR", envvar=DATA_DIR_VARIABLE, help="Directory of the logs of all nodes")
]


app = typer.Typer(
    name="broker node",
    help="List, stop, kill, pause, start, add and remove single nodes of a running broker.",
    no_args_is_help=True,
)

ANSWER_SECONDS = 10.0
LOAD_SECONDS = 120.0
"""A starting node may have to recover logs, a stopping one to flush them."""


def complete_node(context: typer.Context, incomplete: str) -> list[str]:
    data_dir = context.params.get("data_dir") or DEFAULT_DATA_DIR
    try:
        rows = ask(Path(data_dir).absolute(), "node.list", timeout_seconds=1.0)
    except KcliError:
        return []
    return [str(row["node"]) for row in rows if str(row["node"]).startswith(incomplete)]


NodeArgument = Annotated[
    int, typer.Argument(metavar="NODE", min=0, help="The node's number", autocompletion=complete_node)
]
Rack = Annotated[str | None, typer.Option(metavar="NAME", help="The rack of the node")]
Force = Annotated[bool, typer.Option("--force", help="Remove it even with replicas")]


_PLAINTEXT = re.compile(r"([^:]*:)?PLAINTEXT://")


class NodeRow(NamedTuple):
    """A node of the process. `metadata_offset` is the end of its copy of the metadata log."""

    node: int
    state: str
    ended_by: str | None
    reason: str | None
    host: str | None
    port: int | None
    rack: str | None
    fenced: bool
    is_controller: bool
    leads: int
    replicas: int
    in_sync: int
    metadata_offset: int | None
    log_dirs: tuple[str, ...]
    listeners: tuple[str, ...] = ()

    @property
    def secured_listeners(self) -> tuple[str, ...]:
        """The listeners with their security protocols, if one of them is more than PLAINTEXT."""
        is_secured = any(not _PLAINTEXT.match(listener) for listener in self.listeners)
        return self.listeners if is_secured else ()

    def shown_state(self) -> str:
        """Return the node's state, or how it ended."""
        if self.state == "dead":
            return self.ended_by or "not started"
        return f"{self.state}, fenced" if self.fenced else self.state

    def address(self) -> str:
        """Return the node's address for clients, a dash if unknown."""
        if self.host is None:
            return "-"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def line(self) -> str:
        facts = [
            f"leads {counted(self.leads, 'partition')}",
            f"in sync {self.in_sync} of {counted(self.replicas, 'replica')}",
        ]
        if self.is_controller:
            facts.insert(0, "controller")
        if self.rack is not None:
            facts.insert(0, f"rack {self.rack}")
        if self.secured_listeners:
            facts.append(f"listeners {','.join(self.secured_listeners)}")
        if self.reason is not None:
            facts.append(f"reason: {self.reason}")
        return f"node {self.node}: {self.shown_state()}, {self.address()}, {', '.join(facts)}"


class NodeRows(NamedTuple):
    """The nodes of a process in ascending order."""

    nodes: tuple[NodeRow, ...]

    def lines(self) -> list[str]:
        return [node.line() for node in self.nodes]

    def tables(self) -> list[Table]:
        columns = ("Node", "State", "Address", "Rack", "Controller", "Leads", "Replicas", "In sync")
        rows = [
            (
                node.node,
                node.shown_state(),
                node.address(),
                node.rack,
                node.is_controller,
                node.leads,
                node.replicas,
                node.in_sync,
            )
            for node in self.nodes
        ]
        return [Table(columns, rows)]


class NodeDone(NamedTuple):
    node: int
    done: str
    note: str | None = None

    def lines(self) -> list[str]:
        note = "" if self.note is None else f": {self.note}"
        return [f"node {self.node} {self.done}{note}"]


@command(app, "list", example="kcli broker node list -o json")
def list_nodes(*, data_dir: DataDir = DEFAULT_DATA_DIR) -> NodeRows:
    """List the nodes: their states, addresses and partitions.

    A node is running, paused, stopping or starting, or it was stopped, was killed, or has failed. A node is
    fenced if the controller receives no heartbeats of it.
    """
    return nodes_of(data_dir)


@command(app, "stop", example="kcli broker node stop 2")
def stop(node: NodeArgument, *, data_dir: DataDir = DEFAULT_DATA_DIR) -> NodeDone:
    """Stop a node in order; the others keep running.

    First, other nodes take over its partitions, and its role if it is the controller. It flushes its logs, so
    that its next start has nothing to recover.
    """
    ask_process(data_dir, "node.stop", node=node)
    return NodeDone(node, "stopped")


@command(app, "kill", example="kcli broker node kill 1")
def kill(node: NodeArgument, *, data_dir: DataDir = DEFAULT_DATA_DIR) -> NodeDone:
    """Kill a node, as `kill -9` would; the others keep running.

    Its connections break without notice. Other nodes take over its partitions when its session ends, after
    `broker.session.timeout.ms` (9 s by default). Its next start recovers its logs.
    """
    ask_process(data_dir, "node.kill", node=node)
    return NodeDone(node, "killed")


@command(app, "start", example="kcli broker node start 2")
def start(node: NodeArgument, *, data_dir: DataDir = DEFAULT_DATA_DIR) -> NodeDone:
    """Start a node that was stopped, was killed, or has failed; return when it accepts clients.

    It keeps its port, and copies what it has missed from the other nodes.
    """
    ask_process(data_dir, "node.start", node=node)
    return NodeDone(node, "started")


@command(app, "pause", example="kcli broker node pause 3")
def pause(node: NodeArgument, *, data_dir: DataDir = DEFAULT_DATA_DIR) -> NodeDone:
    """Suspend a node, as `kill -STOP` or a long garbage collection would.

    Its connections stay open, and it answers no request. When its session ends, it is fenced and others lead.
    If it was the controller, another node takes over after `controller.quorum.fetch.timeout.ms` (2 s by
    default).
    """
    ask_process(data_dir, "node.pause", node=node)
    return NodeDone(node, "paused")


@command(app, "resume", example="kcli broker node resume 3")
def resume(node: NodeArgument, *, data_dir: DataDir = DEFAULT_DATA_DIR) -> NodeDone:
    """Resume a paused node: it catches up, and answers the requests that have come meanwhile."""
    ask_process(data_dir, "node.resume", node=node)
    return NodeDone(node, "resumed")


@command(app, "add", example="kcli broker node add --rack b")
def add(*, rack: Rack = None, data_dir: DataDir = DEFAULT_DATA_DIR) -> NodeDone:
    """Add a node, with the next number and its port.

    It has no replicas: `kcli reassign-partitions` moves some there. The next `kcli broker start` without
    `--nodes` starts it too.
    """
    arguments: dict[str, Any] = {} if rack is None else {"rack": rack}
    answer = ask_process(data_dir, "node.add", **arguments)
    added = next(row for row in nodes_of(data_dir).nodes if row.node == answer["node"])
    return NodeDone(answer["node"], "added", added.address())


@command(app, "remove", example="kcli broker node remove 4")
def remove(node: NodeArgument, *, force: Force = False, data_dir: DataDir = DEFAULT_DATA_DIR) -> NodeDone:
    """Stop a node permanently, and unregister it from the cluster.

    A node with replicas is refused: drain it first, with `kcli reassign-partitions`, or use `--force` to see
    how a cluster copes with their loss. Its directory is kept under another name.
    """
    answer = ask_process(data_dir, "node.remove", node=node, force=force)
    kept = answer["kept"]
    return NodeDone(node, "removed", None if kept is None else f"its data is kept in {kept}")


def nodes_of(data_dir: Path) -> NodeRows:
    """Return the nodes of the process of a data directory; raise `KcliError` if none runs."""
    answer = ask_process(data_dir, "node.list", timeout_seconds=ANSWER_SECONDS)
    lists = ("log_dirs", "listeners")
    return NodeRows(tuple(NodeRow(**{**row, **{name: tuple(row[name]) for name in lists}}) for row in answer))


def ask_process(
    data_dir: Path,
    operation: str,
    *,
    timeout_seconds: float = LOAD_SECONDS,
    on_progress: Callable[[Mapping[str, Any]], None] | None = None,
    **arguments: object,
) -> Any:  # noqa: ANN401 - the result of the operation
    """Return the result of an operation in the process of a data directory."""
    return ask(
        data_dir.absolute(),
        operation,
        timeout_seconds=timeout_seconds,
        on_progress=on_progress,
        **arguments,
    )
