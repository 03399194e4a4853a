"""Escapes of characters that control a terminal; only one module prints."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import kcli.commands
from kcli.commands.shared.output import Table, note, print_error, print_tables, warn
from kcli.errors import KcliError
from kcli.escapes import escaped, escaped_bytes, escaped_json, is_safe

UNSAFE = [
    "\x00",
    "\x07",
    "\x1b",
    "\x7f",
    "\x9b",
    "\u202e",
    "\u2066",
    "\ufeff",
    "\u2028",
    "\U000e0041",
    "\xad",
]


@pytest.mark.parametrize("character", UNSAFE)
def test_a_character_that_controls_a_terminal_is_escaped_everywhere(character: str) -> None:
    shown = escaped(f"a{character}b")
    assert shown.isprintable()
    assert shown.encode().decode("unicode_escape") == f"a{character}b"
    assert escaped_bytes(f"a{character}b".encode()) == shown.encode()
    assert escaped_json(json.dumps(character, ensure_ascii=False)).isprintable()
    assert json.loads(escaped_json(json.dumps(character, ensure_ascii=False))) == character
    assert not is_safe(character)


@pytest.mark.parametrize(
    "text",
    ["", "plain", "naïve ☃ 日本語", "\u0645\u06cc\u200c\u062e", "\U0001f468\u200d\U0001f680", "\xa0\u3000"],
)
def test_letters_of_every_script_stay(text: str) -> None:
    assert escaped(text) == escaped_json(text) == text
    assert escaped_bytes(text.encode()) == text.encode()
    assert is_safe(text)


def test_bytes_that_are_not_text_are_escaped_one_by_one() -> None:
    assert escaped_bytes(b"a\x9b31mb\xff\t\n") == b"a\\x9b31mb\\xff\t\n"
    assert escaped(b"log-\x9b".decode(errors="surrogateescape")) == "log-\\x9b"
    assert escaped("\ud800") == "\\ud800"


def test_tables_and_messages_are_escaped_in_a_pipe_too(capfd: pytest.CaptureFixture[str]) -> None:
    print_tables([Table(("Name",), [["a\nb\x1b[31m"]], title="of \u202e all")])
    note("n\x9b1")
    warn("w\x1b]0;title\x07")
    print_error(KcliError("e\x1b[2J", hint="h\x7f"))
    captured = capfd.readouterr()
    assert captured.out.splitlines()[::3] == ["of \\u202e all", "a\\nb\\x1b[31m"]
    assert captured.err == ("n\\x9b1\nwarning: w\\x1b]0;title\\x07\nerror: e\\x1b[2J\nhint: h\\x7f\n")


PRINTERS = {
    "shared/output.py": "the one place",
    "consume/record_output.py": "bytes that the formatter has escaped",
    "dump/view.py": "bytes that `DumpOutput` has escaped",
    "shared/runner.py": "it discards what cannot be written",
    "shared/interrupts.py": "it watches the reader",
}
"""The modules that touch standard output or standard error themselves."""


def test_no_other_module_prints() -> None:
    found = set()
    root = Path(kcli.commands.__path__[0])
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            is_print = (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            )
            is_echo = isinstance(node, ast.Attribute) and node.attr in ("echo", "secho")
            is_stream = (
                isinstance(node, ast.Attribute)
                and node.attr in ("write", "writelines", "buffer", "fileno")
                and ast.unparse(node.value) in ("sys.stdout", "sys.stderr", "sys.stdout.buffer")
            )
            if is_print or is_echo or is_stream:
                found.add(str(path.relative_to(root)))
    assert found == set(PRINTERS)
