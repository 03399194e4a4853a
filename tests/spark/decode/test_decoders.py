"""The decoders: all make the same of the same bytes, and refuse the same damage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcli.errors import UsageError
from kcli.spark.decode.chunk import Chunk, CorruptRecords
from kcli.spark.decode.decoders import Decoder, decode, decoder_named
from tests.spark.decode.chunks import (
    ALL,
    Given,
    GivenBatch,
    as_list,
    batches,
    columns,
    encode,
    encode_record,
    many_batches,
    outcome,
)

FAST = ("numpy", "numba")
plain = decoder_named("python")
fast = pytest.mark.parametrize("decoder", FAST, indirect=True)
every = pytest.mark.parametrize("decoder", ["python", *FAST], indirect=True)


@pytest.fixture(scope="session")
def decoder(request: pytest.FixtureRequest) -> Decoder:
    """The decoder of that name; the compiled one is loaded by the tests that want it."""
    return decoder_named(request.param)


def agree(decoder: Decoder, chunk: Chunk) -> None:
    """Hold a decoder against the plain one; a batch that it refuses must be one that is refused alone."""
    expected, found = outcome(plain, chunk), outcome(decoder, chunk)
    if isinstance(expected, CorruptRecords):
        assert isinstance(found, CorruptRecords)
        assert isinstance(outcome(plain, chunk.part(found.batch, found.batch + 1)), CorruptRecords)
    else:
        assert found == expected


@fast
@given(many_batches())
def test_random_records_are_decoded_alike(decoder: Decoder, batches: list[GivenBatch]) -> None:
    agree(decoder, encode(batches))


@every
def test_known_records_are_decoded(decoder: Decoder) -> None:
    records = [
        Given(5, 1, b"k", None, [(b"h", b"x"), (b"h", None), (b"\xff!", b"")]),
        Given(-3, 4, None, b"", []),
        Given(0, 1, b"", bytes(300), [(b"", b"y")]),
    ]
    fields = columns(decoder(encode([GivenBatch(100, False, records)]), ALL))
    assert fields == {
        "offsets": [1000, 1004, 1005],
        "timestamps": [105, 97, 100],
        "types": 0,
        "key": [b"k", None, b""],
        "value": [None, b"", bytes(300)],
        "headers": [
            [{"key": "h", "value": b"x"}, {"key": "h", "value": None}, {"key": "\ufffd!", "value": b""}],
            None,
            [{"key": "", "value": b"y"}],
        ],
    }


@every
def test_log_append_time_dates_the_records_of_its_batches_only(decoder: Decoder) -> None:
    record = Given(7, 1, None, None, [])
    chunk = encode([GivenBatch(100, False, [record, record]), GivenBatch(100, True, [record])])
    fields = columns(decoder(chunk, ALL))
    assert (fields["timestamps"], fields["types"]) == ([107, 107, 50], [0, 0, 1])


@every
@pytest.mark.parametrize("wanted", [(), ("key",), ("value",), ("headers",), ("offset",)])
def test_columns_that_are_not_wanted_are_not_made(decoder: Decoder, wanted: tuple[str, ...]) -> None:
    chunk = encode([GivenBatch(0, False, [Given(0, 1, b"k", b"v", [(b"h", b"x")])])])
    fields = decoder(chunk, wanted)
    made = {name for name in ALL if getattr(fields, name) is not None}
    assert made == set(wanted) & set(ALL)


@every
def test_a_batch_without_records_has_no_rows(decoder: Decoder) -> None:
    fields = columns(decoder(encode([GivenBatch(0, False, [])]), ALL))
    assert fields["offsets"] == fields["key"] == fields["value"] == fields["headers"] == []


@every
def test_numbers_of_more_bytes_than_they_need_are_read(decoder: Decoder) -> None:
    # A key length of 1 in five bytes, a timestamp delta of -1 in ten.
    body = b"\x00" + b"\x81" + b"\x80" * 8 + b"\x00" + b"\x00" + b"\x82\x80\x80\x80\x00k" + b"\x01\x00"
    data = bytes((len(body) * 2,)) + body
    row = [0, len(data), 1, 5, 0, 100, 100, 0]
    fields = columns(decoder(Chunk(data, np.array([row], np.int64), 0, 99), ALL))
    assert (fields["key"], fields["timestamps"], fields["value"]) == ([b"k"], [99], [None])


@every
@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x00\x00\x82\x80\x80\x80\x80\x00k\x01\x00",  # a length of six bytes
        b"\x00" + b"\x80" * 10 + b"\x00\x00\x01\x01\x00",  # a timestamp of eleven
        b"\x00\x00\x00\x03\x01\x00",  # a key of -2 bytes
        b"\x00\x00\x00\x01\x03\x00",  # a value of -2 bytes
        b"\x00\x00\x00\x01\x01\x01",  # -1 headers
        b"\x00\x00\x00\x01\x01\x02\x01\x01",  # a header without a name
        b"\x00\x00\x00\x01\x01\x02\x00\x03",  # a header's value of -2 bytes
        b"\x00\x00\x00\x01\x01\x04\x00\x01",  # one header of two
        b"\x00\x00\x02\x01\x01\x00",  # an offset beyond the batch's last
        b"\x00\x00\x01\x01\x01\x00",  # an offset before the batch's first
        b"\x00\x00\x00\x01\x01\x00\x00",  # a byte too many
        b"\x00\x00\x00\xfe\xff\xff\xff\x0f\x01\x00",  # a key of 2 GiB
        b"\x00\x00\x00\x01\xfe\xff\xff\xff\x0f\x00",
        b"\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f",
        b"\x00\x00\x00\x01\x01\x80",  # cut
        b"",
    ],
)
def test_what_is_no_record_is_refused(decoder: Decoder, body: bytes) -> None:
    good = encode_record(Given(0, 1, b"key", b"value", []), 0)
    data = good + bytes((len(body) * 2,)) + body + good
    edge = len(good)
    rows = [[0, edge, 1], [edge, len(data) - edge, 1], [len(data) - edge, len(data), 1]]
    table = np.array([[*row, 10 * number, 0, 0, 0, 0] for number, row in enumerate(rows)], np.int64)
    with pytest.raises(CorruptRecords) as refused:
        decoder(Chunk(data, table, 0, 99), ALL)
    assert refused.value.batch == 1


@every
@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 2)])
def test_offsets_that_do_not_increase_within_their_batch_are_refused(
    decoder: Decoder, deltas: tuple[int, int]
) -> None:
    record = Given(0, 1, None, None, [])
    data = b"".join(encode_record(record, delta) for delta in deltas)
    table = np.array([[0, len(data), 2, 0, 1, 0, 0, 0]], np.int64)
    with pytest.raises(CorruptRecords):
        decoder(Chunk(data, table, 0, 99), ALL)


@every
@pytest.mark.parametrize("count", [0, 1, 3, 2**31 - 1])
def test_a_wrong_number_of_records_is_refused(decoder: Decoder, count: int) -> None:
    chunk = encode([GivenBatch(0, False, [Given(0, 1, b"k", b"v", [])] * 2)])
    chunk.batches[0, 2] = count
    chunk.batches[0, 4] = 2**31 - 1
    with pytest.raises(CorruptRecords):
        decoder(chunk, ALL)


@fast
@given(many_batches(), st.data())
def test_every_changed_byte_is_refused_or_read_alike(
    decoder: Decoder, batches: list[GivenBatch], data: st.DataObject
) -> None:
    chunk = encode(batches)
    mutated = bytearray(chunk.data)
    for _ in range(data.draw(st.integers(1, 3))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    agree(decoder, replace(chunk, data=bytes(mutated)))


@fast
@given(st.lists(batches, min_size=1, max_size=3), st.data())
def test_every_cut_is_refused_or_read_alike(
    decoder: Decoder, batches: list[GivenBatch], data: st.DataObject
) -> None:
    chunk = encode(batches)
    begin, end = int(chunk.batches[-1, 0]), int(chunk.batches[-1, 1])
    cut = data.draw(st.integers(begin, end))
    chunk.batches[-1, 1] = cut
    agree(decoder, replace(chunk, data=chunk.data[:cut]))


@fast
def test_every_byte_of_a_small_chunk_may_become_any_other(decoder: Decoder) -> None:
    records = [Given(1, 1, b"k", None, [(b"h", b"x")]), Given(300, 1, None, b"value", [])]
    chunk = encode([GivenBatch(10, False, records)])
    begin, end = int(chunk.batches[0, 0]), int(chunk.batches[0, 1])
    for at in range(begin, end):
        for byte in range(256):
            mutated = bytearray(chunk.data)
            mutated[at] = byte
            agree(decoder, replace(chunk, data=bytes(mutated)))


@fast
@pytest.mark.parametrize("header_counts", [[0, 50, 1] * 40, [2000], [0] * 100 + [3]])
def test_many_headers_are_read_together_and_few_one_by_one(
    decoder: Decoder, header_counts: list[int]
) -> None:
    records = [Given(0, 1, b"k", b"v", [(b"name", b"%d" % at) for at in range(n)]) for n in header_counts]
    agree(decoder, encode([GivenBatch(0, False, records)]))


@fast
def test_few_long_batches_among_many_short_ones_are_walked_to_their_ends(decoder: Decoder) -> None:
    record = Given(0, 1, b"k", b"v" * 70, [])
    agree(decoder, encode([GivenBatch(0, False, [record] * count) for count in (3, 900, 2, 1, 0) * 30]))


@example([GivenBatch(0, False, [Given(0, 1, b"k", b"v", [])] * 3)], 1001, 1001)
@given(many_batches(), st.integers(990, 3000), st.integers(990, 3000))
def test_rows_outside_the_range_are_cut_off(batches: list[GivenBatch], start: int, end: int) -> None:
    chunk = replace(encode(batches), start=start, end=end)
    names = ("value", "offset")
    everything = decode(replace(chunk, start=0, end=2**63 - 1), "t", 0, names).to_pylist()
    assert decode(chunk, "t", 0, names).to_pylist() == [
        row for row in everything if start <= row["offset"] < end
    ]


def test_a_decoder_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = encode([GivenBatch(0, False, [Given(0, 1, b"k", b"v", [])])])
    for name in ("python", "numpy", "numba", ""):
        monkeypatch.setenv("KCLI_DECODER", name)
        assert as_list(decode(chunk, "t", 0, ("value",)).column(0)) == [b"v"]
    monkeypatch.setenv("KCLI_DECODER", "cobol")
    with pytest.raises(UsageError, match="cobol"):
        decode(chunk, "t", 0, ("value",))
