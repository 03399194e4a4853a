"""Damaged files, full disks and read-only ones: the specified outcome, a clear line, nothing intact lost."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException

from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.batch_header import CRC_START
from tests.support.producing import create_topic, end_offsets, produce, read_partition
from tests.support.records import Shape, TestRecord, generate
from tests.support.toolchain import need, unavailable
from tests.support.waiting import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

SETTINGS = {"log.segment.bytes": "1048576", "log.index.interval.bytes": "1024"}
BATCHED = {"batch.size": 4096, "enable.idempotence": True}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """A data directory as a killed broker left it, its topic three segments long."""
    from tests.support.kcli_broker import KcliBroker

    broker = KcliBroker(tmp_path_factory.mktemp("damage"), settings=SETTINGS).start()
    try:
        records = [record for seed in range(5) for record in generate(seed, 0, 2500, Shape(headers=False))]
        create_topic(broker.bootstrap, "data")
        produce(broker.bootstrap, "data", records, BATCHED)
        kept = read_partition(broker.bootstrap, "data", 0)
    finally:
        broker.close()
    return Image(broker.data, kept)


class Image:
    """A data directory to copy, and the records in it."""

    def __init__(self, data: Path, records: list[TestRecord]) -> None:
        self.data = data
        self.records = records


@pytest.fixture
def broker(image: Image, new_kcli_broker: Callable[..., KcliBroker]) -> KcliBroker:
    """A broker, not started, on its own copy of the image."""
    broker = new_kcli_broker(SETTINGS)
    # A killed broker leaves its socket, which cannot be copied.
    shutil.copytree(image.data, broker.data, ignore=shutil.ignore_patterns("control.sock"))
    return broker


def log_of(broker: KcliBroker) -> Path:
    return broker.node_directory / "data-0"


def segments(broker: KcliBroker) -> list[Path]:
    return sorted(log_of(broker).glob("*.log"))


def assert_serves(broker: KcliBroker, expected: list[TestRecord]) -> None:
    """The broker holds exactly these records, and takes more."""
    assert read_partition(broker.bootstrap, "data", 0) == expected
    more = generate(9, 0, 20, Shape())
    produce(broker.bootstrap, "data", more, {"enable.idempotence": True})
    values = [record.value for record in read_partition(broker.bootstrap, "data", 0, len(expected))]
    assert values == [record.value for record in more]


def test_undamaged(broker: KcliBroker, image: Image) -> None:
    assert len(segments(broker)) >= 3
    broker.start()
    assert_serves(broker, image.records)


def damaged_position(log: bytearray, part: float) -> int:
    """Where a byte is flipped: the very first, or the one at a part of the log that its checksum covers.

    What a batch holds depends on the pace of the producer, and so does which byte lies where.
    """
    position, start = int(len(log) * part), 0
    for batch in iter_batches(log):
        if position < start + batch.size_in_bytes:
            break
        start += batch.size_in_bytes
    return max(position, start + CRC_START) if position else 0


@pytest.mark.parametrize("part", [0.0, 0.6])
def test_a_flipped_byte_ends_the_log_at_its_batch(broker: KcliBroker, image: Image, part: float) -> None:
    path = segments(broker)[-1]
    data = bytearray(path.read_bytes())
    data[damaged_position(data, part)] ^= 0x10
    path.write_bytes(data)
    broker.start()
    low, end = end_offsets(broker.bootstrap, "data")[0]
    assert low == 0
    assert int(path.stem) <= end < len(image.records)
    assert f"bad records in `{path}`" in broker.messages()
    assert_serves(broker, image.records[:end])


def test_a_cut_segment_keeps_its_whole_batches(broker: KcliBroker, image: Image) -> None:
    path = segments(broker)[-1]
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 7)
    broker.start()
    _, end = end_offsets(broker.bootstrap, "data")[0]
    assert len(image.records) - 200 < end < len(image.records)
    assert_serves(broker, image.records[:end])


def test_an_empty_last_segment(broker: KcliBroker, image: Image) -> None:
    path = segments(broker)[-1]
    path.write_bytes(b"")
    broker.start()
    assert_serves(broker, image.records[: int(path.stem)])


def delete(path: Path) -> None:
    path.unlink()


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def cut_odd(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def scramble(path: Path) -> None:
    path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))


@pytest.mark.parametrize(
    ("damage", "clean"),
    [(delete, True), (zero, True), (cut_odd, True), (scramble, True), (scramble, False)],
)
def test_indexes_are_rebuilt(
    broker: KcliBroker, image: Image, damage: Callable[[Path], None], clean: bool
) -> None:
    if clean:
        broker.start()
        assert broker.stop() == 0
    found = [path for path in log_of(broker).glob("*index") if path.stat().st_size]
    assert {path.suffix for path in found} == {".index", ".timeindex"}
    for path in found:
        damage(path)
    broker.start()
    assert_serves(broker, image.records)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_torn_checkpoints_cost_nothing(broker: KcliBroker, image: Image, clean: bool) -> None:
    broker.start()
    (broker.stop if clean else broker.kill)()
    for name in (
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "data-0/leader-epoch-checkpoint",
    ):
        path = broker.node_directory / name
        path.write_bytes(b"0\n3\nda")
    broker.start()
    assert "a checkpoint counts as empty" in broker.messages()
    assert "leader epochs are lost" in broker.messages()
    assert_serves(broker, image.records)


def test_damaged_producer_snapshots_are_dropped(broker: KcliBroker, image: Image) -> None:
    broker.start()
    assert broker.stop() == 0
    found = list(log_of(broker).glob("*.snapshot"))
    assert found
    for path in found:
        cut_odd(path)
    broker.start()
    assert "damaged producer snapshot" in broker.messages()
    assert_serves(broker, image.records)


def test_a_torn_metadata_log_is_cut(broker: KcliBroker, image: Image) -> None:
    (path,) = (broker.node_directory / "__cluster_metadata-0").glob("*.log")
    with path.open("ab") as file:
        file.write(path.read_bytes()[:37])
    broker.start()
    assert "metadata log" in broker.messages()
    assert_serves(broker, image.records)


def as_root(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command that others than root may not."""
    prefix: tuple[str, ...] = ()
    if os.geteuid():
        need("sudo")
        prefix = ("sudo", "-n")
    return subprocess.run([*prefix, *command], capture_output=True, text=True, check=False)


def remount(path: Path, options: str) -> None:
    """Change a mounted file system."""
    done = as_root("mount", "-o", f"remount,{options}", path)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MB."""
    path = tmp_path / "small-disk"
    path.mkdir()
    mounted = as_root("mount", "-t", "tmpfs", "-o", "size=6m,mode=777", "tmpfs", path)
    if mounted.returncode != 0:
        unavailable(f"mounting a small file system needs root: {mounted.stderr.strip()}")
    yield path
    assert as_root("umount", "-l", path).returncode == 0


def fill(broker: KcliBroker, topic: str, partition: int) -> KafkaError:
    """Produce until the broker refuses; its error."""
    large = TestRecord(partition, -1, int(time.time() * 1000), None, bytes(200_000))
    for _ in range(100):
        try:
            produce(broker.bootstrap, topic, [large], {"retries": 0, "message.timeout.ms": 5000})
        except KafkaException as refused:
            error = refused.args[0]
            assert isinstance(error, KafkaError)
            # A slow moment is no refusal. Once a directory has failed nobody answers for its partitions.
            has_failed = re.search("No space left|directory is offline", broker.messages())
            if error.code() != KafkaError._MSG_TIMED_OUT or has_failed:
                return error
    raise AssertionError("20 MB went onto a disk of 6 MB")


def test_a_full_disk_takes_its_own_partitions_offline(
    new_kcli_broker: Callable[..., KcliBroker], small_disk: Path
) -> None:
    broker = new_kcli_broker()
    large = broker.directory / "large"
    broker = new_kcli_broker({"log.dirs": f"{large},{small_disk / 'logs'}"}).start()
    create_topic(broker.bootstrap, "spread", 2)
    on_small = next(n for n in (0, 1) if (small_disk / "logs" / f"spread-{n}").is_dir())
    on_large = 1 - on_small
    kept = generate(1, on_large, 100, Shape())
    produce(broker.bootstrap, "spread", kept)
    assert fill(broker, "spread", on_small).code() in (
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError._MSG_TIMED_OUT,
    )
    eventually(
        lambda: re.search(r"No space left on device.*offline", broker.messages()) is not None,
        "the failure is told",
        seen=broker.messages,
    )
    assert len(read_partition(broker.bootstrap, "spread", on_large)) == 100
    produce(broker.bootstrap, "spread", kept)
    broker.kill()
    # With room again, everything acknowledged is there.
    remount(small_disk, "size=40m")
    broker.start()
    records = read_partition(broker.bootstrap, "spread", on_small)
    assert records
    assert all(record.value == bytes(200_000) for record in records)
    assert len(read_partition(broker.bootstrap, "spread", on_large)) == 200


def test_a_directory_that_fails_is_told_of_while_its_node_goes_on(
    new_kcli_broker: Callable[..., KcliBroker], small_disk: Path, kafka_tool: KafkaTools
) -> None:
    large = new_kcli_broker().directory / "large"
    roots = {"log.dirs": f"{large},{small_disk}"}
    broker = new_kcli_broker(roots, arguments=("--nodes", "2")).start()
    create_topic(broker.bootstrap, "spread", 4)
    replica = next(small_disk.glob("node-*/spread-*"))
    failing, partition = replica.parent, int(replica.name.removeprefix("spread-"))
    fill(broker, "spread", partition)
    described = kafka_tool("kafka-log-dirs", "--bootstrap-server", broker.bootstrap, "--describe")
    assert described.code == 0
    errors = {
        log_dir["logDir"]: log_dir["error"]
        for each in json.loads(described.lines[-1])["brokers"]
        for log_dir in each["logDirs"]
    }
    assert errors.pop(str(failing)) == "org.apache.kafka.common.errors.KafkaStorageException"
    assert set(errors.values()) == {None}
    assert set(errors) >= {f"{large}/node-1", f"{large}/node-2"}


def test_directories_that_are_taken_away_are_offline_and_without_the_last_the_broker_ends(
    new_kcli_broker: Callable[..., KcliBroker],
) -> None:
    root = new_kcli_broker().directory
    first, second = root / "first", root / "second"
    broker = new_kcli_broker(
        {"log.dirs": f"{first},{second}", "replica.high.watermark.checkpoint.interval.ms": "500"}
    ).start()
    create_topic(broker.bootstrap, "spread", 2)
    lost = next(n for n in (0, 1) if (second / f"spread-{n}").is_dir())
    second.rename(root / "elsewhere")
    second.mkdir()
    gone = re.compile(f"`{re.escape(str(second))}.*; the directory is offline")
    eventually(lambda: gone.search(broker.messages()), "the directory that is another one is noticed")
    kept = generate(1, 1 - lost, 10, Shape())
    produce(broker.bootstrap, "spread", kept)
    assert len(read_partition(broker.bootstrap, "spread", 1 - lost)) == 10
    assert fill(broker, "spread", lost).code() in (KafkaError.KAFKA_STORAGE_ERROR, KafkaError._MSG_TIMED_OUT)
    first.rename(root / "elsewhere, too")
    assert broker.process.process.wait(timeout=60) == 1
    assert re.search(f"`{re.escape(str(first))}.*; the directory is offline", broker.messages())
    assert "every log directory has failed" in broker.messages()
    assert "Traceback" not in broker.messages()


def test_a_full_only_disk_ends_the_broker_with_a_clear_line(
    new_kcli_broker: Callable[..., KcliBroker], small_disk: Path
) -> None:
    broker = new_kcli_broker({"log.dirs": str(small_disk / "logs")}).start()
    create_topic(broker.bootstrap, "only")
    fill(broker, "only", 0)
    assert broker.process.process.wait(timeout=PATIENCE_SECONDS) == 1
    assert "every log directory has failed" in broker.messages()
    assert "No space left on device" in broker.messages()
    assert "Traceback" not in broker.messages()
    remount(small_disk, "size=40m")
    broker.start()
    assert all(record.value == bytes(200_000) for record in read_partition(broker.bootstrap, "only", 0))


def test_a_read_only_directory_is_refused_in_one_line(
    new_kcli_broker: Callable[..., KcliBroker], small_disk: Path
) -> None:
    remount(small_disk, "ro")
    broker = new_kcli_broker({"log.dirs": str(small_disk / "logs")})
    process = broker.launch()
    assert process.process.wait(timeout=PATIENCE_SECONDS) == 1
    (error,) = [line for line in broker.messages().splitlines() if line.startswith("error: ")]
    assert re.match(r"error: no log directory .*Read-only file system", error)
    assert "Traceback" not in broker.messages()


def test_a_read_only_directory_beside_a_good_one_is_offline(
    new_kcli_broker: Callable[..., KcliBroker], small_disk: Path
) -> None:
    remount(small_disk, "ro")
    broker = new_kcli_broker()
    large = broker.directory / "large"
    broker = new_kcli_broker({"log.dirs": f"{large},{small_disk / 'logs'}"}).start()
    assert "Read-only file system" in broker.messages()
    create_topic(broker.bootstrap, "good", 3)
    produce(broker.bootstrap, "good", generate(1, 2, 10, Shape()))
    assert len(read_partition(broker.bootstrap, "good", 2)) == 10
