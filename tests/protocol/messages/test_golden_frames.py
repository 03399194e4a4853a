"""Frames that Apache Kafka's own classes wrote (4.3.1; 3.9.2 for the versions that 4.0 removed)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kcli.protocol.frames import (
    RequestHeader,
    decode_response,
    encode_request,
    encode_response,
    parse_request_header,
)
from kcli.protocol.schema.declaration import codec, message_info
from tests.protocol.messages.messages_under_test import VERSIONS, version_id
from tests.support.specimens import CLIENT_ID, CORRELATION_ID, specimen

FRAMES = Path(__file__).parents[2] / "golden" / "wire"


def _path(message: type[Any], version: int) -> Path:
    api = message_info(message).name
    kind = message.__name__.removeprefix(api).lower()
    return FRAMES / f"{re.sub('(?<=[a-z])(?=[A-Z])', '_', api).lower()}_v{version}_{kind}.hex"


@pytest.mark.parametrize(("message", "version"), VERSIONS, ids=version_id)
def test_a_frame_is_the_one_that_kafka_writes(message: type[Any], version: int) -> None:
    golden = bytes.fromhex(_path(message, version).read_text())
    value = specimen(message, version)
    key = message_info(message).key
    if message.__name__.endswith("Request"):
        header = RequestHeader(key, version, CORRELATION_ID, CLIENT_ID)
        assert encode_request(header, value).hex() == golden.hex()
        parsed, body = parse_request_header(golden[4:])
        assert parsed == header
        assert codec(message, version).decode(golden, 4 + body) == (value, len(golden))
    else:
        assert encode_response(key, version, CORRELATION_ID, value).hex() == golden.hex()
        assert decode_response(key, version, golden[4:]) == (CORRELATION_ID, value)


def test_every_golden_frame_is_read() -> None:
    assert {path.name for path in FRAMES.iterdir()} == {_path(*version).name for version in VERSIONS}
