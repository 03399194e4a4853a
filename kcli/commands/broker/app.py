"""`kcli broker`: starts and stops a development broker, and shows whether it runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from kcli.commands.broker import compact as broker_compact
from kcli.commands.broker import fault as broker_fault
from kcli.commands.broker import node as broker_node
from kcli.commands.broker import requests as broker_requests
from kcli.commands.broker.node import DEFAULT_DATA_DIR, DataDir
from kcli.commands.broker.start import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    MOST_NODES,
    MOST_PORT,
    OPTIONAL_VALUES,
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

ConfigFile = Annotated[Path | None, typer.Option(metavar="FILE", help="A server.properties file")]
Override = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="A broker property; overrides the file (repeatable); durations and sizes may have units: "
        "7d, 64MiB",
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST_NODES,
        metavar="N",
        help="How many nodes to start; by default the nodes of the data directory, or 1",
    ),
]
Racks = Annotated[
    str | None, typer.Option(metavar="NAME,...", help="Racks of the nodes; reused in turn if there are fewer")
]
Host = Annotated[
    str | None,
    typer.Option(metavar="HOST", help=f"Address to listen on and to advertise, by default {DEFAULT_HOST}"),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=MOST_PORT,
        metavar="N",
        help=f"Port of the first node, by default {DEFAULT_PORT}; the others follow. 0: any free port",
    ),
]
Ephemeral = Annotated[
    bool,
    typer.Option(
        "--ephemeral",
        help="Keep the data in a temporary directory, removed at the end; with --daemon this is --data-dir, "
        "which must be empty",
    ),
]
Adopt = Annotated[
    bool, typer.Option("--adopt", help="Serve topic directories of another broker under their own ids")
]
Durable = Annotated[
    bool,
    typer.Option(
        "--durable",
        help="Sync records and commits to disk before they are acknowledged; log.flush.interval.messages=1",
    ),
]
Acls = Annotated[
    bool,
    typer.Option(
        "--acls",
        help="Deny what no access control entry allows; User:admin may do everything; "
        "authorizer.class.name=standard",
    ),
]
Tls = Annotated[
    str | None,
    typer.Option(
        metavar="auto|FILE.pem",
        help="Listen with TLS: `auto` makes an authority, a key and client.properties in <data-dir>/tls; a "
        "file has a private key and its certificates",
    ),
]
ClientAuth = Annotated[
    str | None,
    typer.Option(
        metavar="none|requested|required",
        help="Whether clients of TLS listeners show a certificate, as `kcli tls client-cert` makes them; "
        "ssl.client.auth",
    ),
]
Sasl = Annotated[
    str | None,
    typer.Option(
        metavar="[MECHANISM,...]",
        help="Have clients log in, at listeners with SASL_PLAINTEXT (with --tls SASL_SSL) unless "
        "`listeners` names others; sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    ),
]
Users = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PASSWORD",
        help="A user who may log in (repeatable), with `,mechanism=NAME` only by that; @FILE "
        "has one a line; others are in KCLI_USERS, with blanks between",
    ),
]
JaasConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="A JAAS file with the section KafkaServer, by default that of KCLI_JAAS_CONFIG"
    ),
]
Daemon = Annotated[
    bool, typer.Option("--daemon", help="Return when the broker is ready, and leave it running")
]
ScenarioFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A YAML file of events to run when the cluster is ready")
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait for the broker to stop")
]


class FileDescriptors(NamedTuple):
    """A process has these: `reserve` are kept for files; `accepting_stopped` counts waits of clients."""

    limit: int
    reserve: int
    open: int
    accepting_stopped: int

    def line(self) -> str:
        times = "once" if self.accepting_stopped == 1 else f"{self.accepting_stopped:,} times"
        return (
            f"file descriptors: {self.open:,} of {self.limit:,} open; "
            f"connections had to wait {times}, because {self.reserve:,} are kept for files"
        )


RECORD_WALKS = {
    "compiled": "compiled",
    "outdated": "compiled, compaction in Python (slower: reinstall kcli with a C compiler)",
    "python": "in Python (slower: reinstall kcli with a C compiler)",
}


class BrokerStatus(NamedTuple):
    """The process of a data directory; if no node runs, `bootstrap_servers` are their last addresses.

    `record_walk` tells whether the optional extension module checks produced records: "compiled", "python",
    or "outdated" for a module of a former version, which leaves compaction to Python. `client_properties` is
    the file for clients of `broker start --tls auto`.
    """

    running: bool
    data_dir: str
    pid: int | None = None
    bootstrap_servers: str | None = None
    cluster_id: str | None = None
    nodes: tuple[broker_node.NodeRow, ...] = ()
    record_walk: str | None = None
    file_descriptors: FileDescriptors | None = None
    client_properties: str | None = None
    failures: tuple[KcliError, ...] = ()

    def lines(self) -> list[str]:
        """Return one line, and one for each node unless there is only one, which runs."""
        if not self.running:
            return [f"not running: {self.data_dir}"]
        where = f"{self.bootstrap_servers} cluster {self.cluster_id} data {self.data_dir} pid {self.pid}"
        if self.record_walk is not None:
            where += f" record checks {RECORD_WALKS.get(self.record_walk, self.record_walk)}"
        if self.client_properties is not None:
            where += f" client properties {self.client_properties}"
        is_plain = len(self.nodes) < 2 and all(node.state == "running" for node in self.nodes)
        if is_plain and self.nodes and (listeners := self.nodes[0].secured_listeners):
            where += f" listeners {','.join(listeners)}"
        state = "running" if any(node.state != "dead" for node in self.nodes) else "running without a node"
        lines = [f"{state}: {where}", *(() if is_plain else (node.line() for node in self.nodes))]
        if self.file_descriptors is not None and self.file_descriptors.accepting_stopped:
            lines.append(self.file_descriptors.line())
        return lines


class BrokerStopped(NamedTuple):
    stopped: bool
    data_dir: str
    pid: int

    def lines(self) -> list[str]:
        return []


@command(
    app,
    "start",
    example="kcli broker start --port 9092 --override num.partitions=3",
    optional_values=OPTIONAL_VALUES,
)
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
    durable: Durable = False,
    acls: Acls = False,
    tls: Tls = None,
    client_auth: ClientAuth = None,
    sasl: Sasl = None,
    user: Users = None,
    jaas_config: JaasConfig = None,
    scenario: ScenarioFile = None,
    daemon: Daemon = False,
    verbose: bool = False,
    output: OutputFormat | None = None,
) -> Awaitable[None] | None:
    """Start a broker and serve until it is interrupted.

    One line on standard output tells its addresses when it is ready; with `-o json` the line has the fields
    of `kcli broker status -o json`. Ctrl-C, SIGTERM or the end of its terminal (SIGHUP) stops it in order. A
    second signal ends it at once, unless it comes within half a second, because some programs send it twice.

    A scenario lists steps under `steps:`. Each has `at:` (seconds after the start) or `after:` (seconds after
    the last step), `do:`, and the fields of that action: kill, stop, start, pause, resume (`node:`),
    move-leader (`topic:`, `partition:`, `to:`), move-coordinator (`group:`, `to:`), move-controller (`to:`),
    clear, or a fault with the options of `kcli broker fault add` and optionally `for:` (seconds).
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
            durable=durable,
            acls=acls,
            tls=tls,
            client_auth=client_auth,
            sasl=sasl,
            user=tuple(user or ()),
            jaas_config=jaas_config,
            scenario=scenario,
            daemon=daemon,
            verbose=verbose,
            as_json=output is OutputFormat.JSON,
        )
    )


@command(app, "stop", example="kcli broker stop --data-dir kcli-data")
async def stop(*, data_dir: DataDir = DEFAULT_DATA_DIR, timeout_seconds: Timeout = 60.0) -> BrokerStopped:
    """Stop the broker of a data directory in order, and wait for its end.

    It prints something only with `-o json`.
    """
    import trio

    from kcli.broker.process.pid_file import PidFile

    pid_file = PidFile(data_dir.absolute())
    running = pid_file.read()
    if running is None:
        raise KcliError(f"no broker runs in `{data_dir}`", hint="name its directory with `--data-dir`")
    stopped = BrokerStopped(True, str(data_dir.absolute()), running.pid)
    refuse_stopped(running.pid)  # It would stop only when it is resumed.
    try:
        os.kill(running.pid, signal.SIGTERM)
    except ProcessLookupError:
        return stopped
    except PermissionError as error:
        raise KcliError(
            f"not allowed to stop process {running.pid}", hint="another user started it"
        ) from error
    with trio.move_on_after(timeout_seconds):
        while pid_file.read() is not None:  # the other process cannot set an event
            await trio.sleep(0.05)
            refuse_stopped(running.pid)
        return stopped
    raise KcliError(
        f"the broker is still stopping after {timeout_seconds:g} s: process {running.pid}",
        hint="wait longer with `--timeout`, or end it with a second signal",
    )


@command(app, "status", example="kcli broker status -o json")
def status(*, data_dir: DataDir = DEFAULT_DATA_DIR) -> BrokerStatus:
    """Show whether a broker serves a data directory, and the states of its nodes; exit 3 if none runs.

    The addresses are those of the running nodes, or of all nodes if none runs, which is exit 3 too. A line
    about file descriptors tells whether connections had to wait for some to be free.
    """
    from kcli.broker.process.pid_file import PidFile

    directory = str(data_dir.absolute())
    running = PidFile(data_dir.absolute()).read()
    if running is None:
        return BrokerStatus(False, directory, failures=(ChecksFailed(f"no broker runs in `{data_dir}`"),))
    nodes = broker_node.nodes_of(data_dir).nodes
    # The pid file has the nodes at the start of the process, without later changes.
    alive = [node for node in nodes if node.state != "dead"]
    bootstrap = ",".join(node.address() for node in alive or nodes if node.host is not None)
    hint = f"`kcli broker node start {nodes[0].node}` starts one" if nodes else None
    dead = ChecksFailed(f"no node of the broker in `{data_dir}` runs", hint=hint)
    failures = () if alive else (dead,)
    counts = broker_node.ask_process(
        data_dir, "process.file-descriptors", timeout_seconds=broker_node.ANSWER_SECONDS
    )
    return BrokerStatus(
        True,
        directory,
        running.pid,
        bootstrap,
        running.cluster_id,
        nodes,
        running.record_walk,
        FileDescriptors(**counts),
        running.client_properties,
        failures,
    )


command(app, "requests", example="kcli broker requests --seconds 10")(broker_requests.requests)
command(app, "compact", example="kcli broker compact orders --dry-run")(broker_compact.compact)
