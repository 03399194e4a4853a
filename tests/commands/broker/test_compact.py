"""`kcli broker compact`: its output, what it refuses, a real process and its directory at rest."""

from __future__ import annotations

import errno
import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.process import control_server
from kcli.broker.process.control_server import LongOperation
from kcli.cli import main
from kcli.commands.shared import progress
from kcli.errors import KcliError
from tests.commands.broker.control import answering
from tests.support.kcli_broker import KcliBroker
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.commands.conftest import Transcript
    from tests.conftest import Finished


def row(node: int | None, partition: int, **values: Any) -> dict[str, Any]:
    dropped = {"newer_value": 28_990, "tombstone": 4, "aborted": 3, "marker": 2, "keyless": 1}
    return {
        "node": node,
        "topic": "orders",
        "partition": partition,
        "segments_before": 3,
        "segments_after": 1,
        "bytes_before": 3_145_728,
        "bytes_after": 104_857,
        "records_before": 30_000,
        "records_after": 1000,
        "dropped": dropped,
        "horizons_set": 5,
        "first_dirty_offset": 12_000,
        "end_offset": 31_000,
        "bounded_by": "active_segment",
        "producer_id": None,
        **values,
    }


NOTHING = dict.fromkeys(("newer_value", "tombstone", "aborted", "marker", "keyless"), 0)
EMPTY: dict[str, Any] = {
    **dict.fromkeys(("segments_before", "segments_after", "bytes_before", "bytes_after"), 0),
    **dict.fromkeys(("records_before", "records_after", "horizons_set"), 0),
    "dropped": NOTHING,
}
ROWS = [
    row(1, 0),
    row(1, 1, bounded_by="last_stable_offset", producer_id=4711),
    row(2, 0, **EMPTY, first_dirty_offset=5, end_offset=5, bounded_by="compaction_lag"),
    row(2, 2, dropped=NOTHING, bounded_by="full_map"),
    row(3, 0, **EMPTY, first_dirty_offset=0, end_offset=0),
]


async def compact(cluster: object, arguments: Mapping[str, Any]) -> LongOperation:
    """Nodes 1, 2 and 3 have compacted logs; partition 9 cannot be compacted, and node 4 is down."""
    if arguments["node"] == 7:
        raise KcliError("there is no node 7", hint="the nodes are 1, 2")

    async def until(left: trio.Event) -> dict[str, Any]:
        failures = []
        if arguments["partitions"] == [["orders", 9]]:
            failures = [{"error": "node 1 did not compact orders-9: the log has changed", "hint": None}]
        rows = [each for each in ROWS if arguments["node"] in (None, each["node"])]
        warnings = [] if arguments["node"] else ["node 4 is dead: its replicas of `orders` stay as they are"]
        return {
            "partitions": rows,
            "failures": failures,
            "warnings": warnings,
            "roll_helps": arguments["node"] == 3,
        }

    return LongOperation(until)


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A control socket that answers at once."""
    monkeypatch.setenv("KCLI_DATA_DIR", str(tmp_path))
    with answering(tmp_path, {"log.compact": compact}):
        yield


@pytest.mark.usefixtures("process")
def test_what_it_shows(transcript: Transcript) -> None:
    transcript(
        "broker_compact",
        "broker compact",
        "broker compact --node 1 --dry-run",
        "broker compact -o table",
        "broker compact --node 1 -o json --dry-run",
        "broker compact orders:9 --node 2",
        "broker compact orders:0 --node 3",
        "broker compact orders:0 --node 3 -o table",
        "broker compact --node 3 -o table",
        "broker compact --node 7",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("orders: ", "not TOPIC:PARTITION: orders:"),
        (":1", "the topic name is empty"),
        ("--log-dirs a --roll", "`--roll` and `--log-dirs` exclude each other"),
        ("--log-dirs a --data-dir b", "`--data-dir` and `--log-dirs` exclude each other"),
        ("--log-dirs a --node 1", "`--node` and `--log-dirs` exclude each other"),
        ("--log-dirs ,", "`--log-dirs` cannot be empty"),
        ("--now yesterday", "`--now` cannot be yesterday"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: str,
    message: str,
    tmp_path: Path,
    kcli: Callable[..., Finished],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KCLI_DATA_DIR", str(tmp_path))
    finished = kcli("broker", "compact", *words.split())
    assert finished.exit_code == 2
    assert finished.err.splitlines()[0] == f"error: {message}"


def moved(shown: bytes) -> list[str]:
    """Return the lines that a terminal got, without what moves its cursor."""
    return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", shown.decode()).replace("\r", "\n").splitlines()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show the progress of short work, too, on a terminal without colours."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(progress, "SHORT_SECONDS", 0)
    monkeypatch.setattr(progress, "STEP_SECONDS", 0)
    monkeypatch.setattr(control_server, "TELL_SECONDS", 0.01)


@pytest.mark.usefixtures("at_once")
def test_a_terminal_gets_a_bar_and_json_none(tmp_path: Path) -> None:
    told: list[int] = []
    enough = trio.Event()

    def tell() -> dict[str, Any]:
        told.append(len(told))
        if len(told) > 20:
            enough.set()
        return {
            "log": f"orders-{len(told) // 10}\x1b[31m",
            "number": 1 + len(told) // 10,
            "logs": 3,
            "bytes_read": 1_000_000 * len(told),
            "bytes_to_read": 40_000_000 if len(told) > 5 else 0,
        }

    async def slow(cluster: object, arguments: Mapping[str, Any]) -> LongOperation:
        async def until(left: trio.Event) -> dict[str, Any]:
            if not arguments["dry_run"]:
                await enough.wait()
            return {"partitions": ROWS[:1], "failures": []}

        return LongOperation(until, progress=tell)

    with answering(tmp_path, {"log.compact": slow}):
        line = ["broker", "compact", "--data-dir", str(tmp_path)]
        with Terminal() as terminal:
            assert main(line) == 0
        assert len(told) > 20
        with Terminal() as silent:
            assert main([*line, "-o", "json"]) == 0
    lines = moved(terminal.shown)
    bars = [each for each in lines if each.startswith("log ")]
    assert any(each.startswith("log 1 of 3: orders-0\\x1b[31m ") and "/?" in each for each in bars)
    assert any(each.startswith("log 3 of 3: orders-2") and "/40.0 MB" in each for each in bars)
    assert any("orders-0" in each and "28,990" in each for each in lines)
    assert b"log 1 of" not in silent.shown
    assert json.loads(silent.shown)["partitions"][0]["topic"] == "orders"


class Compacting:
    """Runs `broker compact`, and returns its JSON."""

    def __init__(self, kcli: Callable[..., Finished], *where: str) -> None:
        self._kcli = kcli
        self._where = where

    def __call__(self, *words: str) -> list[dict[str, Any]]:
        finished = self._kcli("broker", "compact", *words, *self._where, "-o", "json")
        assert (finished.exit_code, finished.err) == (0, "")
        partitions: list[dict[str, Any]] = json.loads(finished.out)["partitions"]
        return partitions

    def error(self, *words: str) -> str:
        return self.errors(*words)[0]

    def errors(self, *words: str) -> list[str]:
        """Return the error and its hint."""
        finished = self._kcli("broker", "compact", *words, *self._where)
        assert (finished.exit_code, finished.out) == (1, "")
        return finished.err.splitlines()


REFUSED = {
    "orders": [
        "error: topic `orders` is not compacted",
        "hint: `kcli configs alter orders --add cleanup.policy=compact` changes that",
    ],
    "nowhere": [
        "error: there is no replica of `nowhere` here",
        "hint: `kcli topics list` shows the topics",
    ],
    "compacted:7": [
        "error: there is no replica of `compacted-7` here",
        "hint: `kcli topics describe compacted` shows its partitions; here: 0",
    ],
    "compacted-0": ["error: there is no replica of `compacted-0` here", "hint: write `compacted:0`"],
    "__cluster_metadata": [
        "error: `__cluster_metadata` is never compacted",
        "hint: the controller replaces it with a snapshot when it is long",
    ],
}


def updates(keys: int, times: int) -> bytes:
    return b"".join(b"k%d\t%d%s\n" % (n % keys, n, b"x" * 100) for n in range(keys * times))


def files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


class Opened:
    """Records what is opened below a directory, which may only be read, and nothing of `hidden`."""

    def __init__(self, patch: pytest.MonkeyPatch, directory: Path) -> None:
        self.names: list[str] = []
        self.hidden = ""
        self._directory = f"{directory}/"
        self._open, self._listdir = os.open, os.listdir
        patch.setattr(os, "open", self._checked_open)
        patch.setattr(os, "listdir", self._checked_listdir)

    def _checked_open(self, path: str, flags: int, *others: Any, **named: Any) -> int:
        real = os.path.realpath(path)
        if real == self.hidden:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        if real.startswith(self._directory):
            assert not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC), real
            self.names.append(real.removeprefix(self._directory))
        return self._open(path, flags, *others, **named)

    def _checked_listdir(self, path: str) -> list[str]:
        if str(path) == self.hidden:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return self._listdir(path)


@pytest.mark.usefixtures("at_once")
def test_a_running_broker_and_its_directory_at_rest(tmp_path: Path, kcli: Callable[..., Finished]) -> None:
    broker = KcliBroker(tmp_path, settings={"log.cleaner.enable": "false"}).start()
    node = broker.node_directory
    at = ("-b", broker.bootstrap)
    settings = ("-c", "cleanup.policy=compact", "-c", "internal.segment.bytes=100000")
    assert kcli("topics", "create", "orders", "plain", *at).exit_code == 0
    assert kcli("topics", "create", "compacted", *settings, *at).exit_code == 0

    def produce() -> None:
        keyed = ("--reader-property", "parse.key=true")
        assert kcli("produce", "compacted", *keyed, *at, input=updates(10, 300)).exit_code == 0

    compact = Compacting(kcli, "--data-dir", str(broker.data))
    produce()
    before = files(node / "compacted-0")
    (foreseen,) = compact("--dry-run")
    assert files(node / "compacted-0") == before
    assert (foreseen["node"], foreseen["bounded_by"]) == (1, "active_segment")
    at_rest = Compacting(kcli, "--log-dirs", str(node))
    assert "is in use by process" in at_rest.error()
    # The checkpoint of high watermarks is not written yet, and nothing above them is compacted.
    (bounded,) = at_rest("--dry-run")
    assert (bounded["bounded_by"], bounded["end_offset"]) == ("last_stable_offset", 0)
    assert compact("compacted:0") == [foreseen]
    before = files(node / "compacted-0")
    (foreseen_rolled,) = compact("--dry-run", "--roll")
    assert files(node / "compacted-0") == before
    (rolled,) = compact("--roll")
    assert rolled == foreseen_rolled
    assert (rolled["first_dirty_offset"], rolled["end_offset"]) == (foreseen["end_offset"], 3000)
    assert (rolled["records_after"], rolled["segments_after"]) == (10, 1)
    for words, errors in REFUSED.items():
        assert [compact.errors(words), compact.errors(words, "--dry-run")] == [errors, errors]

    produce()
    broker.kill()
    assert at_rest.error() == f"error: the broker of `{node}` was not stopped in order"
    broker.start()
    assert broker.stop() == 0
    before = files(node)
    (foreseen,) = at_rest("compacted", "--dry-run")
    with Terminal() as terminal:
        assert main(["broker", "compact", "compacted", "--dry-run", "--log-dirs", str(node)]) == 0
    assert any(each.startswith("log 1 of 1: compacted-0 ") for each in moved(terminal.shown))
    assert files(node) == before
    with pytest.MonkeyPatch.context() as patch:
        opened = Opened(patch, node)
        assert at_rest("compacted", "--dry-run") == [foreseen]
        logs = [name for name in opened.names if name.endswith(".log")]
        assert {name for name in logs if "metadata" not in name} == {
            f"compacted-0/{path.name}" for path in (node / "compacted-0").glob("*.log")
        }
        for hidden in (node, node / "compacted-0", node / "__cluster_metadata-0"):
            opened.hidden = str(hidden)
            assert at_rest.errors("--dry-run") == [
                f"error: cannot read `{hidden}`: Permission denied",
                "hint: run the command as the user of the broker, or let this user read the directory",
            ]
        opened.hidden = str(node / "compacted-0" / f"{0:020}.log")
        assert at_rest.error("--dry-run").endswith(
            f"cannot compact compacted-0 in `{node}`: Permission denied"
        )
    assert foreseen["first_dirty_offset"] == 3000
    assert at_rest("compacted") == [foreseen]
    for words, errors in REFUSED.items():
        assert [at_rest.errors(words), at_rest.errors(words, "--dry-run")] == [errors, errors]
    assert not [name for name in files(node) if name.endswith((".deleted", ".cleaned", ".swap"))]
    assert kcli("verify-index", str(node)).exit_code == 0
    broker.start()
    assert "recovering" not in broker.messages().rpartition("stopping")[2]
    (nothing,) = compact()
    assert nothing["first_dirty_offset"] == nothing["end_offset"] == foreseen["end_offset"]
    assert broker.stop() == 0


def test_what_is_no_log_directory_is_refused(tmp_path: Path, kcli: Callable[..., Finished]) -> None:
    def error(*directories: Path) -> str:
        named = ",".join(map(str, directories))
        return Compacting(kcli, "--log-dirs", named).error("--dry-run")

    assert error(tmp_path / "nowhere") == f"error: `{tmp_path / 'nowhere'}` is not a log directory of a node"
    one, two = tmp_path / "one", tmp_path / "two"
    for number, path in enumerate((one, two)):
        path.mkdir()
        text = f"version=1\ncluster.id=abc\nnode.id={number}\n"
        (path / "meta.properties").write_text(text)
    assert error(one, two) == f"error: `{one}` and `{two}` belong to different nodes"
    assert error(one) == f"error: there is no `__cluster_metadata-0` in `{one}`"
