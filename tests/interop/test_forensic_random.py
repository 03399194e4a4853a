"""Random damage, bombs, and files that are being written: no crash, no hang, no false word."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from kcli.cli import main
from kcli.commands.shortcut import run_shortcut
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_header import crc32c
from tests.support import peak
from tests.support.harms import entries_of_log, entry_at, first_difference
from tests.support.hostile_records import MEGABYTE, batch, bomb
from tests.support.log_files import write_at_rest
from tests.support.producing import create_topic, delete_topic
from tests.support.steady_load import SteadyLoad
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.apache_kafka import ApacheKafka
    from tests.support.forensic_corpus import Corpus
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

SEGMENT = ("apache/transactions-0", 15)
HEADER_BYTES = 61
MOST_MEMORY_BYTES = 128 * MEGABYTE
TIMEOUT_SECONDS = 180
ROUNDS = 5
ANY_PACE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
_SIZE = Struct(">i")
_CRC = Struct(">I")


class Edit(NamedTuple):
    """A change somewhere in a file: bytes taken out, and others put in."""

    at: float
    removed: int
    added: bytes

    def apply(self, data: bytes) -> bytes:
        """Return the changed data."""
        start = int(self.at * len(data))
        return data[:start] + self.added + data[start + self.removed :]


EDITS = st.lists(
    st.builds(
        Edit,
        st.floats(0, 1),
        st.integers(0, 300) | st.just(10**6),
        st.binary(max_size=40) | st.integers(1, 200).map(bytes),
    ),
    min_size=1,
    max_size=3,
)


def is_sound(data: bytes) -> bool:
    """Whether the data is nothing but batches whose checksums match: written anew for this test."""
    start = 0
    while start < len(data):
        if len(data) - start < HEADER_BYTES or data[start + 16] != 2:
            return False
        end = start + 12 + _SIZE.unpack_from(data, start + 8)[0]
        if not start + HEADER_BYTES <= end <= len(data):
            return False
        if crc32c(data[start + 21 : end]) != _CRC.unpack_from(data, start + 17)[0]:
            return False
        start = end
    return True


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Run kcli in this process; its exit code and the objects that it printed."""
    capfd.readouterr()
    line = [*arguments, "-o", "json"]
    exit_code = run_shortcut(line)
    if exit_code is None:
        exit_code = main(line)
    captured = capfd.readouterr()
    assert exit_code in (0, 3), captured.err
    return exit_code, [json.loads(line) for line in captured.out.splitlines()]


@settings(max_examples=80, suppress_health_check=ANY_PACE)
@given(edits=EDITS)
def test_random_damage_to_a_log_is_told(
    corpus: Corpus, tmp_path: Path, capfd: pytest.CaptureFixture[str], edits: list[Edit]
) -> None:
    partition, base = SEGMENT
    name = f"{base:020}.log"
    original = (corpus.directory / partition / name).read_bytes()
    copy = tmp_path / "transactions-0"
    if not copy.exists():
        shutil.copytree(corpus.directory / partition, copy)
    data = original
    for edit in edits:
        data = edit.apply(data)
    write_at_rest(copy / name, data)
    exit_code, objects = run(capfd, "dump-log", "--continue", str(copy / name))
    damages = [each for each in objects if each["type"] == "damage"]
    entries = entries_of_log(original)
    harmed = entry_at(entries, first_difference(original, data))
    whole = [each["position"] for each in objects if each["type"] == "batch" and each["is_valid"]]
    assert [entry.start for entry in entries if entry.end <= harmed] == [
        position for position in whole if position < harmed
    ]
    if not is_sound(data):
        assert damages
        assert damages[0]["position"] == harmed
        assert exit_code == 3 or all(each["is_harmless"] for each in damages)
    verified, findings = run(capfd, "verify-index", str(copy), "--deep")
    assert verified in (0, 3)
    if exit_code == 3:
        assert verified == 3
        assert any(str(each.get("file", "")).endswith(name) for each in findings)


@settings(max_examples=80, suppress_health_check=ANY_PACE)
@given(edits=EDITS, data=st.data())
def test_random_damage_to_the_other_files_is_no_surprise(
    corpus: Corpus,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    edits: list[Edit],
    data: st.DataObject,
) -> None:
    partition, _ = SEGMENT
    copy = tmp_path / "transactions-0"
    if not copy.exists():
        shutil.copytree(corpus.directory / partition, copy)
    names = sorted(path.name for path in copy.iterdir() if path.suffix != ".log")
    path = copy / data.draw(st.sampled_from(names))
    original = path.read_bytes()
    changed = original
    for edit in edits:
        changed = edit.apply(changed)
    try:
        path.write_bytes(changed)
        for command in ("dump-log", "verify-index"):
            assert run(capfd, command, str(copy))[0] in (0, 3)
    finally:
        path.write_bytes(original)


def peak_memory(report: Path, *arguments: str | Path) -> tuple[int, int]:
    """Run kcli; its exit code and the most memory that it had."""
    command = [sys.executable, "-IS", peak.SCRIPT, report, sys.executable, "-m", "kcli", *arguments]
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=TIMEOUT_SECONDS, check=False
    )
    return done.returncode, int(report.read_text())


CLAIMS = {
    "sizes of two gigabytes": batch(b"", count=0, length=2**31 - 1) * 1000,
    "two thousand million records": batch(b"", count=2**31 - 1, last_offset_delta=2**31 - 2) * 1000,
    "bombs of a gigabyte": b"".join(
        batch(bomb(codec, 1024 * MEGABYTE), codec=codec) for codec in (Codec.LZ4, Codec.ZSTD)
    ),
    "noise": bytes(range(1, 256)) * 20_000,
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_memory_does_not_follow_what_a_file_claims(tmp_path: Path, claim: str) -> None:
    partition = tmp_path / "claims-0"
    partition.mkdir()
    log = partition / f"{0:020}.log"
    log.write_bytes(CLAIMS[claim])
    for arguments in (
        ("verify-index", "--deep", partition),
        ("dump-log", "--continue", log),
        ("dump-log", "--continue", "--deep-iteration", log),
    ):
        exit_code, peak = peak_memory(tmp_path / "peak", *arguments)
        assert exit_code == 3
        assert peak < MOST_MEMORY_BYTES, f"{arguments[0]}: {peak / MEGABYTE:.0f} MB"


# --- while it is written


@pytest.mark.parametrize("kind", ["kcli", "apache"])
def test_a_segment_that_is_being_written_is_read_to_its_valid_end(
    request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    broker: KcliBroker | ApacheKafka = request.getfixturevalue(
        {"kcli": "kcli_broker", "apache": "apache_kafka"}[kind]
    )
    topic = "written-while-read"
    create_topic(broker.bootstrap, topic, 1, {"segment.bytes": "1048576", "index.interval.bytes": "1024"})
    partition = broker.node_directory / f"{topic}-0"
    ends: list[int] = []
    try:
        with SteadyLoad(broker.bootstrap, topic, 1, per_second=5000) as load:
            eventually(lambda: any(path.stat().st_size for path in partition.glob("*.log")), "a log")
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while len(set(ends)) < ROUNDS and time.monotonic() < deadline:
                exit_code, objects = run(capfd, "dump-log", "--continue", str(partition), "--kind", "log")
                assert [
                    each for each in objects if each["type"] == "damage" and not each["is_harmless"]
                ] == []
                assert exit_code == 0
                ends += [each["last_offset"] for each in objects if each["type"] == "batch"][-1:]
                exit_code, objects = run(capfd, "verify-index", str(partition), "--deep")
                assert [each for each in objects if each.get("severity") in ("error", "warning")] == []
                assert exit_code == 0
            load.stop()
        assert ends == sorted(ends)
        assert len(set(ends)) >= ROUNDS
    finally:
        delete_topic(broker.bootstrap, topic)
