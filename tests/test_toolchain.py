"""What interop tests build: made once, seen when it is whole, and tried again where a network is slow."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.toolchain import BuildFailed, build, made


def test_what_several_want_is_made_once_and_replaces_what_was_left_half_made(tmp_path: Path) -> None:
    (tmp_path / "program.new").mkdir()
    (tmp_path / "program.new" / "half").touch()
    calls: list[Path] = []

    def make(staging: Path) -> None:
        calls.append(staging)
        staging.mkdir()
        (staging / "whole").touch()

    target = tmp_path / "program"
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: made(target, make), range(8))) == [target] * 8
    assert [path.name for path in target.iterdir()] == ["whole"]
    assert len(calls) == 1


@pytest.mark.parametrize(("ci", "kind"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_what_cannot_be_made_is_told_to_every_test_and_tried_once(
    ci: str, kind: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    calls: list[Path] = []

    def make(staging: Path) -> None:
        calls.append(staging)
        raise BuildFailed("no network")

    for _ in range(3):
        with pytest.raises(kind, match="no network"):
            made(tmp_path / "program", make)
    assert len(calls) == 1


def test_a_build_has_as_many_attempts_as_there_are_pauses_and_one(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo once more >> said; cat said; test $(wc -l < said) -gt 2"]
    with pytest.raises(BuildFailed, match=r"exit status 1.\nonce more\nonce more\n$"):
        build(command, tmp_path, pauses=[0])
    build(command, tmp_path)
