"""Passwords, proofs and signatures are compared in constant time: by `hmac.compare_digest`, never by `==`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kcli

SOURCE = Path(kcli.__file__).parent
FURTHER = ("sasl_login", "secure_stream", "scram_control", "token_control")
FILES = sorted(
    path
    for path in SOURCE.rglob("*.py")
    if "security" in path.parts
    or path.stem in ("sasl_login", "secure_stream", "scram_control", "token_control")
)
SECRETS = frozenset(
    (
        *("password", "passwords", "secret", "reveal", "proof", "signature", "hmac", "mac", "digest"),
        *("hexdigest", "stored_key", "server_key", "salted_password", "client_key", "client_proof"),
        *("server_signature", "token_hmac", "key_hmac"),
    )
)
BY_VALUE = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


def last_name(node: ast.expr) -> str:
    """Return the name of what an expression stands for, "" for one without."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.lstrip("_")
        case ast.Call(func=function):
            return last_name(function)
        case ast.Subscript(value=value):
            return last_name(value)
        case ast.Await(value=value):
            return last_name(value)
    return ""


def comparisons(text: str) -> list[str]:
    """Return the comparisons of secrets with anything but constants, which are no secrets themselves."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            is_constant = isinstance(left, ast.Constant) or isinstance(right, ast.Constant | ast.Tuple)
            keyed = right if isinstance(operator, ast.In | ast.NotIn) else None
            named = {last_name(left), "" if keyed is not None else last_name(right)}
            if isinstance(operator, BY_VALUE) and not is_constant and named & SECRETS:
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("a.password == b", True),
        ("b != hmac.digest(x, y, 'sha256')", True),
        ("proof in known", True),
        ("user.secret.reveal() == given", True),
        ("password == ''", False),
        ("name in passwords", False),
        ("hmac.compare_digest(password, given)", False),
        ("password is None", False),
    ],
)
def test_the_check_sees_comparisons_of_secrets(text: str, is_found: bool) -> None:
    assert bool(comparisons(text)) is is_found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_secrets_are_compared_in_constant_time(path: Path) -> None:
    assert comparisons(path.read_text(encoding="utf-8")) == []
