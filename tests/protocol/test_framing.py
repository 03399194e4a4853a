"""Frames come out whole and in order, however the stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.frames import FrameError, FrameReader


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@given(st.lists(st.binary(max_size=30), max_size=6), st.lists(st.integers(1, 20), min_size=1))
def test_any_cut_of_the_stream_gives_the_same_frames(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(framed, bodies))
    reader = FrameReader(max_size=30)
    found: list[bytes] = []
    position = number = 0
    while position < len(stream):
        size = cuts[number % len(cuts)]
        reader.feed(memoryview(stream)[position : position + size])
        found += map(bytes, reader)
        position += size
        number += 1
    assert found == bodies
    assert reader.buffered_bytes == 0


def test_an_incomplete_frame_is_kept() -> None:
    reader = FrameReader(max_size=10)
    reader.feed(framed(b"abc")[:6])
    assert list(reader) == []
    assert reader.buffered_bytes == 6
    reader.feed(b"c")
    assert list(reader) == [b"abc"]


@pytest.mark.parametrize("size", [-1, -(2**31), 11, 2**31 - 1])
def test_a_refused_size(size: int) -> None:
    reader = FrameReader(max_size=10)
    with pytest.raises(FrameError, match=str(size)):
        reader.feed(framed(b"before") + size.to_bytes(4, "big", signed=True) + b"x")
    assert list(reader) == [b"before"]


def test_frames_belong_to_their_taker() -> None:
    reader = FrameReader(max_size=10)
    reader.feed(framed(b"abc") + framed(b"def"))
    one, other = reader
    one[0:1] = b"X"
    assert (one, other) == (b"Xbc", b"def")
