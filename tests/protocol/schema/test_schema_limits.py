"""What a codec refuses to write, and what a decoder believes of bytes that nobody vouches for."""

from __future__ import annotations

import pytest

from kcli.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.messages.fetch import FetchRequest, FetchResponse
from kcli.protocol.schema.declaration import DecodeError, EncodeError, codec
from tests.protocol.schema.things import Leader, Table, Texts, ThingRequest, thing


class TestMisfits:
    @pytest.mark.parametrize(
        ("values", "reason"),
        [
            ({"name": None}, "name: null"),
            ({"name": b"n"}, "name: not of type string"),
            ({"name": "\ud800"}, "name: not of type string"),
            ({"hint": 2**15}, "hint: not of type i16: 32768"),
            ({"parts": [1, "2"]}, r"parts\[1\]: not of type i32"),
            ({"parts": 3}, "parts: a int in place of a list"),
            ({"first": Leader(node=2**31)}, "first.node: not of type i32"),
            ({"others": [Leader(), Leader(epoch=None)]}, r"others\[1\].epoch: null"),  # type: ignore[arg-type]
            ({"others": ["x"]}, r"others\[0\]: a str in place of a Leader"),
        ],
        ids=str,
    )
    def test_the_field_that_does_not_fit_is_named(self, values: dict[str, object], reason: str) -> None:
        with pytest.raises(EncodeError, match=f"ThingRequest does not fit version 5: {reason}"):
            codec(ThingRequest, 5).encode(thing(**values))

    @pytest.mark.parametrize("size", [0, 15, 17])
    def test_an_id_has_sixteen_bytes(self, size: int) -> None:
        with pytest.raises(EncodeError, match=r"ids\[0\]: not 16 bytes"):
            codec(Texts, 0, flexible=True).encode(Texts(names=[], ids=[bytes(size)], blobs=[]))


class TestHostileInput:
    @pytest.mark.parametrize(
        ("data", "version"),
        [
            (b"", 0),
            (b"\0", 0),
            (b"\xff\xff\0\0\0\0\0\0", 0),
            (b"\x80\0\0\0\0\0\0\0", 0),
            (b"\0\0\0\0\x7f\xff\xff\xff", 0),
            (b"\0\0\0\0\x80\0\0\0", 0),
            (b"\0\0\0\0\xff\xff\xff\xff", 0),
            (b"\0\0\0\0\0\0\0\2\0\0\0\1", 0),
            (b"\0\0\0\0\0", 5),
            (b"\1\0\0\0\xff\xff\xff\xff\xff\x0f", 5),
            (b"\1\0\0\0\xff\xff\xff\xff\xff\xff\xff\x0f", 5),
            (b"\1\0\0\0\xff\x80", 5),
        ],
        ids=[
            "nothing", "half a length", "null text", "negative text", "huge count",
            "negative count", "null list", "too few numbers", "compact null text", "compact huge count",
            "endless varint", "cut varint",
        ],
    )  # fmt: skip
    def test_it_raises_a_decode_error(self, data: bytes, version: int) -> None:
        with pytest.raises(DecodeError, match=f"malformed ThingRequest version {version}"):
            codec(ThingRequest, version).decode(data)

    @pytest.mark.parametrize("data", [b"\xff", b"a\xc3", b"\xf0\x9f\x98b", b"\xc0\xaf"])
    def test_text_that_is_not_utf_8_is_read_as_in_java(self, data: bytes) -> None:
        request, _ = codec(ThingRequest, 0).decode(b"\0" + bytes([len(data)]) + data + bytes(6))
        assert request.name == data.decode(errors="replace")
        assert "\ufffd" in request.name

    def test_a_count_of_structs_is_checked_before_anything_is_made(self) -> None:
        header = (2**31 - 1).to_bytes(4, "big")
        with pytest.raises(DecodeError, match="a collection of size 2147483647"):
            codec(Table, 0).decode(header + bytes(1000))

    def test_nothing_behind_the_end_is_read(self) -> None:
        encoded = codec(FetchRequest, 4).encode(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]))
        for end in range(len(encoded)):
            with pytest.raises(DecodeError):
                codec(FetchRequest, 4).decode(encoded, 0, end)

    def test_what_follows_a_message_is_left_to_the_caller(self) -> None:
        encoded = codec(ApiVersionsRequest, 0).encode(
            ApiVersionsRequest(client_software_name="", client_software_version="")
        )
        assert codec(ApiVersionsRequest, 0).decode(encoded + b"rest")[1] == 0

    def test_record_data_cut_short_is_refused(self) -> None:
        response = codec(FetchResponse, 0)
        cut = b"\0\0\0\1\0\1t\0\0\0\1" + bytes(4 + 2 + 8) + b"\0\0\0\5abcd"
        with pytest.raises(DecodeError):
            response.decode(cut)
        assert response.decode(cut + b"e")[1] == len(cut) + 1


def test_an_answer_to_an_unknown_version_is_readable_in_version_0() -> None:
    decoded, _ = codec(ApiVersionsResponse, 0).decode(bytes.fromhex("0023 00000001 0012 0000 0004"))
    assert decoded.error_code == 35
    assert [(key.api_key, key.min_version, key.max_version) for key in decoded.api_keys] == [(18, 0, 4)]
