"""`kcli spark-import`: the records of an export, back in a topic."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.commands.shared.options import BootstrapServer, CommandConfig, Property, complete_topic
from kcli.commands.shared.runner import command
from kcli.errors import KcliError, MissingArgument, UsageError, install_hint

if TYPE_CHECKING:
    from kcli.client.config import ProducerConfig

app = typer.Typer(rich_markup_mode=None)

DEFAULTS = {
    "client.id": "kcli-spark-import",
    "compression.type": "zstd",
    "batch.size": "262144",
    "linger.ms": "20",
    # How large a record may be is for the broker to say.
    "max.request.size": str(2**31 - 1),
    "buffer.memory": str(64 * 1024 * 1024),
}


@command(app, "spark-import", example="kcli spark-import orders.parquet --topic orders-again")
async def spark_import(
    directory: Annotated[
        str,
        typer.Argument(metavar="DIR|URI", help="What `kcli spark-export --to` wrote to", show_default=False),
    ],
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="The topic to write to",
            autocompletion=complete_topic,
            show_default=False,
        ),
    ] = None,
    source_topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC", help="Which topic of the export, if it holds several", show_default=False
        ),
    ] = None,
    create: Annotated[
        bool,
        typer.Option(
            "--create/--no-create",
            help="Make a topic that does not exist, with as many partitions as it takes, keeping everything",
        ),
    ] = True,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Import everything again, behind what the topic holds"),
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where to remember how far it came  [default: in DIR/_kcli/import]"
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be imported, and write nothing")
    ] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    command_property: Property = None,
) -> object:
    """Bring the records of an export back to a topic, each once.

    Keys, values, headers and timestamps are those that were exported, in the same
    partitions and the same order; offsets are new ones. It can be interrupted, or
    killed, at any time: the same command goes on behind the last record that arrived.
    After another export it imports what is new.

    \b
    Nobody else may write to the topic meanwhile. How far an import came is
    where the topic's partitions end now, less where they ended before, which
    DIR/_kcli/import remembers; the last record is compared too.

    \b
    Values that were exported as string, int, long, double, or as json without
    a schema, become the bytes they were. Those of json with a schema and of
    avro cannot: export them as binary.
    """
    from kcli.commands.export.import_actions import ImportChoice, import_stored, read_stored
    from kcli.commands.shared.session import client_properties, connect_with, connecting_ms

    if not topic:
        raise MissingArgument("--topic", what="option")
    if find_spec("pyarrow") is None:
        raise KcliError("`spark-import` needs pyarrow", hint=install_hint("spark"))
    from kcli.spark.export.target.object_target import open_target

    properties = DEFAULTS | client_properties(command_config, command_property)
    config = producer_config(properties)
    choice = ImportChoice(directory, topic, source_topic, state, restart, create, dry_run)
    target = open_target(directory)
    stored = read_stored(target, choice)
    timeout_ms = connecting_ms(config.max_block_ms)
    async with connect_with(bootstrap_server, properties, timeout_ms=timeout_ms) as client:
        return await import_stored(client, target, stored, choice, config)


def producer_config(properties: dict[str, str]) -> ProducerConfig:
    """Return how records are sent; only an idempotent producer leaves no holes and writes nothing twice."""
    from kcli.client.config import ProducerConfig

    config = ProducerConfig.from_properties(properties)
    if not config.is_idempotent:
        raise UsageError("an import needs an idempotent producer", hint="leave `acks` and `retries` alone")
    return config
