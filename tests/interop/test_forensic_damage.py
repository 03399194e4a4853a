"""The damage matrix: every harm at every place of small files is told: where, what, and with exit code 3."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kcli.commands.shortcut import run_shortcut
from tests.forensics.verification.sound_partition import (
    OFFSET_FIELDS,
    SNAPSHOT_FIELDS,
    TIME_FIELDS,
    TRANSACTION_FIELDS,
)
from tests.support.harms import (
    Harm,
    entries_of_log,
    entries_of_table,
    entry_at,
    entry_harms,
    field_harms,
    first_difference,
)
from tests.support.log_files import write_at_rest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.forensic_corpus import Corpus
    from tests.support.harms import Entry, Field

pytestmark = pytest.mark.interop

SEGMENTS: dict[str, tuple[str, int]] = {
    "transactions": ("apache/transactions-0", 15),
    "zstd": ("apache/codecs-0", 350),
    "every format": ("old-1.1/small-0", 0),
}
VAGUE = {"every format": frozenset({4, 5, 6, 8})}
"""Sets of older messages, and what stands before one: their headers do not say how many offsets they have."""

KINDS = {
    "offset": {"bad_offset", "offset_going_back"},
    "size": {"bad_size"},
    "magic": {"bad_magic"},
}
"""What is told when only that field is wrong; of all others the checksum tells."""

HEADER_BYTES = (18, 26, 61)


class Sound(NamedTuple):
    """A sound segment."""

    path: Path
    data: bytes
    entries: list[Entry]
    vague: frozenset[int]
    """Entries whose offset may be one more or less, as far as headers tell."""

    @property
    def has_witnesses(self) -> bool:
        """Whether there are other files that tell what a log cannot tell of itself."""
        return self.path.with_suffix(".index").exists()


@pytest.fixture(params=SEGMENTS)
def sound(request: pytest.FixtureRequest, corpus: Corpus) -> Sound:
    partition, base = SEGMENTS[request.param]
    path = corpus.directory / partition / f"{base:020}.log"
    data = path.read_bytes()
    return Sound(path, data, entries_of_log(data), VAGUE.get(request.param, frozenset()))


class Dumped(NamedTuple):
    """What dump-log said as JSON."""

    exit_code: int
    objects: list[dict[str, Any]]
    errors: str

    def damages(self) -> list[dict[str, Any]]:
        """What is wrong, but for what is harmless."""
        return [each for each in self.of("damage") if not each["is_harmless"]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.objects if each["type"] == kind]

    def valid(self) -> set[tuple[int, int]]:
        """Last offset and checksum of the batches that are well."""
        return {(each["last_offset"], each["crc"]) for each in self.of("batch") if each["is_valid"]}


class Verified(NamedTuple):
    """What verify-index said as JSON."""

    exit_code: int
    findings: list[dict[str, Any]]
    errors: str

    def problems(self, suffix: str = "") -> list[dict[str, Any]]:
        """What is wrong with files whose names end like that, but for notes."""
        return [
            each for each in self.findings if each["severity"] != "info" and each["file"].endswith(suffix)
        ]


def verify(directory: Path, capfd: pytest.CaptureFixture[str], *options: str) -> Verified:
    capfd.readouterr()
    exit_code = run_shortcut(["verify-index", "-o", "json", *options, str(directory)])
    captured = capfd.readouterr()
    objects = [json.loads(line) for line in captured.out.splitlines()]
    return Verified(exit_code, [each for each in objects if "kind" in each], captured.err)


def dump(path: Path, capfd: pytest.CaptureFixture[str]) -> Dumped:
    capfd.readouterr()
    exit_code = run_shortcut(["dump-log", "--continue", "-o", "json", str(path)])
    captured = capfd.readouterr()
    return Dumped(exit_code, [json.loads(line) for line in captured.out.splitlines()], captured.err)


def test_harm_to_a_log_is_told_by_dump_log(
    sound: Sound, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / sound.path.name
    write_at_rest(path, sound.data)
    before = dump(path, capfd)
    assert (before.exit_code, before.damages()) == (0, [])
    valid = [(each["last_offset"], each["crc"]) for each in before.of("batch")]
    wrong = []
    for harm in [*field_harms(sound.data, sound.entries), *entry_harms(sound.data, sound.entries)]:
        write_at_rest(path, harm.data)
        wrong += [f"{harm}: {why}" for why in judge(sound, harm, dump(path, capfd), valid)]
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:60])


class Expected(NamedTuple):
    """Where the first damage is, and which kinds it may be; no kinds if a log alone cannot tell."""

    position: int
    kinds: set[str]


ANY = {"bad_crc", "bad_size", "bad_magic", "bad_offset", "offset_going_back", "garbage", "garbage_tail"} | {
    "truncated_batch",
    "truncated_header",
    "zeros",
}


def expected(sound: Sound, harm: Harm) -> Expected:
    """What dump-log must tell of a harm."""
    entry = sound.entries[harm.entry]
    is_last = entry is sound.entries[-1]
    at = entry_at(sound.entries, first_difference(sound.data, harm.data))
    if harm.verb.startswith("cut"):
        left = len(harm.data) - entry.start
        header = HEADER_BYTES[sound.data[entry.start + 16]]
        # A log may end behind any entry: the other files of the partition must tell.
        torn = {"truncated_header" if left < header else "truncated_batch"}
        return Expected(entry.start, torn if left else set())
    if (harm.verb, harm.field) == ("swap", "all"):
        # A gap comes first, which compaction may have left.
        return Expected(entry.start + sound.entries[harm.entry + 1].size, {"offset_going_back"})
    if (harm.verb, harm.field) == ("zero", "all"):
        # At the end that is space reserved for records to come.
        return Expected(entry.start, set() if is_last else {"zeros"})
    if len(harm.data) != len(sound.data):
        return Expected(at, ANY)
    if harm.field == "leader epoch":
        # No checksum covers it: leader-epoch-checkpoint must tell.
        return Expected(at, set())
    if harm.field == "offset" and harm.verb == "flip the last bit of" and harm.entry in sound.vague:
        return Expected(at, set())
    return Expected(at, KINDS.get(harm.field, {"bad_crc"}))


def judge(sound: Sound, harm: Harm, found: Dumped, valid: list[tuple[int, int]]) -> list[str]:
    """What is wrong with what dump-log said."""
    wrong = []
    damages = found.damages()
    told = [(each["position"], each["kind"]) for each in damages]
    position, kinds = expected(sound, harm)
    if found.exit_code != (3 if kinds else 0):
        wrong.append(f"exit code {found.exit_code} {found.errors[-300:]}")
    if kinds and (not told or told[0][0] != position or told[0][1] not in kinds):
        wrong.append(f"expected {position} {kinds}: {told}")
    if not kinds and told:
        wrong.append(f"expected nothing: {told}")
    others = {each for number, each in enumerate(valid) if number != harm.entry}
    if not harm.verb.startswith("cut") and not others <= found.valid():
        wrong.append(f"lost {others - found.valid()} {told}")
    return wrong


@pytest.fixture
def own(sound: Sound, tmp_path: Path) -> Path:
    """A copy of the segment, to be damaged, with the rest of its partition and the checkpoints."""
    log_directory = tmp_path / "copy"
    partition = sound.path.parent
    shutil.copytree(partition, log_directory / partition.name)
    for path in partition.parent.iterdir():
        if path.is_file():
            shutil.copy(path, log_directory)
    return log_directory / partition.name / sound.path.name


def test_harm_to_a_log_is_told_by_verify_index(
    sound: Sound, own: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = own.parent.parent
    before = verify(directory, capfd, "--deep")
    assert [each for each in before.problems() if each["kind"] != "index_missing"] == []
    wrong = []
    for harm in [*field_harms(sound.data, sound.entries), *entry_harms(sound.data, sound.entries)]:
        write_at_rest(own, harm.data)
        found = verify(directory, capfd, "--deep")
        position, kinds = expected(sound, harm)
        told = [(each["position"], each["kind"]) for each in found.problems(own.name)]
        if found.exit_code != 3:
            wrong.append(f"{harm}: exit code {found.exit_code} {found.errors[-300:]}")
        elif kinds and (not told or told[0][0] != position or told[0][1] not in kinds):
            wrong.append(f"{harm}: expected {position} {kinds}: {told}")
        elif len(found.problems()) == len(before.problems()) and sound.has_witnesses:
            wrong.append(f"{harm}: {found.findings}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:60])


# --- the other files

PRODUCER_FIELDS = (*SNAPSHOT_FIELDS, ("producers", 10, 92))
EPOCHS_FIELDS = (("version", 0, 2), ("count", 2, 2), ("first line", 4, 4), ("second line", 8, 6))


class Table(NamedTuple):
    """A file of a partition whose rows are alike, how findings may begin, and which harms are none."""

    file: str
    fields: tuple[Field, ...]
    kinds: tuple[str, ...]
    harmless: tuple[str, ...] = ()


TABLES = {
    "offset index": Table(
        f"apache/codecs-0/{0:020}.index",
        OFFSET_FIELDS,
        ("index_",),
        # An index may have as few entries as it likes, and space for more; one may stand for several batches.
        ("cut before offset", "zero all of entry 18", "zero position of entry 0"),
    ),
    "time index": Table(f"apache/codecs-0/{0:020}.timeindex", TIME_FIELDS, ("time_index_", "index_")),
    "transaction index": Table(
        f"apache/transactions-0/{15:020}.txnindex", TRANSACTION_FIELDS, ("transaction_index_", "index_")
    ),
    "snapshot": Table(f"apache/transactions-0/{45:020}.snapshot", PRODUCER_FIELDS, ("snapshot_",)),
    "epochs": Table(
        "apache/codecs-0/leader-epoch-checkpoint",
        EPOCHS_FIELDS,
        ("leader_epoch",),
        # The line then ends with another kind of white space, which a broker reads too.
        ("flip the last bit of second line",),
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_harm_to_another_file_is_told_by_verify_index(
    corpus: Corpus, tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    table = TABLES[name]
    original = corpus.directory / table.file
    data = original.read_bytes()
    partition = tmp_path / original.parent.name
    shutil.copytree(original.parent, partition)
    entries = entries_of_table(data, table.fields)
    assert verify(partition, capfd).exit_code == 0
    wrong = []
    for harm in [*field_harms(data, entries), *entry_harms(data, entries)]:
        (partition / original.name).write_bytes(harm.data)
        found = verify(partition, capfd)
        told = found.problems(original.name)
        if str(harm).startswith(table.harmless or "-"):
            wrong += [f"{harm}: {told}"] if told else []
            continue
        position = entry_at(entries, first_difference(data, harm.data))
        # Of two that changed places the second is out of order.
        places = {None, position, position + entries[0].size if harm.verb == "swap" else position}
        if len(entries) == 1:
            places.add(0)
        if found.exit_code != 3 or not told:
            wrong.append(f"{harm}: {found.exit_code} {found.findings} {found.errors[-300:]}")
        elif told[0]["position"] not in places:
            wrong.append(f"{harm}: expected {position}: {told}")
        elif any(not each["kind"].startswith(table.kinds) for each in told):
            wrong.append(f"{harm}: {told}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:60])
