"""`kcli broker`: start a development broker, stop it, and ask whether it runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from kcli.commands.broker import fault as broker_fault
from kcli.commands.broker import node as broker_node
from kcli.commands.broker import requests as broker_requests
from kcli.commands.broker.node import DEFAULT_DATA_DIR, DataDir
from kcli.commands.broker.start import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    MOST_NODES,
    MOST_PORT,
    StartOptions,
    start_broker,
)
from kcli.commands.shared.output import OutputFormat
from kcli.commands.shared.runner import command
from kcli.control_socket import refuse_stopped
from kcli.errors import ChecksFailed, KcliError

app = typer.Typer(name="broker", help="Start, stop and inspect a development broker.", no_args_is_help=True)
app.add_typer(broker_node.app, name="node")
app.add_typer(broker_fault.app, name="fault")

ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="A server.properties file")]
Override = Annotated[
    list[str] | None,
    typer.Option(
        "--override", metavar="NAME=VALUE", help="A broker property; wins over the file (repeatable)"
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        min=1,
        max=MOST_NODES,
        metavar="N",
        help="How many nodes to start; by default those that the data directory has, or 1",
    ),
]
Racks = Annotated[
    str | None,
    typer.Option("--rack", metavar="NAME,...", help="Racks of the nodes; given in turn if there are fewer"),
]
Host = Annotated[
    str | None,
    typer.Option(
        "--host", metavar="HOST", help=f"Address to listen on and to tell clients, by default {DEFAULT_HOST}"
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=0,
        max=MOST_PORT,
        metavar="N",
        help=f"Port of the first node, by default {DEFAULT_PORT}; the others follow. 0: any free port",
    ),
]
Ephemeral = Annotated[
    bool, typer.Option("--ephemeral", help="Keep the data in a temporary directory that goes at the end")
]
Adopt = Annotated[
    bool,
    typer.Option(
        "--adopt", help="Serve topic directories that another broker wrote, under the ids that they declare"
    ),
]
Daemon = Annotated[
    bool, typer.Option("--daemon", help="Return when the broker is ready and leave it running")
]
ScenarioFile = Annotated[
    Path | None,
    typer.Option(
        "--scenario", metavar="FILE", help="A YAML file of what happens to the cluster once it is ready"
    ),
]
Timeout = Annotated[
    float,
    typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait for the broker to stop"),
]


class BrokerStatus(NamedTuple):
    """Whether a broker serves a data directory, and where.

    `running` is about the process: its nodes can all be down. `bootstrap_servers` are then where they were.
    """

    running: bool
    data_dir: str
    pid: int | None = None
    bootstrap_servers: str | None = None
    cluster_id: str | None = None
    nodes: tuple[broker_node.NodeRow, ...] = ()
    failures: tuple[KcliError, ...] = ()

    def lines(self) -> list[str]:
        """Return one line, and one for each node where there are several or the only one does not run."""
        if not self.running:
            return [f"not running: {self.data_dir}"]
        where = f"{self.bootstrap_servers} cluster {self.cluster_id} data {self.data_dir} pid {self.pid}"
        is_plain = len(self.nodes) < 2 and all(node.state == "running" for node in self.nodes)
        state = "running" if any(node.state != "dead" for node in self.nodes) else "running without a node"
        return [f"{state}: {where}", *(() if is_plain else (node.line() for node in self.nodes))]


class BrokerStopped(NamedTuple):
    """The broker of a data directory has ended."""

    stopped: bool
    data_dir: str
    pid: int

    def lines(self) -> list[str]:
        """Return nothing: that it ended well is all there is to say."""
        return []


@command(app, "start", example="kcli broker start --port 9092 --override num.partitions=3")
def start(
    *,
    config: ConfigFile = None,
    override: Override = None,
    nodes: Nodes = None,
    rack: Racks = None,
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    ephemeral: Ephemeral = False,
    adopt: Adopt = False,
    scenario: ScenarioFile = None,
    daemon: Daemon = False,
    verbose: bool = False,
    output: OutputFormat | None = None,
) -> Awaitable[None] | None:
    """Start a broker and serve until it is interrupted.

    One line on standard output says that it is ready, and where; with `-o json` it has the fields of `kcli
    broker status -o json`. Ctrl-C, SIGTERM or the end of its terminal (SIGHUP) stops it in order: a second
    one ends it at once, unless it comes within half a second, as from programs that send it twice.

    A scenario lists steps under `steps:`, each with `at:` (seconds after the start) or `after:` (seconds
    after the step before), `do:` and what that needs: kill, stop, start, pause, resume (`node:`), move-leader
    (`topic:`, `partition:`, `to:`), move-coordinator (`group:`, `to:`), move-controller (`to:`), clear, or a
    fault with the words of `kcli broker fault add` and perhaps `for:` (seconds).
    """
    return start_broker(
        StartOptions(
            config=config,
            override=tuple(override or ()),
            nodes=nodes,
            rack=rack,
            host=host,
            port=port,
            data_dir=data_dir,
            ephemeral=ephemeral,
            adopt=adopt,
            scenario=scenario,
            daemon=daemon,
            verbose=verbose,
            as_json=output is OutputFormat.JSON,
        )
    )


@command(app, "stop", example="kcli broker stop --data-dir kcli-data")
async def stop(*, data_dir: DataDir = DEFAULT_DATA_DIR, timeout_seconds: Timeout = 60.0) -> BrokerStopped:
    """Stop the broker of a data directory in order, and wait until it has ended.

    It prints nothing but with `-o json`.
    """
    import trio

    from kcli.broker.process.pid_file import PidFile

    pid_file = PidFile(data_dir.absolute())
    running = pid_file.read()
    if running is None:
        raise KcliError(f"no broker runs in `{data_dir}`", hint="name its directory with `--data-dir`")
    stopped = BrokerStopped(True, str(data_dir.absolute()), running.pid)
    refuse_stopped(running.pid)  # It would obey whenever it goes on, to the surprise of whoever lets it.
    try:
        os.kill(running.pid, signal.SIGTERM)
    except ProcessLookupError:
        return stopped
    except PermissionError as error:
        raise KcliError(
            f"not allowed to stop process {running.pid}", hint="another user started it"
        ) from error
    with trio.move_on_after(timeout_seconds):
        while pid_file.read() is not None:  # another process, it cannot set an event
            await trio.sleep(0.05)
            refuse_stopped(running.pid)
        return stopped
    raise KcliError(
        f"the broker is still stopping after {timeout_seconds:g} s: process {running.pid}",
        hint="wait longer with `--timeout`, or end it with a second signal",
    )


@command(app, "status", example="kcli broker status -o json")
def status(*, data_dir: DataDir = DEFAULT_DATA_DIR) -> BrokerStatus:
    """Tell whether a broker serves a data directory, and what its nodes do; exit 3 if none does.

    The addresses are those of the nodes that run. Where none does, which is exit 3 too, they are those of
    all.
    """
    from kcli.broker.process.pid_file import PidFile

    directory = str(data_dir.absolute())
    running = PidFile(data_dir.absolute()).read()
    if running is None:
        return BrokerStatus(False, directory, failures=(ChecksFailed(f"no broker runs in `{data_dir}`"),))
    nodes = broker_node.nodes_of(data_dir).nodes
    # What the process wrote when it was ready does not know of nodes that came and went since.
    alive = [node for node in nodes if node.state != "dead"]
    bootstrap = ",".join(node.address() for node in alive or nodes if node.host is not None)
    failures = () if alive else (_no_node(data_dir, nodes),)
    return BrokerStatus(True, directory, running.pid, bootstrap, running.cluster_id, nodes, failures)


command(app, "requests", example="kcli broker requests --seconds 10")(broker_requests.requests)


def _no_node(data_dir: Path, nodes: Sequence[broker_node.NodeRow]) -> KcliError:
    """Return the error of a process that serves nothing."""
    hint = f"`kcli broker node start {nodes[0].node}` starts one" if nodes else None
    return ChecksFailed(f"no node of the broker in `{data_dir}` runs", hint=hint)
