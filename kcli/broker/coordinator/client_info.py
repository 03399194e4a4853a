"""ClientInfo: who sent a request, as groups remember and show it."""

from __future__ import annotations

from typing import NamedTuple


class ClientInfo(NamedTuple):
    """`client_id` is that of the request's header; `host` is written as Kafka does: `/127.0.0.1`."""

    client_id: str
    host: str
