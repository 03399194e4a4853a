"""What declarations mean: versions, nulls, tags, defaults."""

from __future__ import annotations

import pytest

from kcli.protocol.messages.produce import ProduceRequest, ProduceResponse
from kcli.protocol.schema.declaration import DecodeError, EncodeError, codec, message_info
from kcli.protocol.schema.fields import Versions
from tests.protocol.schema.things import (
    Leader,
    Row,
    Scalars,
    Table,
    Texts,
    ThingRecord,
    ThingRequest,
    round_trip,
    thing,
)


class TestClasses:
    def test_a_constructor_takes_keywords_and_fills_in_defaults(self) -> None:
        made = ThingRequest(name="n", parts=[1])
        assert (made.name, made.size, made.note, made.parts) == ("n", 7, None, [1])
        assert made.first == Leader(node=-1, epoch=-1)

    def test_a_missing_or_unknown_keyword_is_refused(self) -> None:
        with pytest.raises(TypeError, match="parts"):
            ThingRequest(name="n")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="colour"):
            thing(colour=1)

    def test_defaults_are_not_shared(self) -> None:
        one, other = thing(), thing()
        one.others.append(Leader())
        one.first.node = 4
        assert other.others == []
        assert other.first.node == -1

    def test_objects_have_slots_equality_and_a_repr(self) -> None:
        assert Leader(node=1) == Leader(node=1)
        assert Leader(node=1) != Leader(node=2)
        assert Leader() != thing()
        assert repr(Leader(node=1)) == "Leader(node=1, epoch=-1)"
        with pytest.raises(AttributeError):
            Leader().colour = 1  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("text", "inside", "outside"),
        [("3", [3], [2, 4]), ("0-2", [0, 2], [3]), ("5+", [5, 99], [4]), ("none", [], [0, 1])],
    )
    def test_version_ranges(self, text: str, inside: list[int], outside: list[int]) -> None:
        assert all(version in Versions(text) for version in inside)
        assert not any(version in Versions(text) for version in outside)


class TestMessageInfo:
    def test_it_says_what_was_declared(self) -> None:
        info = message_info(ProduceRequest)
        assert (info.name, info.key, info.min_version, info.max_version) == ("Produce", 0, 0, 13)
        assert info.flexible_from == 9
        assert info.response is ProduceResponse

    def test_a_record_has_its_type_for_a_key(self) -> None:
        info = message_info(ThingRecord)
        assert (info.name, info.key, info.max_version, info.is_flexible(0)) == ("ThingRecord", 12, 1, True)

    def test_a_bare_struct_has_none(self) -> None:
        with pytest.raises(TypeError):
            message_info(Leader)

    @pytest.mark.parametrize("version", [-1, 14])
    def test_a_version_that_was_not_declared_has_no_codec(self, version: int) -> None:
        with pytest.raises(ValueError, match="no version"):
            codec(ProduceRequest, version)

    def test_codecs_are_made_once(self) -> None:
        assert codec(ProduceRequest, 3) is codec(ProduceRequest, 3)


class TestVersions:
    def test_a_field_travels_in_its_versions_only(self) -> None:
        assert round_trip(thing(size=9, note=""), 1).size == 9
        assert round_trip(thing(note=""), 0).size == 7

    def test_a_value_for_an_absent_field_is_refused(self) -> None:
        for version in (0, 4):
            with pytest.raises(EncodeError, match="size: not in this version"):
                codec(ThingRequest, version).encode(thing(size=9))

    def test_a_value_for_an_absent_ignorable_field_is_dropped(self) -> None:
        assert round_trip(thing(hint=3, note=""), 1).hint == 0
        assert round_trip(thing(hint=3), 2).hint == 3

    def test_a_tagged_field_is_absent_before_its_versions(self) -> None:
        with pytest.raises(EncodeError, match="first: not in this version"):
            codec(ThingRequest, 3).encode(thing(first=Leader(node=1)))


class TestNull:
    def test_null_is_refused_where_the_version_forbids_it(self) -> None:
        with pytest.raises(EncodeError, match="note: null"):
            codec(ThingRequest, 1).encode(thing())
        with pytest.raises(DecodeError, match="note"):
            codec(ThingRequest, 1).decode(b"\0\1n" + bytes(8) + b"\xff\xff" + b"\xff" + bytes(4))

    def test_null_text(self) -> None:
        assert round_trip(thing(note=None), 2).note is None
        assert round_trip(thing(note=None), 3).note is None
        assert round_trip(thing(note=""), 3).note == ""

    def test_null_struct(self) -> None:
        assert round_trip(thing(note="", leader=None), 1).leader is None
        assert round_trip(thing(note="", leader=Leader(node=3)), 1).leader == Leader(node=3)
        assert codec(ThingRequest, 1).encode(thing(note=""))[-5:] == b"\xff\0\0\0\0"

    def test_null_list(self) -> None:
        for flexible in (False, True):
            texts = Texts(names=None, ids=[], blobs=[])
            encoded = codec(Texts, 0, flexible).encode(texts)
            assert encoded[:1] == (b"\0" if flexible else b"\xff")
            assert codec(Texts, 0, flexible).decode(encoded)[0] == texts


class TestTags:
    PLAIN = b"\2n" + b"\0\0" + b"\0" + b"\xff" + b"\1"
    """`thing()` in version 5 up to the count of tags."""

    def test_tagged_fields_that_hold_defaults_do_not_travel(self) -> None:
        assert codec(ThingRequest, 5).encode(thing()) == self.PLAIN + b"\0"

    def test_a_null_struct_in_a_tag_is_a_zero(self) -> None:
        encoded = codec(ThingRequest, 5).encode(thing(last=None))
        assert encoded == self.PLAIN + b"\1" + b"\4\1\0"
        assert codec(ThingRequest, 5).decode(encoded)[0].last is None
        there = codec(ThingRequest, 5).encode(thing(last=Leader(node=3)))
        assert there[len(self.PLAIN) :].hex() == "01040a0100000003ffffffff00"
        assert codec(ThingRequest, 5).decode(there)[0].last == Leader(node=3)
        assert codec(ThingRequest, 5).decode(self.PLAIN + b"\0")[0].last == Leader()

    def test_tagged_fields_travel_in_the_order_of_their_tags(self) -> None:
        full = thing(others=[Leader(node=1, epoch=2)], first=Leader(node=3, epoch=4), label="ab")
        encoded = codec(ThingRequest, 5).encode(full)
        assert encoded[len(self.PLAIN) :].hex() == (
            "03" "000303" "6162" "0109" "0000000300000004" "00" "030a" "02" "0000000100000002" "00"
        )  # fmt: skip
        assert codec(ThingRequest, 5).decode(encoded) == (full, len(encoded))

    def test_unknown_tags_are_skipped(self) -> None:
        encoded = self.PLAIN + b"\3" + b"\0\2\2x" + b"\2\3abc" + b"\xff\x7f\0"
        decoded, end = codec(ThingRequest, 5).decode(encoded)
        assert decoded == thing(label="x")
        assert end == len(encoded)

    @pytest.mark.parametrize(
        "section",
        [
            pytest.param(b"\1\0\5\2x", id="a tag beyond the end"),
            pytest.param(b"\1\0\1\2x", id="a tag too short for its field"),
            pytest.param(b"\1\0\3\2xy", id="a tag longer than its field"),
            pytest.param(b"\2\0\2\2x", id="fewer tags than counted"),
            pytest.param(b"\xff\xff\xff\xff\xff\1", id="an endless count"),
            pytest.param(b"\1\5\xff\xff\xff\xff\x0f", id="a huge size"),
        ],
    )
    def test_a_damaged_section_is_refused(self, section: bytes) -> None:
        with pytest.raises(DecodeError):
            codec(ThingRequest, 5).decode(self.PLAIN + section)


class TestWireTypes:
    EXTREMES = Scalars(
        a=-128, b=-(2**15), c=-(2**31), d=-(2**63), e=255, f=65535, g=2**32 - 1, h=-0.5, i=True,
        j=bytes(range(16)), k="é", m=b"\0\1", n=b"rec",
    )  # fmt: skip

    def test_classic_layout(self) -> None:
        encoded = codec(Scalars, 0).encode(self.EXTREMES)
        assert encoded.hex() == (
            "80" "8000" "80000000" "8000000000000000" "ff" "ffff" "ffffffff" "bfe0000000000000" "01"
            "000102030405060708090a0b0c0d0e0f" "0002c3a9" "000000020001" "00000003726563"
        )  # fmt: skip
        assert codec(Scalars, 0).decode(encoded) == (self.EXTREMES, len(encoded))

    def test_compact_layout(self) -> None:
        encoded = codec(Scalars, 0, flexible=True).encode(self.EXTREMES)
        assert encoded[-11:].hex() == "03c3a9" "030001" "04726563" "00"  # fmt: skip
        assert codec(Scalars, 0, flexible=True).decode(encoded) == (self.EXTREMES, len(encoded))

    @pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 16382, 16383, 32767])
    def test_compact_lengths_of_one_to_three_bytes(self, length: int) -> None:
        value = thing(name="x" * length, parts=list(range(length)), note="y" * length)
        assert round_trip(value, 5) == value

    def test_text_of_more_than_32767_bytes_is_refused(self) -> None:
        for version in (0, 5):
            with pytest.raises(EncodeError, match="name: a string longer"):
                codec(ThingRequest, version).encode(thing(name="x" * 32768, note=""))
        with pytest.raises(DecodeError, match="longer"):
            codec(ThingRequest, 5).decode(b"\x81\x80\x02" + b"x" * 32768 + bytes(9))

    def test_lists_of_text_ids_and_bytes(self) -> None:
        texts = Texts(names=["a", ""], ids=[bytes(16), b"i" * 16], blobs=[b"", b"b"])
        for flexible in (False, True):
            encoded = codec(Texts, 0, flexible).encode(texts)
            assert codec(Texts, 0, flexible).decode(encoded) == (texts, len(encoded))

    def test_record_data_is_a_view_of_the_frame(self) -> None:
        frame = bytearray(codec(Scalars, 0).encode(self.EXTREMES))
        decoded, _ = codec(Scalars, 0).decode(frame)
        assert isinstance(decoded.n, memoryview)
        decoded.n[0:3] = b"RED"
        assert frame.endswith(b"RED")

    def test_record_data_is_a_part_of_its_own(self) -> None:
        class Piece:
            def __len__(self) -> int:
                return 1000

        value = Scalars(**{name: getattr(self.EXTREMES, name) for name in Scalars.__slots__})  # type: ignore[attr-defined]
        value.n = piece = Piece()  # type: ignore[assignment]
        parts = codec(Scalars, 0).encode_parts(value)
        assert parts[-1] is piece
        assert b"".join(parts[:-1])[-4:] == (1000).to_bytes(4, "big")

    @pytest.mark.parametrize("count", [0, 1, 7, 8, 200])
    @pytest.mark.parametrize("version", [0, 1, 2])
    @pytest.mark.parametrize("flexible", [False, True])
    def test_few_and_many_rows(self, count: int, version: int, flexible: bool) -> None:
        table = Table(rows=[Row(number=number, flag=version > 0) for number in range(count)])
        if flexible and version == 2 and count:
            table.rows[count // 2].extra = 9
        encoded = codec(Table, version, flexible).encode(table)
        assert codec(Table, version, flexible).decode(encoded) == (table, len(encoded))
        assert codec(Table, version, flexible).decode(memoryview(b"." + encoded), 1)[0] == table
