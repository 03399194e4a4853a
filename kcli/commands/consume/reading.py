"""What `consume` reads, from where to where, alone or as a member of a group.

Without a group, it also reads partitions that appear meanwhile: in existing topics, or in new topics that
match. They begin at their first record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import trio
import typer

from kcli.client.consumer.consumer import Consumer
from kcli.client.groups.rebalance_listener import RebalanceListener
from kcli.commands.shared.arguments import LARGEST_INT64, whole_number
from kcli.errors import Interrupted, KcliError, UsageError
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.network.metadata import ClusterMetadata
    from kcli.commands.consume.formatters import Format
    from kcli.commands.consume.record_printer import Limits, RecordPrinter


LEAST_BEGINNING_SECONDS = 1.0
"""Finding the begin and end offsets may take this long even if a shorter silence ends the reading."""

OFFSET_WORDS = {"earliest": -2, "latest": -1}


class Choice(NamedTuple):
    topic: str | None = None
    include: str | None = None
    partitions: frozenset[int] | None = None
    exclude_internal: bool = True

    def check(self) -> None:
        """Raise `UsageError` for an empty or contradictory choice."""
        if (self.topic is None) == (self.include is None):
            raise UsageError("exactly one of `TOPIC` and `--include` must be given")
        if self.partitions is not None and self.topic is None:
            raise UsageError("`--partition` needs `TOPIC`")

    def accepts(self, topic: str) -> bool:
        from kcli.commands.shared.topic_filter import select_topics

        if self.topic is not None:
            return topic == self.topic
        return bool(select_topics([topic], self.include, exclude_internal=self.exclude_internal))


class Start(NamedTuple):
    """Where to begin: at most one of the first three, else `auto.offset.reset`."""

    offset: int | None = None
    from_beginning: bool = False
    time_ms: int | None = None
    reset: str | None = None

    def reset_strategy(self) -> str:
        """Return the `auto.offset.reset` to use for partitions without another begin."""
        if (self.offset is not None) + self.from_beginning + (self.time_ms is not None) > 1:
            raise UsageError("`--offset`, `--from-beginning` and `--from-time` exclude each other")
        if self.from_beginning and self.reset not in (None, "earliest"):
            raise UsageError(f"`--from-beginning` contradicts `auto.offset.reset`: {self.reset}")
        if self.from_beginning or self.offset == OFFSET_WORDS["earliest"]:
            return "earliest"
        return self.reset or "latest"


class End(NamedTuple):
    """Where to end: at the first bound that is reached."""

    max_messages: int | None = None
    timeout_ms: int | None = None
    time_ms: int | None = None
    now: bool = False


class Reading(NamedTuple):
    choice: Choice
    start: Start
    end: End


def parse_offset(text: str) -> int:
    """Return an offset; `earliest` and `latest` are ListOffsets' negative timestamps."""
    offset = OFFSET_WORDS.get(text.lower())
    if offset is None:
        offset = whole_number(text, LARGEST_INT64)
    if offset is None:
        raise UsageError(f"`--offset` cannot be {text}", hint="a number, earliest or latest")
    return offset


async def refuse_denied(client: Client, topic: str) -> None:
    """Raise `KafkaError` for a topic that the user may not read: the list of all topics hides it."""
    from kcli.client.denials import Wanted
    from kcli.commands.shared.session import tell_denial
    from kcli.protocol.error_codes import ErrorCode, KafkaError
    from kcli.security.acl import Operation, ResourceType

    code = (await client.metadata({topic})).errors.get(topic)
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        error = KafkaError(code)
        tell_denial(error, [Wanted(ResourceType.TOPIC, Operation.READ, topic)])
        raise error


async def chosen_partitions(client: Client, choice: Choice) -> list[TopicPartition]:
    """Return the chosen partitions; raise `KcliError` if one or all of them do not exist."""
    from kcli.client import admin
    from kcli.commands.shared.topic_filter import select_topics

    counts = {listing.name: listing.partition_count for listing in await admin.list_topics(client)}
    if choice.topic is not None:
        names = [choice.topic] if choice.topic in counts else []
    else:
        names = select_topics(counts, choice.include, exclude_internal=choice.exclude_internal)
    if not names and choice.topic is not None:
        await refuse_denied(client, choice.topic)
    if not names:
        what = (
            f"topic `{choice.topic}` does not exist" if choice.topic else f"no topic matches {choice.include}"
        )
        raise KcliError(what, hint="`kcli topics list` shows the topics there are")
    for missing in sorted((choice.partitions or frozenset()) - set(range(counts[names[0]]))):
        raise KcliError(
            f"topic `{names[0]}` has no partition {missing}, it has {counts[names[0]]}",
            hint="the first is partition 0",
        )
    return [
        admin.TopicPartition(name, partition)
        for name in names
        for partition in range(counts[name])
        if choice.partitions is None or partition in choice.partitions
    ]


async def begin(consumer: Consumer, partitions: Iterable[TopicPartition], start: Start) -> None:
    """Assign partitions and seek to the begin of each."""
    partitions = list(partitions)
    consumer.assign(partitions)
    if start.offset is not None and start.offset >= 0:
        for partition in partitions:
            consumer.seek(partition, start.offset)
    if start.time_ms is not None:
        at_time = await consumer.offsets_for_times(dict.fromkeys(partitions, start.time_ms))
        for partition, found in at_time.items():
            if found is None:
                consumer.seek_to_end(partition)
            else:
                consumer.seek(partition, found.offset)


async def end_offsets(
    consumer: Consumer, partitions: Iterable[TopicPartition], end: End
) -> dict[TopicPartition, int] | None:
    """Return the end offset of each partition, None without such a bound."""
    if not end.now and end.time_ms is None:
        return None
    partitions = list(partitions)
    ends = await consumer.end_offsets(partitions)
    if end.time_ms is None:
        return ends
    at_time = await consumer.offsets_for_times(dict.fromkeys(partitions, end.time_ms))
    return {
        partition: last if (found := at_time[partition]) is None else min(last, found.offset)
        for partition, last in ends.items()
    }


async def ends_in_time(
    consumer: Consumer, partitions: Sequence[TopicPartition], end: End
) -> dict[TopicPartition, int] | None:
    """Return the end offsets of partitions of a group; after a timeout nothing is read of them."""
    with trio.move_on_after(beginning_seconds(end)):
        return await end_offsets(consumer, partitions, end)
    warn_of_beginning(consumer)
    return dict.fromkeys(partitions, 0)


def beginning_seconds(end: End) -> float:
    from kcli.commands.consume.record_printer import trio_seconds

    return max(trio_seconds(end.timeout_ms), LEAST_BEGINNING_SECONDS)


def warn_of_beginning(consumer: Consumer) -> None:
    from kcli.commands.shared.output import warn

    warn(f"nothing is read: the begin or end offsets are unknown: {consumer.last_retry_error or 'no answer'}")


async def begin_reading(
    client: Client, consumer: Consumer, reading: Reading, note: Callable[[str], None]
) -> Limits:
    """Begin to read, as a member if there is a group; return where to stop.

    Finding the begin and end offsets takes no longer than the silence that ends the reading.
    """
    from kcli.commands.consume.record_printer import Limits
    from kcli.commands.shared.session import hinted

    with hinted(), trio.move_on_after(beginning_seconds(reading.end)):
        if consumer.config.group_id:
            return await join(client, consumer, reading, note)
        return await assign(client, consumer, reading)
    warn_of_beginning(consumer)
    return Limits(max_messages=0)


async def join(client: Client, consumer: Consumer, reading: Reading, note: Callable[[str], None]) -> Limits:
    from kcli.commands.consume.record_printer import Limits
    from kcli.commands.shared.topic_filter import topic_pattern

    choice, end = reading.choice, reading.end
    if choice.topic is not None:
        await chosen_partitions(client, choice)  # it raises for a topic that does not exist
    is_bounded = end.now or end.time_ms is not None
    listener = GroupReading(
        consumer, (lambda added: ends_in_time(consumer, added, end)) if is_bounded else None, note
    )
    topics = [choice.topic] if choice.topic is not None else topic_pattern(choice.include or "")
    consumer.subscribe(topics, listener)
    return Limits(end.max_messages, end.timeout_ms, listener.ends if is_bounded else None)


async def assign(client: Client, consumer: Consumer, reading: Reading) -> Limits:
    from kcli.commands.consume.record_printer import Limits

    choice, start, end = reading
    partitions = await chosen_partitions(client, choice)
    ends = await end_offsets(consumer, partitions, end)
    if ends is None or start.offset is None:
        await begin(consumer, partitions, start)
    else:
        warn_of_ends(ends if end.time_ms is None else await consumer.end_offsets(partitions), start.offset)
        await begin(consumer, partitions, start)
        # Pause before the first fetch: it would reset a position beyond the end of the log.
        consumer.pause(*(partition for partition, last in ends.items() if start.offset >= last))
    return Limits(end.max_messages, end.timeout_ms, ends)


def warn_of_ends(ends: Mapping[TopicPartition, int], offset: int) -> None:
    """Warn of partitions that end before the first offset to read."""
    from kcli.commands.shared.output import warn

    for partition, last in ends.items():
        if offset > last:
            warn(
                f"{partition}: offset {offset} is beyond the end ({last}): nothing is read, "
                "and the position is not reset"
            )


def following_new(
    client: Client, consumer: Consumer, choice: Choice, limits: Limits
) -> AbstractContextManager[None]:
    """Return a context in which new partitions are read, unless a group does that or a bound forbids it."""
    if consumer.config.group_id or choice.partitions is not None or limits.end_offsets is not None:
        return nullcontext()
    return following(client, consumer, choice.accepts, all_topics=choice.topic is None)


async def print_to_the_end(printer: RecordPrinter) -> None:
    """Print until a limit is reached; after an error, note how many records were printed."""
    from kcli.commands.shared.output import note
    from kcli.commands.shared.session import hinted

    try:
        with hinted():
            await printer.run()
    except KcliError:
        note(f"Processed a total of {printer.count} messages")
        raise


async def print_records(
    client: Client,
    config: ConsumerConfig,
    reading: Reading,
    *,
    format_record: Format,
    skip_errors: bool,
    verbose: bool,
) -> None:
    """Print the records of a reading, and note on stderr how many they were."""
    from kcli.client.consumer.consumer import Consumer
    from kcli.commands.consume.record_output import record_output
    from kcli.commands.consume.record_printer import RecordPrinter
    from kcli.commands.shared.interrupts import ending_with_reader, interruptible
    from kcli.commands.shared.output import note, warn

    printer = None
    read: set[TopicPartition] = set()
    tell = note if verbose else lambda line: None
    async with record_output() as output, interruptible(hurry=output.give_up) as scope:
        with scope:
            # Ctrl-C ends the reader too: then the interrupt must win over the broken pipe.
            async with (
                ending_with_reader(),
                Consumer(client, config, note=tell, warn=warn, close_seconds=CLOSE_SECONDS) as consumer,
            ):
                limits = await begin_reading(client, consumer, reading, tell)
                printer = RecordPrinter(
                    consumer, format_record, output=output, limits=limits, skip_errors=skip_errors
                )
                with following_new(client, consumer, reading.choice, limits):
                    await print_to_the_end(printer)
                read = set(limits.end_offsets or ()) if printer.is_at_end() else set()
    if printer is not None:
        note(f"Processed a total of {printer.count} messages")
    if read and reading.end.now and config.is_read_committed:
        from kcli.commands.consume.withheld import note_withheld

        await note_withheld(client, read)
    if scope.cancel_called:
        raise typer.Exit(Interrupted.exit_code)


@contextmanager
def following(
    client: Client, consumer: Consumer, accepts: Callable[[str], bool], *, all_topics: bool
) -> Iterator[None]:
    """Let the consumer read new partitions of accepted topics, from their first record, while inside."""

    def take(cluster: ClusterMetadata) -> None:
        known = consumer.assignment
        partitions = {
            TopicPartition(name, index)
            for name, topic in cluster.topics.items()
            if accepts(name)
            for index in topic.partitions
        }
        added = partitions - known
        if added:
            consumer.assign([*known, *sorted(added)])
            consumer.seek_to_beginning(*added)

    client.cache.listeners.append(take)
    if all_topics:
        client.follow_all_topics(True)
    try:
        yield
    finally:
        client.cache.listeners.remove(take)
        if all_topics:
            client.follow_all_topics(False)


Ends = Callable[[Sequence[TopicPartition]], Awaitable[dict[TopicPartition, int] | None]]

CLOSE_SECONDS = 5.0
"""How long an interrupted member may take to commit and leave."""


class GroupReading(RebalanceListener):
    """The end offsets of a member's partitions, if `find_ends` bounds them, and a note of each change."""

    def __init__(self, consumer: Consumer, find_ends: Ends | None, note: Callable[[str], None]) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self._consumer = consumer
        self._find_ends = find_ends
        self._note = note

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._note(f"assigned: {names(partitions)}")
        if self._find_ends is not None:
            self.ends.update(await self._find_ends(partitions) or {})

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._drop("revoked", partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._drop("lost", partitions)

    def _drop(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        self._note(f"{what}: {names(partitions)}")
        for partition in partitions:
            self.ends.pop(partition, None)


def names(partitions: Sequence[TopicPartition]) -> str:
    return " ".join(map(str, partitions)) or "nothing"
