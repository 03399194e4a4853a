"""Imports point down: every module's syntax tree is held against the table of rooms.

Imports for type checking count as well: a room that names another's types depends on it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "kcli").rglob("*.py"))

PURE = ("kcli.errors", "kcli.properties", "kcli.control_socket", "kcli.assignors", "kcli.metrics")
PURE_BROKER = (
    "kcli.broker.controller",
    "kcli.broker.coordinator",
    "kcli.broker.metadata.metadata_image",
    "kcli.broker.metadata.metadata_replay",
    "kcli.broker.metadata.registrations",
    "kcli.broker.config.config_definition",
    "kcli.broker.config.topic_definitions",
    "kcli.broker.config.topic_definitions",
    "kcli.broker.config.topic_definitions",
    "kcli.broker.config.broker_definitions",
    "kcli.broker.config.group_definitions",
    "kcli.broker.config.group_definitions",
    "kcli.broker.config.broker_definitions",
    "kcli.broker.config.inert_configs",
    "kcli.broker.config.broker_definitions",
    "kcli.broker.authorizer",
    "kcli.broker.sasl",
    "kcli.broker.network.client_quotas",
    "kcli.broker.waiting.timing_wheel",
)
ROOMS: dict[str, tuple[tuple[str, ...], set[str]]] = {
    # room: (kcli modules it may import, third-party packages); the longest room that holds a module counts
    "kcli": ((), set()),
    "kcli.__main__": (("kcli.cli", "kcli.commands.shortcut"), set()),
    "kcli.cli": (("kcli.__version__", "kcli.commands"), {"typer"}),
    "kcli.errors": ((), set()),
    "kcli.properties": (("kcli.errors",), set()),
    "kcli.control_socket": (("kcli.errors",), set()),
    "kcli.stop_signals": ((), {"trio"}),
    "kcli.assignors": (("kcli.errors", "kcli.assignors"), set()),
    "kcli.metrics": (("kcli.errors",), set()),
    "kcli.protocol": (("kcli.errors", "kcli.protocol"), {"crc32c", "lz4", "snappy", "cramjam"}),
    "kcli.storage": (("kcli.errors", "kcli.protocol", "kcli.storage"), set()),
    "kcli.client": ((*PURE, "kcli.protocol", "kcli.client", "kcli.__version__"), {"trio"}),
    "kcli.broker": (
        (*PURE, "kcli.stop_signals", "kcli.protocol", "kcli.storage", "kcli.broker"),
        {"trio"},
    ),
    "kcli.broker.faults.yaml_lines": (("kcli.errors",), {"yaml"}),
    **{
        room: (("kcli.errors", "kcli.assignors", "kcli.protocol", *PURE_BROKER), set())
        for room in PURE_BROKER
    },
    **{
        f"kcli.broker.coordinator.{module}": (
            (*PURE, "kcli.protocol", "kcli.storage", "kcli.broker"),
            {"trio"},
        )
        for module in ("runtime", "shard_host", "waiting", "loading")
    },
    "kcli.spark": (
        ("kcli.errors", "kcli.properties", "kcli.protocol", "kcli.storage", "kcli.client", "kcli.spark"),
        {"pyarrow", "numpy", "numba", "isal", "zstandard", "fastavro", "trio"},
    ),
    "kcli.spark.export": (
        (
            *("kcli.errors", "kcli.properties", "kcli.protocol", "kcli.storage", "kcli.client", "kcli.spark"),
            "kcli.__version__",
        ),
        {"pyarrow", "numpy"},
    ),
    **{
        f"kcli.spark.{module}": (
            ("kcli.errors", "kcli.properties", "kcli.protocol", "kcli.storage", "kcli.client", "kcli.spark"),
            {"pyspark", "py4j", "pyarrow", "numpy", "trio"},
        )
        for module in (
            "session",
            "engine_spark",
            "engine_frame",
            "engine_sql",
            "probe",
            "frame_source",
            "frame_sink",
            "session_job",
            "task_source",
            "worker_memory",
            "datasource",
            "batch_reader",
            "stream_reader",
            "sink",
            "sink_columns",
            "pushed_filters",
            "connector",
            "row_schema",
            "pyspark_kcli",
        )
    },
    "kcli.commands": (
        (*PURE, "kcli.stop_signals", "kcli.protocol", "kcli.client", "kcli.commands"),
        {"typer", "rich", "trio"},
    ),
    "kcli.commands.broker": ((*PURE, "kcli.broker", "kcli.commands"), {"typer", "trio"}),
    "kcli.commands.broker_start": (
        (
            "kcli.errors",
            "kcli.broker.process.cluster",
            "kcli.broker.process.broker_process",
            "kcli.broker.faults",
            "kcli.commands",
        ),
        set(),
    ),
    "kcli.commands.broker_daemon": (
        ("kcli.errors", "kcli.storage.disk", "kcli.commands"),
        set(),
    ),
    "kcli.commands.broker_fault": ((*PURE, "kcli.protocol", "kcli.broker", "kcli.commands"), {"typer"}),
    "kcli.forensics.ranges.log_ranges": (("kcli.errors", "kcli.storage", "kcli.commands"), set()),
    "kcli.forensics.contents.log_directory_reader": (("kcli.errors", "kcli.protocol", "kcli.storage"), set()),
    **{
        f"kcli.commands.{module}": (
            ("kcli.errors", "kcli.protocol", "kcli.storage", "kcli.commands"),
            {"typer"},
        )
        for module in ("dump", "dump_log", "verify", "verify_index")
    },
    **{
        f"kcli.commands.{module}": (
            (*PURE, "kcli.protocol", "kcli.client", "kcli.spark", "kcli.commands"),
            {"typer", "rich", "trio", "pyarrow"},
        )
        for module in ("transfer", "spark_export", "spark_import")
    },
}

LATE = ("kcli.spark", "pyspark", "pyarrow", "numpy")
"""What commands import only inside of functions: most of those who start them do without."""


def module_name(path: Path) -> str:
    """Return the dotted name of a source file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def within(name: str, room: str) -> bool:
    return name == room or name.startswith(room + ".")


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted name of everything a module imports, as deep as it names it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_a_module_imports_only_what_its_room_may(path: Path) -> None:
    name = module_name(path)
    room = max((room for room in ROOMS if within(name, room)), key=len)
    rooms, third_party = ROOMS[room]
    wrong = []
    for target in imported(ast.parse(path.read_text(encoding="utf-8"))):
        package = target.partition(".")[0]
        if package == "kcli":
            allowed = any(within(target, other) for other in rooms)
        else:
            allowed = package in sys.stdlib_module_names or package in third_party
        if not allowed:
            wrong.append(target)
    assert not wrong, f"{name} is in room {room}, which may not import {', '.join(wrong)}"


def imported_at_once(body: list[ast.stmt]) -> Iterator[str]:
    """Yield what is imported when the module is: not inside of functions, nor for type checking."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from imported(node)
        elif isinstance(node, ast.If) and not (
            isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        ):
            yield from imported_at_once([*node.body, *node.orelse])
        elif isinstance(node, ast.ClassDef | ast.With | ast.Try):
            yield from imported_at_once(node.body)


@pytest.mark.parametrize("path", sorted((ROOT / "kcli" / "commands").rglob("*.py")), ids=module_name)
def test_a_command_imports_spark_and_arrow_only_in_a_body(path: Path) -> None:
    targets = imported_at_once(ast.parse(path.read_text(encoding="utf-8")).body)
    assert not [target for target in targets if any(within(target, late) for late in LATE)]


def test_storage_and_protocol_open_no_sockets_and_know_no_event_loop() -> None:
    for path in SOURCES:
        if within(module_name(path), "kcli.storage") or within(module_name(path), "kcli.protocol"):
            targets = set(imported(ast.parse(path.read_text(encoding="utf-8"))))
            assert not targets & {"socket", "asyncio", "trio", "selectors"}, path
