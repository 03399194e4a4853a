"""Pieces: no reader sees a part of an item that fits, and the written items are counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.commands.consume.record_output import PIECE_BYTES, Pieces

SIZES = st.one_of(st.integers(0, 50), st.integers(PIECE_BYTES - 2, PIECE_BYTES + 2), st.integers(0, 9_000))


def items_of(sizes: list[int]) -> list[bytes]:
    """Return items that differ from their neighbours."""
    return [bytes([index % 256]) * size for index, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("written", "count", "is_torn"),
    [(0, 0, False), (2, 0, True), (3, 2, False), (4, 2, True), (7, 2, True), (8, 4, False)],
)
def test_an_item_counts_when_all_of_it_is_out(written: int, count: int, is_torn: bool) -> None:
    pieces = Pieces([b"abc", b"", b"defgh", b""])
    pieces.written = written
    assert (pieces.whole_items, pieces.is_torn, pieces.is_done) == (count, is_torn, written == 8)


@pytest.mark.parametrize("items", [[], [b"", b""]])
def test_nothing_to_write_is_out(items: list[bytes]) -> None:
    pieces = Pieces(items)
    pieces.end_with_item()
    assert (pieces.is_done, pieces.is_torn, pieces.whole_items) == (True, False, len(items))


@given(st.lists(SIZES), st.data())
def test_only_an_item_that_is_longer_than_a_piece_is_ever_torn(sizes: list[int], data: st.DataObject) -> None:
    items = items_of(sizes)
    pieces, out = Pieces(items), b""
    while not pieces.is_done:
        piece = bytes(pieces.piece())
        assert 0 < len(piece) <= PIECE_BYTES
        taken = data.draw(st.sampled_from((len(piece), len(piece), 1)))  # a socket may take a part
        out += piece[:taken]
        pieces.written += taken
        if taken == len(piece) and pieces.is_torn:
            assert len(items[pieces.whole_items]) > PIECE_BYTES
    assert (out, pieces.whole_items) == (b"".join(items), len(items))


@given(st.lists(SIZES, min_size=1), st.data())
def test_what_has_not_begun_is_left_out_at_an_end(sizes: list[int], data: st.DataObject) -> None:
    items = items_of(sizes)
    written = data.draw(st.integers(0, sum(sizes)))
    pieces = Pieces(items)
    pieces.written = written
    was_torn, whole = pieces.is_torn, pieces.whole_items
    pieces.end_with_item()
    pieces.end_with_item()
    assert (pieces.is_done, pieces.whole_items) == (not was_torn, whole)
    while not pieces.is_done:
        pieces.written += len(pieces.piece())
    assert not pieces.is_torn
    assert pieces.written == sum(sizes[: whole + was_torn])
    # Empty items after it need no write.
    assert not any(sizes[whole + was_torn : pieces.whole_items])
