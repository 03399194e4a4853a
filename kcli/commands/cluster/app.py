"""`kcli cluster`: the cluster's id, its nodes, the APIs that they serve, and the removal of lost nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.shared.arguments import LARGEST_INT32
from kcli.commands.shared.options import ClusterAddress
from kcli.commands.shared.output import Table
from kcli.commands.shared.runner import command
from kcli.errors import KcliError, MissingArgument, UsageError

if TYPE_CHECKING:
    from kcli.client.admin import ClusterDescription

app = typer.Typer(
    name="cluster",
    help="Show the cluster's id, its nodes and the APIs they speak; forget lost nodes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class ClusterId(NamedTuple):
    cluster_id: str | None

    def lines(self) -> Sequence[str]:
        return [f"Cluster ID: {self.cluster_id}"]


class NodeRow(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool
    is_controller: bool

    def address(self) -> str:
        """Return the broker as Kafka's tools print it."""
        rack = "null" if self.rack is None else self.rack
        fenced = str(self.is_fenced).lower()
        return f"{self.host}:{self.port} (id: {self.node_id} rack: {rack} isFenced: {fenced})"


class Nodes(NamedTuple):
    cluster_id: str | None
    nodes: Sequence[NodeRow]

    def lines(self) -> Iterator[str]:
        return (node.address() for node in self.nodes)

    def tables(self) -> Iterator[Table]:
        rows = [
            (node.node_id, node.host, node.port, node.rack, node.is_fenced, node.is_controller)
            for node in self.nodes
        ]
        yield Table(("Id", "Host", "Port", "Rack", "Fenced", "Controller"), rows)


class Unregistered(NamedTuple):
    broker: int

    def lines(self) -> Sequence[str]:
        return [f"Broker {self.broker} is no longer registered."]


class ApiRange(NamedTuple):
    """The versions of one API that a broker serves."""

    key: int
    name: str | None
    min_version: int
    max_version: int


class NodeApis(NamedTuple):
    node: NodeRow
    apis: Sequence[ApiRange]


def _range_text(advertised: ApiRange) -> str:
    """Return one advertised range as Kafka's tool prints it: `Fetch(1): 4 to 18 [usable: 18]`."""
    from kcli.protocol.apis import APIS

    key, low, high = advertised.key, advertised.min_version, advertised.max_version
    versions = f"{low}" if low == high else f"{low} to {high}"
    api = APIS.get(key)
    if api is None or api.java is None:
        return f"UNKNOWN({key}): {versions}"
    oldest, newest = api.java
    if newest < low:
        verdict = "unusable: node too new"
    elif high < oldest:
        verdict = "unusable: node too old"
    else:
        verdict = f"usable: {min(newest, high)}"
    return f"{api.name}({key}): {versions} [{verdict}]"


class ApiVersions(NamedTuple):
    nodes: Sequence[NodeApis]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return the lines of `kafka-broker-api-versions`."""
        from kcli.protocol.apis import APIS

        for node, apis in self.nodes:
            texts = {api.key: _range_text(api) for api in apis}
            for key, api in APIS.items():
                if api.java is not None:
                    texts.setdefault(key, f"{api.name}({key}): UNSUPPORTED")
            yield f"{node.address()} -> ("
            *most, last = (texts[key] for key in sorted(texts))
            yield from (f"\t{text}," for text in most)
            yield f"\t{last}"
            yield ")"

    def tables(self) -> Iterator[Table]:
        for node, apis in self.nodes:
            rows = [(api.key, api.name, api.min_version, api.max_version) for api in apis]
            yield Table(("Key", "API", "From", "To"), rows, node.address())


@command(app, "id", example="kcli cluster id")
async def cluster_id(*, cluster: ClusterAddress) -> ClusterId:
    """Print the cluster's id."""
    from kcli.client import admin

    async with cluster.connect() as client:
        return ClusterId((await admin.describe_cluster(client)).cluster_id)


@command(app, "nodes", example="kcli cluster nodes --output json")
async def nodes(
    include_fenced: Annotated[
        bool,
        typer.Option("--include-fenced-brokers", help="Also list brokers that are registered but fenced"),
    ] = False,
    *,
    cluster: ClusterAddress,
) -> Nodes:
    """List the brokers, and mark the controller."""
    from kcli.client import admin

    async with cluster.connect() as client:
        description = await admin.describe_cluster(client, include_fenced=include_fenced)
    controller_id = description.controller_id
    rows = [
        NodeRow(each.node_id, each.host, each.port, each.rack, each.is_fenced, each.node_id == controller_id)
        for each in description.nodes
    ]
    return Nodes(description.cluster_id, rows)


@command(app, "unregister", needs="broker", example="kcli cluster unregister 4")
async def unregister(
    broker: Annotated[
        int | None,
        typer.Argument(metavar="ID", min=0, max=LARGEST_INT32, help="The broker's id", show_default=False),
    ] = None,
    broker_option: Annotated[
        int | None, typer.Option("--id", "-i", min=0, max=LARGEST_INT32, metavar="ID", hidden=True)
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also a running broker, which Apache Kafka allows: clients lose it until its next start",
        ),
    ] = False,
    *,
    cluster: ClusterAddress,
) -> Unregistered:
    """Remove a broker that will not come back from the cluster.

    Move its replicas first, with `kcli reassign-partitions generate --drain`. A running broker is refused: it
    would lead nothing, and clients would not learn of it until its next start. A broker of kcli refuses that
    itself, whoever asks: `kcli broker node remove` stops a node and unregisters it.
    """
    from kcli.client import admin
    from kcli.commands.shared.session import failure
    from kcli.protocol.error_codes import KafkaError

    given = [each for each in (broker, broker_option) if each is not None]
    if not given:
        raise MissingArgument("ID")
    if len(given) > 1:
        raise UsageError("one broker at a time: its id, or `--id`")
    [node_id] = given
    async with cluster.connect() as client:
        if not force:
            refuse_if_running(node_id, await admin.describe_cluster(client))
        try:
            await admin.unregister_broker(client, node_id)
        except KafkaError as error:
            raise failure(f"cannot unregister broker {node_id}", error) from error
    return Unregistered(node_id)


def refuse_if_running(node_id: int, cluster: ClusterDescription) -> None:
    """Raise for a broker that serves clients. Kafka's tool unregisters even the only one."""
    running = [node.node_id for node in cluster.nodes if not node.is_fenced]
    if node_id not in running:
        return
    if running == [node_id]:
        raise KcliError(
            f"cannot unregister broker {node_id}: it is the only broker that runs",
            hint="it is the whole cluster: `kcli broker stop` stops a broker of kcli",
        )
    raise KcliError(
        f"cannot unregister broker {node_id}: it is running",
        hint=f"stop it first (`kcli broker node remove {node_id}`); Apache Kafka allows `--force`",
    )


@command(app, "api-versions", example="kcli cluster api-versions")
async def api_versions(*, cluster: ClusterAddress) -> ApiVersions:
    """Show the versions of each API that each broker speaks."""
    from kcli.client import admin
    from kcli.commands.shared.session import failure

    async with cluster.connect() as client:
        controller_id = (await admin.describe_cluster(client)).controller_id
        answers = await admin.api_versions(client)
    found, failures = [], []
    for node_id, answer in answers.items():
        if isinstance(answer, KcliError):
            failures.append(failure(f"cannot ask broker {node_id}", answer))
            continue
        node = answer.node
        is_controller = node.node_id == controller_id
        row = NodeRow(node.node_id, node.host, node.port, node.rack, False, is_controller)
        apis = [ApiRange(api.api_key, api.name, api.min_version, api.max_version) for api in answer.apis]
        found.append(NodeApis(row, apis))
    return ApiVersions(found, failures)
