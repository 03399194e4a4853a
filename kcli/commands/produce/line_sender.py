"""Sends the lines of inputs through a producer, and counts delivered and failed records.

Reading stops at the first line that cannot be parsed, and at Ctrl-C. Lines read until then are delivered,
after Ctrl-C within a second.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.shared.output import Table, warn
from kcli.errors import Interrupted, KcliError

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.client.config import ProducerConfig
    from kcli.client.denials import Wanted
    from kcli.client.producer.producer import Producer
    from kcli.client.producer.producer_batch import Delivery, DeliveryRun
    from kcli.commands.produce.json_reader import JsonReader
    from kcli.commands.produce.line_reader import Input, LineReader, LineSplitter
    from kcli.commands.produce.transactions import Ends, LineTransactions, ProducedInTransactions
    from kcli.commands.shared.progress import Advance

FLUSH_AFTER_INTERRUPT_MS = 800
SHOWN_FAILURES = 5
CREATION_SECONDS = 3
"""How long a broker may take to create a topic that a producer asks for."""
PROMPT = ">"
NO_KEY = re.compile("compacted topic.* key", re.IGNORECASE)


class Target(NamedTuple):
    """The target of records; `sync` sends one at a time."""

    topic: str
    partition: int | None = None
    sync: bool = False


class Produced(NamedTuple):
    """The result of `produce`: the numbers of delivered and failed records."""

    topic: str
    delivered: int
    failed: int
    bytes: int
    failures: Sequence[KcliError] = ()

    def lines(self) -> Sequence[str]:
        return ()

    def tables(self) -> Iterator[Table]:
        yield Table(("Topic", "Delivered", "Failed", "Bytes read"), [self[:4]])


class Tally:
    """Counts delivered and failed records, and keeps one example of each kind of failure.

    Records that an interrupt gave up are no kind of failure: the error of the interrupt counts them.
    """

    def __init__(self) -> None:
        self.delivered = 0
        self.failed = 0
        self.examples: dict[str, KcliError] = {}
        self.wanted: list[Wanted] = []
        self.counts: dict[str, int] = {}

    def settle(self, delivery: Delivery) -> None:
        error = delivery.error
        if error is None:
            self.delivered += 1
        else:
            self.fail(error)

    def settle_run(self, run: DeliveryRun) -> None:
        if run.is_delivered:
            self.delivered += run.count
        else:
            for delivery in run:
                self.settle(delivery)

    def fail(self, error: KcliError) -> None:
        from kcli.client.producer.producer_batch import GivenUp

        self.failed += 1
        if isinstance(error, GivenUp):
            return
        self.counts[error.message] = self.counts.get(error.message, 0) + 1
        self.examples.setdefault(error.message, error)

    def interrupted(self) -> Interrupted:
        from kcli.commands.shared.formatting import counted

        sent = counted(self.delivered, "record was", "records were")
        left = f", {counted(self.failed, 'was', 'were')} not" if self.failed else ""
        return Interrupted(f"interrupted: {sent} delivered{left}")

    def failures(self) -> list[KcliError]:
        """Return an error for each of the most frequent failures."""
        from kcli.commands.shared.session import tell_denial

        total = self.delivered + self.failed
        kinds = sorted(self.counts, key=lambda message: -self.counts[message])[:SHOWN_FAILURES]
        errors = []
        for message in kinds:
            example = self.examples[message]
            tell_denial(example, self.wanted)
            hint = failure_hint(example)
            what = f"{self.counts[message]} of {total} records were not delivered"
            errors.append(KcliError(f"{what}: {example.message}", hint=hint))
        return errors


def failure_hint(error: KcliError) -> str | None:
    """Return the hint for a record that was not delivered.

    INVALID_RECORD has several reasons, and only the text of Kafka and kcli says that a key is missing.
    """
    from kcli.commands.shared.session import hint_of
    from kcli.protocol.error_codes import ErrorCode

    if getattr(error, "code", None) is ErrorCode.INVALID_RECORD and NO_KEY.search(error.message):
        return "`--reader-property parse.key=true` takes the key from the line, before a tab"
    return hint_of(error)


def wanted_by(target: Target, config: ProducerConfig) -> list[Wanted]:
    """Return what sending needs permission for."""
    from kcli.client.denials import Wanted
    from kcli.security.acl import Operation, ResourceType

    topic = Wanted(ResourceType.TOPIC, Operation.WRITE, target.topic)
    return [topic, Wanted(ResourceType.TRANSACTIONAL_ID, Operation.WRITE, config.transactional_id)]


async def send_inputs(
    client: Client,
    config: ProducerConfig,
    *,
    inputs: Sequence[Input],
    reader: LineReader | JsonReader,
    target: Target,
) -> Produced:
    """Send every line of the inputs in order, and wait until all are delivered or failed."""
    from kcli.client.producer.producer import Producer
    from kcli.commands.shared.interrupts import interruptible
    from kcli.commands.shared.session import tell_denial

    tally, stopped = Tally(), []
    tally.wanted = wanted_by(target, config)
    async with Producer(client, config, warn=warn) as producer, interruptible() as scope:
        sender = LineSender(producer, target, reader, tally)
        with scope:
            try:
                await send_each(client, sender, inputs)
            except NoSuchTopic:
                raise
            except KcliError as error:
                tell_denial(error, tally.wanted)
                stopped.append(error)
            await producer.flush()
        if scope.cancel_called:
            await producer.close(FLUSH_AFTER_INTERRUPT_MS)
    if scope.cancel_called:
        stopped.append(tally.interrupted())
    failures = [*stopped, *tally.failures()]
    return Produced(target.topic, tally.delivered, tally.failed, sender.bytes_read, failures)


async def send_in_transactions(
    client: Client,
    config: ProducerConfig,
    *,
    inputs: Sequence[Input],
    reader: LineReader | JsonReader,
    target: Target,
    ends: Ends,
) -> ProducedInTransactions:
    """Send every line of the inputs in transactions, up to the first error; what is open then is aborted."""
    from kcli.client.producer.producer import Producer
    from kcli.commands.produce.transactions import LineTransactions
    from kcli.commands.shared.interrupts import interruptible
    from kcli.commands.shared.session import tell_denial

    stopped: KcliError | None = None
    async with Producer(client, config, warn=warn) as producer, interruptible() as scope:
        transactions = LineTransactions(producer, ends)
        sender = LineSender(producer, target, reader, Tally(), transactions)
        with scope:
            try:
                await producer.init_transactions()
                await send_each(client, sender, inputs)
                await transactions.finish()
            except KcliError as error:
                tell_denial(error, wanted_by(target, config))
                stopped = error
        if scope.cancel_called:
            stopped = Interrupted("interrupted")
        if stopped is not None:
            hint = failure_hint(stopped)
            stopped = await transactions.give_up(stopped)
            stopped.hint = stopped.hint or hint
    return transactions.result(target.topic, sender.bytes_read, stopped)


async def send_each(client: Client, sender: LineSender, inputs: Sequence[Input]) -> None:
    """Send every line of the inputs in order; raise the first error."""
    from kcli.commands.produce.line_reader import total_size
    from kcli.commands.shared.progress import progress_bar

    topic = sender.target.topic
    if await is_missing(client, topic):
        sender.prepare = partial(wait_for_topic, client, sender.producer, topic, is_missing=True)
    else:
        await wait_for_topic(client, sender.producer, topic, is_missing=False)
    with progress_bar(topic, total_size(inputs)) as advance:
        for source in inputs:
            sender.reader.begin(source.name if len(inputs) > 1 else None)
            await sender.send_all(source, advance)


class NoSuchTopic(KcliError):
    """The topic does not exist, and no broker creates it."""


async def is_missing(client: Client, topic: str) -> bool:
    """Tell whether a topic does not exist; asking does not create it."""
    from kcli.protocol.error_codes import ErrorCode

    return (await client.metadata((topic,))).errors.get(topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def wait_for_topic(client: Client, producer: Producer, topic: str, *, is_missing: bool) -> None:
    """Wait until the topic has partitions; note a new topic, and raise soon if no broker creates it."""
    import trio

    from kcli.client import admin
    from kcli.commands.shared.formatting import counted
    from kcli.commands.shared.output import note

    with trio.move_on_after(CREATION_SECONDS) as waiting:
        await producer.partitions_for(topic)
    if waiting.cancelled_caught and topic not in {each.name for each in await admin.list_topics(client)}:
        raise NoSuchTopic(
            f"topic `{topic}` does not exist, and the broker does not create it",
            hint=f"kcli topics create {topic}",
        )
    # An existing topic may become known late. A known one costs no request.
    partitions = (await producer.partitions_for(topic)).partitions
    if is_missing:
        created = counted(len(partitions), "partition")
        note(f"note: topic `{topic}` is new: the broker created it with {created}")


class LineSender:
    """Sends the lines of inputs through a producer; `bytes_read` counts the lines that became records."""

    def __init__(
        self,
        producer: Producer,
        target: Target,
        reader: LineReader | JsonReader,
        tally: Tally,
        transactions: LineTransactions | None = None,
    ) -> None:
        self.producer = producer
        self.transactions = transactions
        self.target = target
        self.reader = reader
        self.tally = tally
        self.taken = 0
        """The number of current lines that are sent."""
        self.bytes_read = 0
        self.prepare: Callable[[], Awaitable[None]] | None = None
        """Makes a missing topic, before the first line is sent: an empty input makes none."""

    async def send_all(self, source: Input, advance: Advance) -> None:
        """Send the lines of an input and close it."""
        from kcli.commands.produce.line_reader import LineSplitter

        splitter = LineSplitter()
        with closing(source):
            while chunk := await self.read(source):
                if self.prepare is not None:
                    prepare, self.prepare = self.prepare, None
                    await prepare()
                await self.send_lines(splitter.feed(chunk), splitter)
                advance(len(chunk))
            await self.send_lines(splitter.finish(), splitter)

    async def read(self, source: Input) -> bytes:
        from kcli.commands.shared.output import note

        # `note` ignores a closed terminal: what was read is delivered all the same.
        if source.is_terminal:
            note(PROMPT, end="")
        chunk = await source.read()
        if source.is_terminal and not chunk:
            note("")
        return chunk

    async def send_lines(self, lines: list[bytes], splitter: LineSplitter) -> None:
        """Send lines of the splitter; an error or an interrupt drops the rest."""
        self.taken = 0
        try:
            if self.reader.is_plain and not self.target.sync:
                await self.send_values(lines)
            else:
                await self.send_records(lines)
        finally:
            self.bytes_read += splitter.size_of(self.taken)

    async def send_records(self, lines: list[bytes]) -> None:
        """Send lines one by one; count a record that the producer refuses, and go on."""
        from kcli.protocol.error_codes import KafkaError

        send, settle, (topic, fixed, sync) = self.producer.send, self.tally.settle, self.target
        for record in self.reader.records(lines):
            if record is None:
                self.taken += 1
                continue
            key, value, headers, own, timestamp = record
            partition = own if fixed is None else fixed
            if self.transactions is not None:
                await self.transactions.room()
            try:
                delivery = await send(
                    topic, value, key, partition=partition, headers=headers, timestamp=timestamp
                )
            except KafkaError as error:
                if self.transactions is not None:
                    raise
                self.tally.fail(error)
                self.taken += 1
                continue
            delivery.on_settled(settle)
            self.taken += 1
            if self.transactions is not None:
                self.transactions.sent(1)
            if sync:
                with suppress(KafkaError):  # it is counted
                    await delivery.wait()

    async def send_values(self, lines: list[bytes]) -> None:
        """Send lines that are plain values; count one that the producer refuses, and go on."""
        from kcli.protocol.error_codes import KafkaError

        topic, partition, _ = self.target
        if self.transactions is not None:
            await self.send_values_in(self.transactions, lines)
            return
        while self.taken < len(lines):
            try:
                run = await self.producer.send_values(topic, lines, self.taken, partition=partition)
            except KafkaError as error:
                self.tally.fail(error)
                self.taken += 1
            else:
                self.taken += run.count
                run.on_settled(self.tally.settle_run)

    async def send_values_in(self, transactions: LineTransactions, lines: list[bytes]) -> None:
        """Send lines that are plain values in transactions; raise the error of one that is refused."""
        topic, partition, _ = self.target
        while self.taken < len(lines):
            room = await transactions.room()
            values = lines if room is None else lines[: self.taken + room]
            run = await self.producer.send_values(topic, values, self.taken, partition=partition)
            self.taken += run.count
            transactions.sent(run.count)
