"""Imports point down, between rooms and inside them, and never run in a circle: the tables of rooms say how.

Imports for type checking and inside functions count as well: a room that names another's types depends on it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "kcli").rglob("*.py"))

BASE = (
    "kcli.errors",
    "kcli.escapes",
    "kcli.properties",
    "kcli.control_socket",
    "kcli.stop_signals",
    "kcli.assignors",
)

ROOMS: dict[str, tuple[str, ...]] = {
    # room: the other rooms that it may import; the longest room that holds a module counts
    "kcli": (),
    "kcli.__main__": ("kcli.cli", "kcli.commands.shortcut"),
    "kcli.cli": ("kcli.__version__", "kcli.commands"),
    "kcli.errors": (),
    "kcli.escapes": (),
    "kcli.properties": ("kcli.errors",),
    "kcli.control_socket": ("kcli.errors",),
    "kcli.stop_signals": (),
    "kcli.assignors": ("kcli.errors", "kcli.protocol"),
    "kcli.protocol": ("kcli.errors",),
    "kcli.security": ("kcli.errors", "kcli.properties", "kcli.protocol"),
    "kcli.storage": ("kcli.errors", "kcli.protocol"),
    "kcli.forensics": ("kcli.errors", "kcli.protocol", "kcli.storage"),
    "kcli.client": (*BASE, "kcli.protocol", "kcli.security", "kcli.__version__"),
    "kcli.broker": (*BASE, "kcli.protocol", "kcli.security", "kcli.storage"),
    "kcli.spark": (
        *BASE,
        "kcli.protocol",
        "kcli.security",
        "kcli.storage",
        "kcli.forensics",
        "kcli.client",
        "kcli.__version__",
    ),
    "kcli.commands": (*BASE, "kcli.protocol", "kcli.security", "kcli.client"),
    "kcli.commands.broker": (
        *BASE,
        "kcli.protocol",
        "kcli.security",
        "kcli.storage.disk",
        "kcli.broker",
        "kcli.commands",
    ),
    "kcli.commands.dump": (
        "kcli.errors",
        "kcli.escapes",
        "kcli.protocol",
        "kcli.storage",
        "kcli.forensics",
        "kcli.commands",
    ),
    "kcli.commands.verify": (
        "kcli.errors",
        "kcli.protocol",
        "kcli.storage",
        "kcli.forensics",
        "kcli.commands",
    ),
    "kcli.commands.groups.files": ("kcli.errors", "kcli.protocol", "kcli.forensics", "kcli.commands"),
    "kcli.commands.shortcut": (*BASE, "kcli.forensics", "kcli.commands"),
    "kcli.commands.export": (
        *BASE,
        "kcli.protocol",
        "kcli.security",
        "kcli.client",
        "kcli.spark",
        "kcli.commands",
    ),
}

SUBROOMS: dict[str, str] = {
    # room: what stands in it, from top to bottom; each may import what comes after it
    "kcli.assignors": "strategies sticky range server_assignors replica_placer members",
    "kcli.protocol": (
        "internal records compression messages frames consumer_protocol schema configs"
        " topic_expression re2 topics"
        " apis error_codes java uuids corruption"
    ),
    "kcli.security": (
        "config_providers client_security client_properties plain sasl_client scram sasl jaas"
        " tls_context tls_settings certificates principal_rules cipher_suites secret access"
        " explanation acl_rules api_access acl principal"
    ),
    "kcli.security.certificates": (
        "store_entries key_stores jks certificate_authority certificate distinguished_name der pem"
        " private_files"
    ),
    "kcli.storage": "dirs cleaning log producers index checkpoints log_paths disk",
    "kcli.forensics": "repair verification contents ranges entries",
    "kcli.client": "producer consumer groups fetch admin client denials network config",
    "kcli.broker": (
        "process faults metering node handlers security network node_context transactions coordinator"
        " replication controller metadata waiting config"
    ),
    "kcli.broker.network": (
        "socket_server connection handshakes listener_security reactor quota_engine request_engine responses"
        " inbox outbox tls_transport tls_failures transport"
        " authorization request_context apis client_quotas descriptors"
    ),
    "kcli.broker.handlers.produce": "handler transactional_batches short_path refusals slow_batches wire",
    "kcli.broker.handlers.fetch": "handler short_path delayed_fetch down_conversion wire",
    "kcli.broker.coordinator": (
        "group_service transaction_service group_coordinator runtime transaction offsets consumer classic"
        " group effects"
    ),
    "kcli.spark": (
        "pyspark_kcli datasource engines importing python_worker export source decode filters split"
    ),
    "kcli.spark.source": "brokers log_dirs ranges source data_loss",
    "kcli.commands": (
        "shortcut usage_hints completion tls acls users broker log_dirs topics configs consume produce"
        " cluster reassignment groups transactions dump verify export shared"
    ),
}

THIRD_PARTY: dict[str, set[str]] = {
    # room or module: the packages that it may import; the longest name counts
    "kcli": set(),
    "kcli.cli": {"typer"},
    "kcli.stop_signals": {"trio"},
    "kcli.protocol": {"crc32c", "lz4", "snappy", "cramjam"},
    "kcli.client": {"trio"},
    "kcli.security": set(),
    "kcli.security.certificates.certificate_authority": {"cryptography"},
    "kcli.security.certificates.key_stores": {"cryptography"},
    "kcli.security.certificates.store_entries": {"cryptography"},
    "kcli.broker": {"trio"},
    "kcli.broker.config": set(),
    "kcli.broker.controller": set(),
    "kcli.broker.controller.controller_election": {"trio"},
    "kcli.broker.coordinator": set(),
    "kcli.broker.coordinator.runtime": {"trio"},
    "kcli.broker.faults.yaml_lines": {"yaml"},
    "kcli.broker.metadata.metadata_image": set(),
    "kcli.broker.metadata.metadata_replay": set(),
    "kcli.broker.metadata.registrations": set(),
    "kcli.broker.network.client_quotas": set(),
    "kcli.broker.waiting.timing_wheel": set(),
    "kcli.spark": {"pyarrow", "numpy", "trio"},
    "kcli.spark.datasource": {"pyspark", "pyarrow", "trio"},
    "kcli.spark.decode": {"pyarrow", "numpy"},
    "kcli.spark.decode.decompression": {"isal", "zstandard"},
    "kcli.spark.decode.formats": {"pyarrow", "numpy", "fastavro"},
    "kcli.spark.decode.numba_decoder": {"pyarrow", "numpy", "numba"},
    "kcli.spark.engines": {"pyspark", "py4j", "pyarrow"},
    "kcli.spark.python_worker": {"pyspark"},
    "kcli.commands": {"typer", "rich", "trio"},
    "kcli.commands.export": {"typer", "rich", "trio", "pyarrow"},
}

LATE = ("kcli.spark", "pyspark", "pyarrow", "numpy")
"""What commands import only inside of functions: most of those who start them do without."""

LATE_SECURITY = ("ssl", "cryptography", "trustme", "jwt")
"""What everybody imports only inside of functions: brokers and clients on PLAINTEXT do without."""


def module_name(path: Path) -> str:
    """Return the dotted name of a source file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCES}


def within(name: str, room: str) -> bool:
    """Whether a dotted name is a room or stands in it."""
    return name == room or name.startswith(room + ".")


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted name of everything a module imports, as deep as it names it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def targets_of(name: str) -> tuple[str, ...]:
    """Return what a module of kcli imports."""
    return tuple(imported(ast.parse(MODULES[name].read_text(encoding="utf-8"))))


def own_module(target: str) -> str | None:
    """Return the module of kcli that an import reaches; None outside of kcli."""
    if target in MODULES:
        return target
    parent = target.rpartition(".")[0]
    return parent if parent in MODULES else None


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_what_its_room_may(name: str) -> None:
    room = max((room for room in ROOMS if within(name, room)), key=len)
    packages = THIRD_PARTY[max((each for each in THIRD_PARTY if within(name, each)), key=len)]
    # Rooms of one command may look into each other as far as the order of `kcli.commands` says.
    home = "kcli.commands" if within(name, "kcli.commands") else room
    wrong = []
    for target in targets_of(name):
        package = target.partition(".")[0]
        if package == "kcli":
            allowed = any(within(target, other) for other in (home, room, *ROOMS[room]))
        else:
            allowed = package in sys.stdlib_module_names or package in packages
        if not allowed:
            wrong.append(target)
    assert not wrong, f"{name} is in room {room}, which may not import {', '.join(wrong)}"


@pytest.mark.parametrize("room", SUBROOMS)
def test_nothing_is_imported_upward_in_a_room(room: str) -> None:
    order = SUBROOMS[room].split()
    wrong = []
    for name in MODULES:
        if not name.startswith(room + "."):
            continue
        place = name.removeprefix(room + ".").partition(".")[0]
        assert place in order, f"{name} has no place in {room}"
        for target in targets_of(name):
            other = target.removeprefix(room + ".").partition(".")[0]
            if target.startswith(room + ".") and other in order and order.index(other) < order.index(place):
                wrong.append(f"{name} -> {target}")
    assert wrong == []


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the modules that reach themselves, those of one circle together (Tarjan's algorithm)."""
    found: list[list[str]] = []
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], index[other])
        if lowest[name] == index[name]:
            start = stack.index(name)
            if len(stack) - start > 1:
                found.append(sorted(stack[start:]))
            del stack[start:]

    for name in graph:
        if name not in index:
            visit(name)
    return found


def test_no_imports_run_in_a_circle() -> None:
    graph = {
        name: {own for target in targets_of(name) if (own := own_module(target)) not in (None, name)}
        for name in MODULES
    }
    assert circles(graph) == []


def test_a_circle_is_found_whatever_its_length() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(circles(graph)) == [["a", "b", "c"], ["d", "e"]]


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


@pytest.mark.parametrize("name", [name for name in MODULES if within(name, "kcli.commands")])
def test_a_command_imports_spark_and_arrow_only_in_a_body(name: str) -> None:
    targets = imported_at_once(ast.parse(MODULES[name].read_text(encoding="utf-8")).body)
    assert not [target for target in targets if any(within(target, late) for late in LATE)]


def test_libraries_of_tls_and_tokens_are_imported_only_in_a_body() -> None:
    at_once = {
        name: [
            target
            for target in imported_at_once(ast.parse(path.read_text(encoding="utf-8")).body)
            if any(within(target, late) for late in LATE_SECURITY)
        ]
        for name, path in MODULES.items()
    }
    assert {name: targets for name, targets in at_once.items() if targets} == {}


@pytest.mark.parametrize("room", ["kcli.protocol", "kcli.storage", "kcli.forensics"])
def test_what_reads_and_writes_files_opens_no_sockets_and_knows_no_event_loop(room: str) -> None:
    for name in MODULES:
        if within(name, room):
            assert not {"asyncio", "trio", "selectors"} & set(targets_of(name)), name
            if room != "kcli.forensics":
                assert "socket" not in targets_of(name), name


def test_a_room_has_at_most_22_modules_and_a_file_620_lines() -> None:
    folders = {path.parent for path in SOURCES} - {ROOT / "kcli" / "protocol" / "messages"}
    assert [folder for folder in folders if len(list(folder.glob("*.py"))) > 22] == []
    assert [path for path in SOURCES if len(path.read_text(encoding="utf-8").splitlines()) > 620] == []


VALUES = ("NamedTuple", "Protocol", "Enum", "IntEnum", "StrEnum", "TypedDict")
MOST_OUTSIDERS = 130
"""Functions that read another module's object, views and codecs for the most part: the number only falls."""


def is_value(node: ast.ClassDef) -> bool:
    """Whether the objects of a class are plain values, which anybody may read."""
    decorators = [ast.unparse(each) for each in node.decorator_list]
    if any(
        "frozen=True" in each or each.split("(")[0] in {"struct", "message", "record"} for each in decorators
    ):
        return True
    return any(ast.unparse(base).split("[")[0] in VALUES for base in node.bases)


def test_few_functions_take_the_object_of_another_module_and_read_its_fields() -> None:
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
    objects = {
        f"{name}.{node.name}"
        for name, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not is_value(node)
    }
    outsiders = []
    for name, tree in trees.items():
        imports = {target.rpartition(".")[2]: target for target in imported(tree)}
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.args.args:
                continue
            first = node.args.args[0]
            read = {
                each.attr
                for each in ast.walk(node)
                if isinstance(each, ast.Attribute)
                and isinstance(each.value, ast.Name)
                and each.value.id == first.arg
            }
            annotation = ast.unparse(first.annotation) if first.annotation else ""
            if len(read) > 1 and imports.get(annotation) in objects:
                outsiders.append(f"{name}.{node.name}({annotation})")
    assert len(outsiders) <= MOST_OUTSIDERS, outsiders
