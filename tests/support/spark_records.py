"""Real records for exports: lines of a Debian package index, and words, repeated with changes.

A lane is what one writer sends with one codec to one partition. Every partition gets lanes of all writers,
every writer uses every codec, so that neighbouring batches of a partition differ in both.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import lz4.frame

from tests.support.clients import CLIENTS, CODECS, Client
from tests.support.records import TestRecord, encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.records import Headers

WRITERS = ("confluent-kafka", "Java 4.3.1", "kcli")
PARTITIONS = len(CODECS)
START_MS = 1_600_000_000_000
"""In 2020: a topic for these wants `retention.ms=-1`."""
STEP_MS = 37
RECORDS_OF_A_FILE = 50_000
"""Fewer than librdkafka holds before it refuses more."""
FILES_OF_A_RUN = 8
"""A writer has two minutes for what it is given at once."""


class Line(NamedTuple):
    """What a record is made of."""

    key: bytes
    text: bytes


class Lane(NamedTuple):
    """What one writer sends to one partition."""

    writer: str
    partition: int
    codec: str


LANES = tuple(
    Lane(writer, partition, CODECS[(partition + index) % len(CODECS)])
    for index, writer in enumerate(WRITERS)
    for partition in range(PARTITIONS)
)


def real_lines(limit: int) -> list[Line]:
    """Return lines of the package index, keyed by their package, and words, keyed by themselves, in turn."""
    packages, words = list(islice(_packages(), limit)), _words(limit)
    found = []
    for number, package in enumerate(packages):
        word = words[number % len(words)]
        found += [package, Line(word.lower(), word)]
    return found


def _packages() -> Iterator[Line]:
    lists = Path("/var/lib/apt/lists")
    texts = [lz4.frame.decompress(path.read_bytes()) for path in sorted(lists.glob("*_Packages.lz4"))]
    others = [*sorted(lists.glob("*_Packages")), Path("/var/lib/dpkg/status")]
    # Where Debian is not, the standard library is as real.
    others += sorted(Path(os.__file__).parent.glob("*.py"))
    texts += [path.read_bytes() for path in others if path.is_file()]
    package = b""
    for text in texts:
        for line in text.splitlines():
            if line.startswith((b"Package: ", b"def ", b"class ")):
                package = line.partition(b" ")[2]
            if line:
                yield Line(package, line)


def _words(limit: int) -> list[bytes]:
    path = Path("/usr/share/dict/words")
    if path.is_file():
        return path.read_bytes().splitlines()
    return list(dict.fromkeys(word for line in islice(_packages(), limit) for word in line.text.split()))


def records_of(lines: Sequence[Line], numbers: range, partition: int) -> Iterator[TestRecord]:
    """Yield records by number: some without key, value or headers, each with a time of its own."""
    for number in numbers:
        again, index = divmod(number, len(lines))
        line = lines[index]
        yield TestRecord(
            partition,
            -1,
            START_MS + number * STEP_MS - number % 11 * 90,
            None if number % 7 == 0 else line.key,
            None if number % 13 == 0 else line.text if again == 0 else b"%s #%d" % (line.text, again),
            _headers(line, number) if number % 3 == 0 else (),
        )


def _headers(line: Line, number: int) -> Headers:
    match number % 4:
        case 0:
            return (("number", b"%d" % number),)
        case 1:
            return (("paquet-é", line.key), ("empty", b""), ("null", None))
        case 2:
            return (("twice", b"1"), ("twice", line.text[:20]))
        case _:
            return ((f"h{number % 5}", None),)


def write_files(directory: Path, lines: Sequence[Line], count: int) -> dict[Lane, list[Path]]:
    """Write the records of every lane to files, for whatever broker; `count` is of all lanes together."""
    files: dict[Lane, list[Path]] = {}
    for index, lane in enumerate(LANES):
        first, end = count * index // len(LANES), count * (index + 1) // len(LANES)
        for start in range(first, end, RECORDS_OF_A_FILE):
            path = directory / f"{index}-{start}"
            numbers = range(start, min(start + RECORDS_OF_A_FILE, end))
            path.write_bytes(encode(records_of(lines, numbers, lane.partition)))
            files.setdefault(lane, []).append(path)
    return files


def send(bootstrap: str, topic: str, files: dict[Lane, list[Path]]) -> None:
    """Have every writer send its lanes to a topic, all writers at the same time."""

    def run(client: Client) -> None:
        lanes = [
            f"{lane.partition}:{lane.codec}:all:1:{path}"
            for lane, paths in files.items()
            if lane.writer == client.name
            for path in paths
        ]
        for start in range(0, len(lanes), FILES_OF_A_RUN):
            client.run("produce", bootstrap, topic, *lanes[start : start + FILES_OF_A_RUN])

    with ThreadPoolExecutor(len(WRITERS)) as threads:
        for ended in [threads.submit(run, client) for client in CLIENTS if client.name in WRITERS]:
            ended.result()
