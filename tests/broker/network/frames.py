"""Requests as bytes."""

from __future__ import annotations

from kcli.protocol.frames import RequestHeader, encode_request
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.schema.declaration import message_info


def frame(request: object, version: int, correlation_id: int = 1) -> bytes:
    """Return a request as bytes with its size."""
    header = RequestHeader(message_info(type(request)).key, version, correlation_id, "test")
    return encode_request(header, request)


def all_metadata() -> MetadataRequest:
    """Return a request for every topic."""
    return MetadataRequest(topics=None)
