"""Request and response headers against bytes written down by hand; frames from a stream cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.frames import (
    FrameError,
    FrameReader,
    RequestHeader,
    decode_response,
    encode_request,
    encode_response,
    parse_request_header,
    parse_response_header,
    request_header_version,
    response_header_version,
)
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kcli.protocol.schema.declaration import DecodeError

METADATA, API_VERSIONS, UNKNOWN = 3, 18, 999


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [
        (METADATA, 8, 1, 0),
        (METADATA, 9, 2, 1),
        (API_VERSIONS, 2, 1, 0),
        (API_VERSIONS, 3, 2, 0),
        (UNKNOWN, 9, 1, 0),
    ],
)
def test_header_versions(key: int, version: int, request_header: int, response_header: int) -> None:
    assert request_header_version(key, version) == request_header
    assert response_header_version(key, version) == response_header


def test_a_metadata_request_of_version_1() -> None:
    frame = encode_request(
        RequestHeader(METADATA, 1, 2, "kcli"), MetadataRequest(topics=[MetadataRequestTopic(name="t0")])
    )
    assert frame == bytes.fromhex("00000016 0003 0001 00000002 00046b636c69 00000001 00027430")


def test_the_answer_to_an_unknown_version_of_api_versions() -> None:
    answer = ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersion(api_key=API_VERSIONS, min_version=0, max_version=4)]
    )
    frame = encode_response(API_VERSIONS, 0, 1, answer)
    assert frame == bytes.fromhex("00000010 00000001 0023 00000001 0012 0000 0004")
    assert decode_response(API_VERSIONS, 0, frame[4:]) == (1, answer)


def test_a_flexible_header_keeps_the_classic_client_id() -> None:
    request = ApiVersionsRequest(client_software_name="k", client_software_version="1")
    frame = encode_request(RequestHeader(API_VERSIONS, 3, 7, "id"), request)
    assert frame == bytes.fromhex("00000012 0012 0003 00000007 00026964 00 026b 0231 00")
    header, body = parse_request_header(memoryview(frame)[4:])
    assert header == RequestHeader(API_VERSIONS, 3, 7, "id")
    assert frame[4 + body :] == bytes.fromhex("026b 0231 00")


def test_a_flexible_response_header_has_a_tag_section() -> None:
    empty = MetadataResponse(brokers=[], cluster_id=None, controller_id=-1, topics=[])
    frame = encode_response(METADATA, 9, 5, empty)
    assert frame[4:9] == bytes.fromhex("00000005 00")
    assert decode_response(METADATA, 9, frame[4:]) == (5, empty)


def test_a_null_client_id() -> None:
    frame = encode_request(RequestHeader(METADATA, 1, 2, None), MetadataRequest(topics=None))
    assert frame[12:14] == b"\xff\xff"
    assert parse_request_header(frame[4:])[0].client_id is None


def test_tags_of_headers_are_skipped() -> None:
    header = bytes.fromhex("0003 0009 00000001 ffff 02 00021234 0500")
    assert parse_request_header(header)[1] == len(header)
    assert parse_response_header(METADATA, 9, bytes.fromhex("00000001 01 000112"))[1] == 8


@pytest.mark.parametrize(
    "data",
    [
        "",
        "0003 0009 00000001",
        "0003 0009 00000001 fffe 00",
        "0003 0009 00000001 0005 61",
        "0003 0009 00000001 ffff",
        "0003 0009 00000001 ffff 01",
        "0003 0009 00000001 ffff 010005",
        "0003 0009 00000001 ffff ffffffffffff",
    ],
)
def test_a_malformed_request_header(data: str) -> None:
    with pytest.raises(DecodeError, match="malformed request header"):
        parse_request_header(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["", "000000", "00000001", "00000001 01", "00000001 010009"])
def test_a_malformed_response_header(data: str) -> None:
    with pytest.raises(DecodeError, match="malformed"):
        parse_response_header(METADATA, 9, bytes.fromhex(data))


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
