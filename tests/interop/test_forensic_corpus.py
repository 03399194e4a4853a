"""dump-log beside Apache Kafka's dump tool, file by file and flag by flag, on what kcli did not write."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support.forensic_topics import write_codecs, write_groups

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.apache_kafka import KafkaTools
    from tests.support.forensic_corpus import Corpus
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop


class Dump(NamedTuple):
    """Which files are dumped with which options."""

    suffixes: tuple[str, ...]
    options: tuple[str, ...] = ()
    where: str = ""
    """In the paths of the files."""

    def files(self, corpus: Corpus) -> list[Path]:
        """The files, none of them missing."""
        found = [path for path in corpus.files(*self.suffixes) if self.where in str(path)]
        assert found
        return found


LOGS = (".log",)
DECODERS = (
    ("__consumer_offsets", "--offsets-decoder"),
    ("__transaction_state", "--transaction-log-decoder"),
    ("__cluster_metadata", "--cluster-metadata-decoder"),
)
STRING = "org.apache.kafka.tools.api.StringDecoder"
LOG_OPTIONS = (
    (),
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--print-data-log", "--skip-record-metadata"),
    ("--deep-iteration", "--skip-record-metadata"),
    ("--key-decoder-class", STRING),
    ("--value-decoder-class", STRING, "--skip-record-metadata"),
    ("--max-bytes", "0"),
    ("--max-bytes", "1000"),
    ("--max-bytes", "2500", "--print-data-log"),
    ("--max-message-size", "100"),
)
INDEX_OPTIONS = (
    (),
    ("--verify-index-only",),
    ("--index-sanity-check",),
    ("--max-message-size", "30000", "--verify-index-only"),
)
DUMPS = (
    *(Dump(LOGS, options) for options in LOG_OPTIONS),
    *(
        Dump(LOGS, (decoder, *more), topic)
        for topic, decoder in DECODERS
        for more in ((), ("--skip-record-metadata",), ("--deep-iteration", "--print-data-log"))
    ),
    *(
        Dump((".checkpoint",), options)
        for options in ((), ("--deep-iteration",), ("--cluster-metadata-decoder",), ("--print-data-log",))
    ),
    *(Dump((".index",), options) for options in INDEX_OPTIONS),
    *(Dump((".timeindex",), options, "/apache/") for options in INDEX_OPTIONS),
    Dump((".timeindex",), (), "/running/"),
    Dump((".timeindex",), ("--verify-index-only",), "/running/"),
    Dump((".snapshot",)),
    Dump((".txnindex",)),
    Dump((".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"), ("--print-data-log",)),
)


def name_of(dump: Dump) -> str:
    return " ".join([*dump.suffixes, dump.where, *dump.options]).strip()


@pytest.mark.parametrize("dump", DUMPS, ids=name_of)
def test_the_text_is_that_of_apache_kafka(
    corpus: Corpus, kafka_tool: KafkaTools, kcli: Callable[..., Finished], dump: Dump
) -> None:
    files = ",".join(map(str, dump.files(corpus)))
    theirs = kafka_tool("kafka-dump-log", "--files", files, *dump.options)
    assert theirs.code == 0, theirs.errors
    ours = kcli("dump-log", "-o", "text", "--files", files, *dump.options)
    assert ours.out == theirs.output
    # Also where both complain of the first entry of an index that a running broker has reserved.
    assert ours.err == theirs.errors
    assert ours.exit_code == 0


def test_a_time_index_that_a_running_broker_has_reserved_fails_the_sanity_check_of_both(
    corpus: Corpus, kafka_tool: KafkaTools, kcli: Callable[..., Finished]
) -> None:
    path = corpus.directory / "running" / "codecs-0" / f"{350:020}.timeindex"
    theirs = kafka_tool("kafka-dump-log", "--index-sanity-check", "--files", path)
    assert "CorruptIndexException" in theirs.errors
    ours = kcli("dump-log", "-o", "text", "--index-sanity-check", str(path))
    assert ours.out == theirs.output
    assert ours.err.startswith(f"{path} failed sanity check: ")
    assert ours.exit_code == 3


# --- where they differ


def patched(path: Path, position: int, data: bytes) -> None:
    """Overwrite bytes of a file."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


class Difference(NamedTuple):
    """What is done to a file of a copied partition, and what both tools make of it."""

    file: str
    change: Callable[[Path], None]
    theirs: str
    """What Apache's tool says, whose exit code tells nothing else than an exception."""
    ours: str
    exit_code: int
    options: tuple[str, ...] = ()


def unchanged(_: Path) -> None:
    """Leave it as it is."""


LOG, INDEX = f"{0:020}.log", f"{0:020}.index"
DIFFERENCES = {
    "bytes that are no batch: explained, no exception": Difference(
        LOG, lambda path: patched(path, 8, b"\0\0\0\1"), "CorruptRecordException", "bad_size", 3
    ),
    "reserved space behind the last batch: noted, no exception": Difference(
        LOG,
        lambda path: patched(path, path.stat().st_size, bytes(100)),
        "CorruptRecordException",
        "note: ",
        0,
    ),
    "records that cannot be read: explained, no exception": Difference(
        LOG,
        lambda path: patched(path, path.stat().st_size - 5, b"\xff\xff\xff\xff\xff"),
        "Exception",
        "bad_crc",
        3,
        ("--deep-iteration",),
    ),
    "an index that points nowhere: told, no exception": Difference(
        INDEX, lambda path: patched(path, 4, b"\x7f\xff\xff\xff"), "Exception", "log offset: -1", 3
    ),
    "a decoder's wrong input: told, no exception": Difference(
        LOG, unchanged, "Exception", "error: ", 1, ("--value-decoder-class", "IntegerDecoder")
    ),
    "files on their way out: dumped, not ignored": Difference(
        f"{LOG}.deleted", unchanged, "Ignoring unknown file", "", 0
    ),
    "small files: dumped, not ignored": Difference(
        "leader-epoch-checkpoint", unchanged, "Ignoring unknown file", "", 0
    ),
}


@pytest.mark.parametrize("reason", DIFFERENCES)
def test_what_differs_does_so_for_a_reason(
    corpus: Corpus, kafka_tool: KafkaTools, kcli: Callable[..., Finished], tmp_path: Path, reason: str
) -> None:
    difference = DIFFERENCES[reason]
    partition = tmp_path / "codecs-0"
    shutil.copytree(corpus.apache / "codecs-0", partition)
    shutil.copy(partition / LOG, partition / f"{LOG}.deleted")
    path = partition / difference.file
    difference.change(path)
    options = [
        f"org.apache.kafka.tools.api.{word}" if word == "IntegerDecoder" else word
        for word in difference.options
    ]
    theirs = kafka_tool("kafka-dump-log", *options, "--files", path)
    assert difference.theirs in theirs.errors
    ours = kcli("dump-log", "-o", "text", *options, "--files", str(path))
    assert difference.ours in ours.err
    assert ours.exit_code == difference.exit_code, ours.err
    assert len(ours.out) >= len(theirs.output)


# --- verify-index


@pytest.mark.parametrize("part", ["apache", "running"])
def test_verify_index_finds_nothing_wrong_with_what_apache_kafka_wrote(
    corpus: Corpus, kcli: Callable[..., Finished], part: str
) -> None:
    found = kcli("verify-index", "--deep", "-o", "text", str(corpus.directory / part))
    assert (found.exit_code, found.err) == (0, "")
    assert found.out.endswith("no problems\n")
    assert len(found.out.splitlines()) == 1


def test_verify_index_misses_nothing_but_indexes_where_there_are_none(
    corpus: Corpus, kcli: Callable[..., Finished]
) -> None:
    for log in corpus.old_logs():
        found = kcli("verify-index", "--deep", "-o", "json", str(log.parent))
        objects = [json.loads(line) for line in found.out.splitlines()]
        kinds = {each["kind"] for each in objects if "kind" in each}
        assert kinds == {"index_missing", "partition_metadata_missing"}


def test_apache_kafka_agrees_with_rebuilt_indexes(
    corpus: Corpus, kafka_tool: KafkaTools, kcli: Callable[..., Finished], tmp_path: Path
) -> None:
    out = tmp_path / "fresh"
    arguments = ("--rebuild", str(out), "--index-interval-bytes", "256")
    assert kcli("verify-index", str(corpus.apache), *arguments).exit_code == 0
    indexes = sorted(path for path in out.rglob("*") if path.suffix in (".index", ".timeindex", ".txnindex"))
    assert {path.suffix for path in indexes} == {".index", ".timeindex", ".txnindex"}
    for index in indexes:
        log = corpus.apache / index.parent.name / f"{index.stem}.log"
        if log.exists() and not index.with_suffix(".log").exists():
            shutil.copy(log, index.parent)
    result = kafka_tool("kafka-dump-log", "--verify-index-only", "--files", ",".join(map(str, indexes)))
    assert (result.code, result.errors) == (0, "")


def test_what_kcli_writes_is_clean_to_both_tools(
    new_kcli_broker: Callable[..., KcliBroker], kafka_tool: KafkaTools, kcli: Callable[..., Finished]
) -> None:
    broker = new_kcli_broker().start()
    write_codecs(broker.bootstrap, "codecs")
    write_codecs(broker.bootstrap, "append-time", message_timestamp_type="LogAppendTime")
    write_groups(broker.bootstrap, "codecs")
    assert broker.stop() == 0
    found = kcli("verify-index", "--deep", "-o", "text", str(broker.node_directory))
    assert found.exit_code == 0, found.out
    suffixes = (".log", ".index", ".timeindex", ".snapshot")
    files = sorted(path for path in broker.node_directory.rglob("*") if path.suffix in suffixes)
    names = ",".join(str(path) for path in files if path.stat().st_size)
    theirs = kafka_tool("kafka-dump-log", "--print-data-log", "--files", names)
    ours = kcli("dump-log", "--print-data-log", "-o", "text", "--files", names)
    assert (ours.exit_code, ours.out, ours.err) == (0, theirs.output, theirs.errors)
    assert "ismatch" not in theirs.errors
