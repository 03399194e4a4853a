"""Moves and elections by kcli and by Apache's tools, side by side against one cluster."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.raw_client import RawClient
from tests.support.waiting import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.apache_kafka import KafkaTools

SLOW = "20000"
"""Bytes a second. A throttle lets a megabyte through each time its window of eleven seconds has passed."""
LASTING = 8.0
"""Megabytes: so slow, a move of them lasts over a minute."""


class Sides:
    """The same action by kcli and by Apache's tools."""

    def __init__(self, kcli: Callable[..., Finished], tools: KafkaTools, bootstrap: str) -> None:
        self.kcli = kcli
        self.tools = tools
        self.bootstrap = bootstrap

    def ours(self, *arguments: str | Path, code: int = 0) -> list[str]:
        """kcli's lines."""
        finished = self.kcli(*map(str, arguments))
        assert finished.exit_code == code, finished
        return finished.out.splitlines()

    def theirs(self, tool: str, *arguments: str | Path, code: int = 0) -> list[str]:
        """The original tool's lines."""
        result = self.tools(tool, "--bootstrap-server", self.bootstrap, *arguments)
        assert result.code == code, result
        return result.lines

    def reassign(self, verb: str, *arguments: str | Path, code: int = 0) -> list[str]:
        """The lines of a verb of kcli."""
        return self.ours("reassign-partitions", verb, *arguments, code=code)

    def original_reassign(
        self, verb: str, *arguments: str | Path, code: int = 0, tool_code: int = 0
    ) -> list[str]:
        """The lines of the original tool; it does not end with kcli's `code` where a plan is not done."""
        words = ("--reassignment-json-file", *arguments) if arguments else ()
        return self.theirs("kafka-reassign-partitions", f"--{verb}", *words, code=tool_code)

    def log_dir(self, topic: str, broker: int) -> str:
        """Where the first partition of a topic lies."""
        described = self.theirs("kafka-log-dirs", "--describe", "--topic-list", topic)[-1]
        found = [
            log_dir["logDir"]
            for each in json.loads(described)["brokers"]
            for log_dir in each["logDirs"]
            if each["broker"] == broker and any(not entry["isFuture"] for entry in log_dir["partitions"])
        ]
        # While two directories are swapped there may be none, or both.
        return str(found[0]) if len(found) == 1 else ""

    def settled(self) -> None:
        """Wait until nothing moves any more."""
        quiet = ["No partition reassignments found."]
        eventually(lambda: self.original_reassign("list") == quiet, "nothing moves")

    def create(self, topic: str, assignment: str, **configs: str) -> None:
        """Create a topic whose partitions are where they are told to be."""
        options = [f"--config={name.replace('_', '.')}={value}" for name, value in configs.items()]
        self.theirs(
            "kafka-topics", "--create", "--topic", topic, "--replica-assignment", assignment, *options
        )
        self.known(topic, *(each.replace(":", ",") for each in assignment.split(",")))

    def known(self, topic: str, *replicas: str) -> None:
        """Wait until every broker knows of these replicas of a topic's partitions, and of who leads them.

        A broker hears of a change some time after the controller has answered, and the next one later still.
        Each hears of everything in order: by then it knows what was changed before, too.
        """
        eventually(
            lambda: all(seen == list(replicas) for seen in self._seen(topic)),
            f"replicas {replicas} of {topic} on every broker",
            seen=lambda: list(self._seen(topic)),
        )

    def _seen(self, topic: str) -> Iterator[list[str]]:
        """What each broker that is there says of a topic: its replicas by partition, none if nobody leads."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        for bootstrap in self.bootstrap.split(","):
            try:
                with RawClient(bootstrap) as client:
                    (found,) = client.ask(request, 9).topics
            except ConnectionRefusedError:
                continue
            led = sorted(found.partitions, key=lambda each: each.partition_index)
            yield [",".join(map(str, each.replica_nodes)) for each in led if each.leader_id >= 0]

    def describe(self, *topic: str) -> list[str]:
        """How the original tool describes a topic, or all of them."""
        named = ("--topic", *topic) if topic else ()
        return self.theirs("kafka-topics", "--describe", *named)

    def replicas(self, topic: str) -> list[str]:
        """The replicas of each partition, once all brokers say the same."""
        found: list[list[str]] = []

        def agree() -> bool:
            found[:] = self._seen(topic)
            return all(each == found[0] for each in found)

        eventually(agree, f"all brokers agree on {topic}", seen=lambda: found)
        return found[0]

    def throttles(self) -> list[str]:
        """Throttles that are set anywhere."""
        lines = []
        for kind in ("brokers", "topics"):
            lines += self.theirs("kafka-configs", "--describe", "--entity-type", kind)
        return [line for line in lines if "throttled" in line]

    def throttled(self, *, anything: bool) -> None:
        """Wait until whichever broker is asked knows of throttles, or of none."""
        eventually(lambda: bool(self.throttles()) is anything, "the throttles are known", seen=self.throttles)

    def fill(self, topic: str, partitions: int, megabytes: float = 2.0) -> None:
        """Produce random bytes to each partition."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        noise = random.Random(topic)
        for _ in range(round(megabytes * 100)):
            for partition in range(partitions):
                producer.produce(topic, noise.randbytes(10_000), partition=partition)
        assert producer.flush(PATIENCE_SECONDS) == 0


def write_plan(path: Path, topic: str, *replicas: Sequence[int]) -> Path:
    """Write a plan for the partitions of a topic."""
    partitions = [
        {"topic": topic, "partition": index, "replicas": list(each)} for index, each in enumerate(replicas)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return path
