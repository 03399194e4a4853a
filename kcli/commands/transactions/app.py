"""`kcli transactions`: list, describe and end transactions; the verbs in the order of the help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kcli.commands.shared.arguments import LARGEST_INT32, LARGEST_INT64
from kcli.commands.shared.options import ClusterAddress, OutputFormat
from kcli.commands.shared.output import print_result
from kcli.commands.shared.runner import command
from kcli.commands.transactions.options import (
    DEFAULT_TIMEOUT_MS,
    BrokerId,
    PartitionArgument,
    PartitionNumber,
    TimeoutMs,
    TopicName,
    app,
    complete_id,
    now_ms,
    one_partition,
)
from kcli.commands.transactions.results import (
    MINUTE_MS,
    WITHOUT_TRANSACTION,
    Aborted,
    Description,
    DescriptionRow,
    Hanging,
    HangingRow,
    Listing,
    Producers,
    Terminated,
)
from kcli.errors import ChecksFailed, KcliError, MissingArgument, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kcli.client.client import Client
    from kcli.protocol.topics import TopicPartition

STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    "PrepareEpochFence",
)
LARGEST_EPOCH = 32_767
DEFAULT_MAX_TIMEOUT_MIN = 15

ListedId = Annotated[
    str | None, typer.Argument(metavar="ID", help="The transactional id", autocompletion=complete_id)
]
ListedIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID...", help="The transactional ids", autocompletion=complete_id),
]
IdOption = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", metavar="ID", hidden=True, autocompletion=complete_id),
]


@command(app, "list", example="kcli transactions list --state ongoing --duration-filter 60000")
async def list_transactions(
    duration_filter: Annotated[
        int | None,
        typer.Option(metavar="MS", help="Only ids whose transaction began longer ago, and those without one"),
    ] = None,
    transactional_id_pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Only ids that a regular expression of RE2 matches as a whole"),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATES", help=f"Only ids in these states, separated by commas: {', '.join(STATES)}"
        ),
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option(min=0, metavar="ID", help="Only this producer id (repeatable)")
    ] = None,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    *,
    cluster: ClusterAddress,
) -> Listing:
    """List the transactional ids of a cluster; every broker is asked for those that it coordinates."""
    from kcli.client import admin
    from kcli.commands.shared.session import failure

    states = wanted_states(state)
    async with cluster.connect(timeout_ms=timeout_ms) as client:
        found = await admin.list_transactions(
            client,
            states=states,
            producer_ids=producer_id or (),
            duration_ms=duration_filter,
            pattern=transactional_id_pattern,
            timeout_ms=timeout_ms,
        )
    check_pattern(transactional_id_pattern, found.errors.values())
    failures = [
        failure(f"cannot list the transactions of broker {node_id}", error)
        for node_id, error in found.errors.items()
    ]
    return Listing(sorted(found.transactions), failures)


def check_pattern(pattern: str | None, errors: Iterable[KcliError]) -> None:
    """Raise `UsageError` with what is wrong with a pattern that brokers refuse, if kcli finds it, too."""
    from kcli.protocol.error_codes import ErrorCode
    from kcli.protocol.re2 import InvalidExpression, parse

    refused = ErrorCode.INVALID_REGULAR_EXPRESSION
    if pattern is None or all(getattr(error, "code", None) is not refused for error in errors):
        return
    try:
        parse(pattern)
    except InvalidExpression as error:
        piece = f" `{error.piece}`" if error.piece else ""
        raise UsageError(
            f"`--transactional-id-pattern` is not a valid regular expression: {error.description}{piece}"
        ) from error


def check_ids(names: Iterable[str]) -> None:
    """Raise `UsageError` for an empty transactional id."""
    if not all(names):
        raise UsageError("a transactional id cannot be empty")


def wanted_states(text: str | None) -> list[str]:
    """Return the states of a list with commas, as Kafka spells them; dashes may be left out or not."""
    spelled = {name.lower(): name for name in STATES}
    found = []
    for word in text.split(",") if text is not None else ():
        name = spelled.get(word.strip().lower().replace("-", ""))
        if name is None:
            raise UsageError(f"`--state` cannot be {word.strip()}", hint=", ".join(STATES))
        found.append(name)
    return found


@command(app, "describe", needs="ids", example="kcli transactions describe payments-1")
async def describe(
    ids: ListedIds = None,
    id_option: IdOption = None,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    *,
    cluster: ClusterAddress,
) -> Description:
    """Describe transactional ids: state, producer, and the partitions that wait for the end."""
    from kcli.client import admin
    from kcli.commands.shared.session import failure

    names = list(dict.fromkeys([*(ids or ()), *(id_option or ())]))
    if not names:
        raise MissingArgument("ID...")
    check_ids(names)
    async with cluster.connect(timeout_ms=timeout_ms) as client:
        found = await admin.describe_transactions(client, names, timeout_ms=timeout_ms)
    rows, failures, now = [], [], now_ms()
    for name, each in found.items():
        if isinstance(each, KcliError):
            failures.append(failure(f"cannot describe transactional id `{name}`", each))
        else:
            rows.append(DescriptionRow.of(each, now))
    return Description(rows, failures)


@command(app, "describe-producers", needs="target", example="kcli transactions describe-producers orders:0")
async def describe_producers(
    target: PartitionArgument = None,
    topic: TopicName = None,
    partition: PartitionNumber = None,
    broker_id: BrokerId = None,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    *,
    cluster: ClusterAddress,
) -> Producers:
    """Describe the producers that a partition knows: epoch, last record, and an open transaction."""
    from kcli.commands.transactions.lookup import known_producers

    wanted = one_partition(target, topic, partition)
    async with cluster.connect(timeout_ms=timeout_ms) as client:
        states = await known_producers(client, wanted, node_id=broker_id, timeout_ms=timeout_ms)
    return Producers(*wanted, states)


@command(app, "find-hanging", example="kcli transactions find-hanging --topic orders")
async def find_hanging(
    broker_id: BrokerId = None,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Search this topic")] = None,
    partition: Annotated[
        int | None,
        typer.Option(min=0, max=LARGEST_INT32, metavar="N", help="Search this partition of the topic"),
    ] = None,
    max_transaction_timeout: Annotated[
        int,
        typer.Option(
            min=0, metavar="MINUTES", help="The largest transaction timeout there is: what is younger may end"
        ),
    ] = DEFAULT_MAX_TIMEOUT_MIN,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    output: OutputFormat | None = None,
    *,
    cluster: ClusterAddress,
) -> Hanging:
    """Find transactions that partitions hold open although no coordinator is going to end them.

    They keep readers with `read_committed` from going on: `kcli transactions abort` ends them. The exit code
    is 3 if there is one.
    """
    from kcli.commands.transactions import lookup

    if topic is None and broker_id is None:
        raise UsageError("`--topic` or `--broker-id` is needed", hint="it says where to search")
    if partition is not None and topic is None:
        raise UsageError("`--partition` needs `--topic`")
    async with cluster.connect(timeout_ms=timeout_ms) as client:
        partitions = await lookup.partitions_to_search(
            client, topic=topic, number=partition, node_id=broker_id, timeout_ms=timeout_ms
        )
        found, failures = await lookup.open_transactions(
            client, partitions, node_id=broker_id, timeout_ms=timeout_ms
        )
        now = now_ms()
        old = [
            each for each in found if now - each.producer.last_timestamp > max_transaction_timeout * MINUTE_MS
        ]
        hanging = await lookup.hanging(client, old, timeout_ms=timeout_ms)
    note_younger(len(found) - len(old), max_transaction_timeout)
    result = Hanging([HangingRow.of(each, now) for each in hanging], failures)
    if not hanging or failures:
        return result
    print_result(result, output)
    raise typer.Exit(ChecksFailed.exit_code)


def note_younger(count: int, minutes: int) -> None:
    """Note that there are open transactions that may still end, and were not examined for that."""
    from kcli.commands.shared.formatting import counted
    from kcli.commands.shared.output import note

    if count:
        told = counted(count, "open transaction"), "is" if count == 1 else "are", counted(minutes, "minute")
        rest = f"`--max-transaction-timeout 0` examines {'it' if count == 1 else 'them'}, too"
        note(f"{told[0]} {told[1]} younger than {told[2]}: {rest}")


@command(app, "abort", needs="target", example="kcli transactions abort orders:0 --start-offset 1042")
async def abort(
    target: PartitionArgument = None,
    topic: TopicName = None,
    partition: PartitionNumber = None,
    start_offset: Annotated[
        int | None,
        typer.Option(
            min=0, max=LARGEST_INT64, metavar="OFFSET", help="The first offset of the transaction to abort"
        ),
    ] = None,
    producer_id: Annotated[
        int | None,
        typer.Option(min=0, max=LARGEST_INT64, metavar="ID", help="Its producer, for brokers before 3.0"),
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option(min=0, max=LARGEST_EPOCH, metavar="N", help="The epoch of the producer")
    ] = None,
    coordinator_epoch: Annotated[
        int | None,
        typer.Option(max=LARGEST_INT32, metavar="N", help="The epoch of the coordinator; below 0 means 0"),
    ] = None,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    *,
    cluster: ClusterAddress,
) -> Aborted:
    """Abort a hanging transaction in one partition, at its leader: no coordinator is asked.

    `find-hanging` names them. A transaction that its coordinator still knows is ended with
    `force-terminate` instead.
    """
    wanted = one_partition(target, topic, partition)
    owner = (producer_id, producer_epoch, coordinator_epoch)
    if start_offset is not None and owner != (None, None, None):
        raise UsageError("`--start-offset` excludes `--producer-id` and the epochs")
    if start_offset is None and None in owner:
        raise UsageError(
            "`--start-offset` is needed, or `--producer-id`, `--producer-epoch` and `--coordinator-epoch`",
            hint="`kcli transactions describe-producers TOPIC:PARTITION` shows them",
        )
    async with cluster.connect(timeout_ms=timeout_ms) as client:
        chosen = owner if start_offset is None else await owner_of(client, wanted, start_offset, timeout_ms)
        return await abort_one(client, wanted, chosen, timeout_ms)


async def owner_of(
    client: Client, partition: TopicPartition, start_offset: int, timeout_ms: int
) -> tuple[int, int, int]:
    """Return producer id and epochs of the transaction that begins at an offset; raise `KcliError`."""
    from kcli.commands.transactions.lookup import known_producers

    for each in await known_producers(client, partition, timeout_ms=timeout_ms):
        if each.start_offset == start_offset:
            return each.producer_id, each.producer_epoch, each.coordinator_epoch
    raise KcliError(
        f"no transaction that is open in {partition} begins at offset {start_offset}",
        hint=f"`kcli transactions describe-producers {partition.topic}:{partition.partition}` shows them",
    )


async def abort_one(
    client: Client, partition: TopicPartition, owner: Sequence[int | None], timeout_ms: int
) -> Aborted:
    from kcli.client import admin
    from kcli.commands.shared.output import note
    from kcli.commands.shared.session import failure
    from kcli.commands.transactions.lookup import check_partition

    # -1: the producer's first transaction hangs. No leader has an epoch below 0.
    producer_id, producer_epoch, coordinator_epoch = (max(each or 0, 0) for each in owner)
    try:
        await admin.abort_transaction(
            client,
            partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timeout_ms=timeout_ms,
        )
    except KcliError as error:
        await check_partition(client, partition, error, timeout_ms=timeout_ms)
        attempt = f"cannot abort the transaction of producer {producer_id} in {partition}"
        raise failure(attempt, error) from error
    note(f"aborted the transaction of producer {producer_id} in {partition}")
    return Aborted(*partition, producer_id, producer_epoch, coordinator_epoch)


@command(app, "force-terminate", needs="id", example="kcli transactions force-terminate payments-1")
async def force_terminate(
    id: ListedId = None,
    id_option: IdOption = None,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    *,
    cluster: ClusterAddress,
) -> Terminated:
    """Abort the transaction of a transactional id, and fence its producer.

    A producer that is alive fails with PRODUCER_FENCED; a new one with the same id goes on.
    """
    from kcli.client import admin
    from kcli.client.producer.transaction_states import markers_hint
    from kcli.commands.shared.output import note
    from kcli.commands.shared.session import failure
    from kcli.protocol.error_codes import ErrorCode

    names = [*([id] if id is not None else ()), *(id_option or ())]
    if not names:
        raise MissingArgument("ID")
    if len(names) > 1:
        raise UsageError("`ID` and `--transactional-id` name one id")
    check_ids(names)
    name = names[0]
    async with cluster.connect(timeout_ms=timeout_ms) as client:
        try:
            # A coordinator would make an id that it does not know.
            known = (await admin.describe_transactions(client, [name], timeout_ms=timeout_ms))[name]
            if isinstance(known, KcliError):
                raise known
            owner = await admin.force_terminate_transaction(client, name, timeout_ms=timeout_ms)
        except KcliError as error:
            is_ending = getattr(error, "code", None) is ErrorCode.CONCURRENT_TRANSACTIONS
            hint = markers_hint(name) if is_ending else None
            raise failure(f"cannot terminate the transaction of `{name}`", error, hint=hint) from error
    if known.state in WITHOUT_TRANSACTION:
        outcome = f"`{name}` had no open transaction ({known.state})"
    elif known.state == "Ongoing":
        outcome = f"aborted the transaction of `{name}`"
    else:
        outcome = f"the transaction of `{name}` was being ended already ({known.state}), and has ended"
    note(f"{outcome}: its producer is fenced")
    return Terminated(name, *owner)


VERBS = ["list", "describe", "describe-producers", "find-hanging", "abort", "force-terminate"]

app.registered_commands.sort(key=lambda verb: VERBS.index(verb.name or ""))
