"""`dump-log`: damage is explained, and repaired in a copy; a log that is being written has none."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.commands.conftest import Transcript
from tests.commands.dump.dumped_replicas import KEYED, Kcli, log_directory, objects, types
from tests.support.log_files import batch_of, segment

DAMAGE = ("flip", "size", "magic", "cut", "tail", "zeros", "garbage", "twice", "records")


def damaged(how: str) -> bytes:
    """Three batches, the second of which is damaged."""
    batches = [batch_of(KEYED, number * 4) for number in range(3)]
    second = bytearray(batches[1])
    match how:
        case "flip":
            second[70] ^= 1
        case "size":
            second[8] = 0x7F
        case "magic":
            second[16] = 9
        case "cut":
            return batches[0] + batches[1][:100]
        case "tail":
            return b"".join(batches) + b"tail"
        case "zeros":
            return b"".join(batches) + bytes(5000)
        case "garbage":
            return batches[0] + b"x" * 100 + batches[1] + batches[2]
        case "twice":
            return batches[0] + batches[1] + batches[1] + batches[2]
        case "records":
            from kcli.protocol.records.batch_header import update_crc

            second[61] = 0x7F
            update_crc(second, 0)
    return b"".join([batches[0], bytes(second), batches[2]])


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_is_explained(
    here: Path, transcript: Transcript, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("kcli.commands.dump.dump_errors.absolute", lambda path: f"/here/{path}")
    segment(here / "x-0", [damaged(how)])
    flags = " --deep-iteration" if how == "records" else ""
    transcript(
        f"dump_log_damage_{how}",
        f"dump-log x-0 -o text{flags}",
        f"dump-log x-0 -o json{flags} --continue",
        "dump-log x-0 --summary -o text --continue",
    )


def test_repair(here: Path, transcript: Transcript) -> None:
    segment(here / "x-0", [damaged("garbage")])
    segment(here / "x-0", [batch_of(KEYED, 12)], 12)
    transcript(
        "dump_log_repair",
        "dump-log x-0 --repair cut -o text",
        "dump-log x-0 --repair carved --continue -o table",
        f"dump-log x-0/{0:020}.log --repair one --continue -o json",
        "dump-log carved/x-0 -o text",
        "dump-log x-0 --repair carved",
    )


@pytest.mark.parametrize("how", DAMAGE)
def test_a_repair_says_where_more_could_be_copied(here: Path, kcli: Kcli, how: str) -> None:
    segment(here / "x-0", [damaged(how)])
    deep = ("--deep-iteration",) if how == "records" else ()
    finished = kcli("dump-log", "x-0", "--repair", "cut", *deep)
    carved = kcli("dump-log", "x-0", "--repair", "carved", "--continue", *deep, "-o", "table")
    has_more = b"".join(copied(here / "cut")) != b"".join(copied(here / "carved"))
    hint = "hint: `--continue` copies the valid batches behind it, too"
    assert (hint in finished.err.splitlines()) is has_more
    assert "hint:" not in carved.err


def copied(directory: Path) -> list[bytes]:
    """What a copy has of the log."""
    return [path.read_bytes() for path in sorted(directory.glob("x-0/*.log"))]


def test_a_copy_that_cannot_be_made_is_told_by_where_it_would_be(here: Path, kcli: Kcli) -> None:
    segment(here / "x-0", [damaged("garbage")])
    (here / "file").touch()
    finished = kcli("dump-log", "x-0", "--repair", "file/copy")
    assert (finished.exit_code, finished.out) == (1, "")
    assert finished.err.startswith("error: cannot create `file/copy")


BEFORE_RANGE = ("--from-offset", "8")
BEHIND_RANGE = ("--to-offset", "4")
AROUND_RANGE = ("--from-offset", "5", "--to-offset", "6")


@pytest.mark.parametrize("how", ["flip", "garbage", "size", "magic", "cut", "tail", "records"])
@pytest.mark.parametrize("form", ["text", "table", "json"])
def test_damage_outside_of_the_asked_offsets_is_only_counted(
    here: Path, kcli: Kcli, how: str, form: str
) -> None:
    segment(here / "x-0", [damaged(how)])
    options = ("--continue", "--deep-iteration", "-o", form)
    behind = kcli("dump-log", "x-0", *BEHIND_RANGE, *options)
    # What the records hold is looked at only in batches that are shown.
    note = "" if how == "records" else "note: 1 damaged place outside of these offsets\n"
    assert (behind.exit_code, behind.err) == (0, note)
    whole = kcli("dump-log", "x-0", *options)
    assert whole.exit_code == 3
    if how in ("flip", "garbage", "size", "magic"):
        before = kcli("dump-log", "x-0", *BEFORE_RANGE, *options)
        assert (before.exit_code, before.err) == (0, note)
    if how in ("flip", "size", "magic"):
        inside = kcli("dump-log", "x-0", *AROUND_RANGE, *options)
        assert inside.exit_code == 3
        assert "outside" not in inside.err


def test_damage_that_ends_a_dump_before_the_asked_offsets_is_shown(here: Path, kcli: Kcli) -> None:
    segment(here / "x-0", [damaged("garbage")])
    finished = kcli("dump-log", "x-0", *BEFORE_RANGE, "-o", "text")
    assert finished.exit_code == 3
    assert "garbage" in finished.err
    assert "`--continue` goes on behind the damage" in finished.err


@pytest.mark.parametrize("form", ["text", "table"])
def test_a_repair_of_many_logs_shows_what_was_wrong_and_counts_the_rest(
    here: Path, kcli: Kcli, form: str
) -> None:
    for partition in range(50):
        segment(here / "data" / f"good-{partition}", [batch_of(KEYED)])
    places = [b"x" * 100 + batch_of(KEYED, number * 4) for number in range(9)]
    segment(here / "data" / "bad-0", places)
    segment(here / "data" / "bad-0", [batch_of(KEYED, 40)], 40)
    finished = kcli("dump-log", "data", "--repair", "out", "--continue", "-o", form)
    assert (finished.exit_code, len(list((here / "out").iterdir()))) == (3, 51)
    lines = finished.out.splitlines()
    assert len(lines) < 20
    if form == "text":
        assert lines[0].startswith("data/bad-0 -> out/bad-0: ")
        assert [line.strip() for line in lines[-3:]] == [
            "6 more damaged places: `kcli verify-index data/bad-0` lists all",
            "1 segment without damage: 136 bytes kept",
            "50 logs without damage: 6,800 bytes kept",
        ]


def test_originals_are_never_written(here: Path, kcli: Kcli) -> None:
    data = log_directory(here)
    segment(data / "x-0", [damaged("garbage")])
    before = {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in data.rglob("*") if path.is_file()
    }
    for path in before:
        path.chmod(0o444)
    kcli("dump-log", "data", "--print-data-log")
    kcli("dump-log", "data", "--repair", "out", "--continue")
    assert before == {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in data.rglob("*") if path.is_file()
    }


def test_a_log_that_grows_is_read_to_its_valid_end(here: Path, kcli: Kcli) -> None:
    whole = batch_of(KEYED)
    log = segment(here / "x-0", [whole])
    with log.open("ab") as writer:
        writer.write(whole[:30])
        writer.flush()
        finished = kcli("dump-log", "x-0", "-o", "json")
    assert types(finished) == ["file", "batch", "damage"]
    log.write_bytes(whole)
    assert kcli("dump-log", "x-0", "-o", "json").exit_code == 0


@pytest.mark.parametrize("flags", [(), ("--print-data-log",)], ids=["batches", "records"])
def test_a_log_that_is_being_written_has_nothing_wrong(
    here: Path, kcli: Kcli, flags: tuple[str, ...]
) -> None:
    log = segment(here / "x-0", [])

    def write() -> None:
        with log.open("ab", buffering=0) as file:
            for number in range(600):
                file.write(batch_of([(b"k", b"v" * 5000)] * 4, 4 * number))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        is_written = False
        while not is_written:
            is_written = not writer.is_alive()
            finished = kcli("dump-log", str(log), "-o", "text", *flags)
            assert finished.exit_code == 0, finished.err
            assert finished.err == ""
            assert "invalid" not in finished.out.replace("isvalid: true", "")
    finally:
        writer.join()


def test_a_file_that_is_no_log_is_damage_from_its_first_byte(here: Path, kcli: Kcli) -> None:
    segment(here / "x-0", [b"this is a text and no log at all\n" * 9])
    finished = kcli("dump-log", "x-0", "-o", "json")
    assert finished.exit_code == 3
    assert [(each["type"], each.get("position")) for each in objects(finished)] == [
        ("file", None),
        ("damage", 0),
    ]


@pytest.mark.parametrize("size", [3, -1])
@pytest.mark.parametrize(
    ("suffix", "entry", "name"),
    [
        (".index", bytes(3) + b"\x03" + bytes(4), "index entry"),
        (".timeindex", bytes(11) + b"\x03", "time index entry"),
        (".txnindex", bytes(34), "aborted transaction"),
    ],
    ids=["offset index", "time index", "transaction index"],
)
def test_bytes_that_are_no_whole_entry_are_damage_of_an_index(
    here: Path, kcli: Kcli, *, suffix: str, entry: bytes, name: str, size: int
) -> None:
    replica = here / "x-0"
    segment(replica, [batch_of(KEYED)])
    segment(replica, [], suffix=".index")
    path = replica / f"{0:020}{suffix}"
    path.write_bytes((entry * 2)[:size])
    excess = size % len(entry)
    finished = kcli("dump-log", str(path), "-o", "text")
    message = f"the last {excess} bytes are not a whole {name}: `{path}`"
    assert finished.exit_code == 3
    assert message in finished.err.splitlines()
    told = objects(kcli("dump-log", str(path), "-o", "json"))
    assert {"type": "damaged_file", "path": str(path), "message": message} in told


@pytest.mark.parametrize("options", [(), ("--index-sanity-check",)], ids=["dump", "sanity check"])
@pytest.mark.parametrize(
    ("suffix", "entry"), [(".index", bytes(3) + b"\x03" + bytes(4)), (".timeindex", bytes(11) + b"\x03")]
)
def test_an_entry_that_is_being_written_is_no_damage(
    here: Path,
    kcli: Kcli,
    monkeypatch: pytest.MonkeyPatch,
    *,
    suffix: str,
    entry: bytes,
    options: tuple[str, ...],
) -> None:
    replica = here / "x-0"
    segment(replica, [batch_of(KEYED)])
    segment(replica, [], suffix=".index")
    path = replica / f"{0:020}{suffix}"
    path.write_bytes(entry + entry[:5])
    pauses: list[float] = []

    def write_the_rest(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            path.write_bytes(entry * 2)

    monkeypatch.setattr("kcli.forensics.entries.segment_file.time.sleep", write_the_rest)
    dumped = kcli("dump-log", str(path), "-o", "json", *options)
    assert {"damaged_file", "failed_sanity_check"}.isdisjoint(types(dumped))
    assert len(pauses) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`meta.properties` is damaged: it names neither a node nor a cluster"),
        ("no properties", "`meta.properties` is damaged: it names neither a node nor a cluster"),
        ("version=1\nnode.id=1\nclust", "`meta.properties` is damaged: `cluster.id` is missing"),
        ("version=7\ncluster.id=c\n", "`meta.properties` has an unknown version, 7"),
    ],
)
def test_an_identity_that_no_broker_starts_on_is_damage(
    here: Path, kcli: Kcli, text: str, message: str
) -> None:
    (here / "meta.properties").write_text(text)
    segment(here / "x-0", [batch_of(KEYED)])
    dumped = kcli("dump-log", "meta.properties", "-o", "text")
    assert (dumped.exit_code, dumped.err.splitlines()[0]) == (3, message)
    verified = objects(kcli("verify-index", ".", "-o", "json"))
    found = [each["message"] for each in verified if each.get("kind") == "meta_properties_damaged"]
    assert found == [message.replace("`meta", "`./meta")]


def test_an_empty_identity_of_a_directory_without_replicas_is_as_good_as_none(here: Path, kcli: Kcli) -> None:
    (here / "meta.properties").touch()
    (here / "replication-offset-checkpoint").write_text("0\n0\n")
    assert kcli("dump-log", "meta.properties", "-o", "text").exit_code == 0
    verified = kcli("verify-index", ".", "-o", "json")
    assert "meta_properties_damaged" not in verified.out
