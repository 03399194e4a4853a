"""Output in pieces: how much of it is out is known at every moment."""

from __future__ import annotations

import os

import pytest

from kcli.commands.piecewise_output import Progress, whole_items, write_all


@pytest.mark.parametrize(("written", "count"), [(0, 0), (2, 0), (3, 2), (4, 2), (7, 2), (8, 4), (9, 4)])
def test_an_item_counts_when_all_of_it_is_out(written: int, count: int) -> None:
    assert whole_items([b"abc", b"", b"defgh", b""], written) == count


def test_nothing_to_write_is_written() -> None:
    assert whole_items([b"", b""], 0) == 2
    assert whole_items([], 0) == 0


def test_pieces_are_counted_and_a_stop_is_heeded() -> None:
    reading, writing = os.pipe()
    try:
        progress = Progress()
        write_all(writing, b"x" * 100, progress, 30)
        assert (progress.written, progress.is_done) == (100, True)
        assert os.read(reading, 1000) == b"x" * 100
        stopped = Progress()
        stopped.should_stop = True
        write_all(writing, b"x" * 100, stopped, 30)
        assert (stopped.written, stopped.is_done) == (0, True)
    finally:
        os.close(reading)
        os.close(writing)


def test_a_closed_pipe_is_an_error_and_the_end() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    progress = Progress()
    try:
        with pytest.raises(BrokenPipeError):
            write_all(writing, b"x", progress, 30)
    finally:
        os.close(writing)
    assert (progress.written, progress.is_done) == (0, True)
