"""The table of the APIs that the broker serves, which is also its ApiVersions response.

Keys and versions are those of `kcli.protocol.apis`. A row names code and imports none: the code of all APIs
would be a third of a broker's start, and most brokers are asked for a handful of APIs. The first request
imports it: the messages of `JoinGroup` are in `kcli.protocol.messages.join_group`, its handler is
`join_group` in the module of handlers that the row names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, Any

from kcli.protocol.apis import named
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.schema.declaration import codec

if TYPE_CHECKING:
    from types import ModuleType

    from kcli.protocol.error_codes import KafkaError

_UNSUPPORTED_VERSION = Struct(">hihhh")

Handler = Callable[[Any, Any], Any]
"""Returns the result for a request, given its context; `RequestEngine` says which results there are."""

Failed = Callable[[Any, "KafkaError"], Any]
"""Returns the error response to a request, None if only closing the connection can tell the client."""

Decoder = Callable[[memoryview, int, int], tuple[Any, int]]
"""Reads `buffer[position:end]`; returns the request and its end. Raises `DecodeError`."""


class Api:
    """One API: the versions that are served, and the code that serves them.

    `handlers` is the module of handlers. `decoder` and `reader` name functions of any of these modules that
    return what reads the body of a request in one version: `decoder` replaces the generated codec, `reader`
    also returns short forms of common requests, which only the handler knows. With `sends_files` record data
    in the response may be slices of files.
    """

    def __init__(
        self,
        name: str,
        handlers: str,
        *,
        decoder: str | None = None,
        reader: str | None = None,
        sends_files: bool = False,
    ) -> None:
        api = named(name)
        assert api.kcli is not None
        self.key = api.key
        self.name = name
        self.min_version, self.max_version = api.kcli
        self.sends_files = sends_files
        self._function = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)[1:]
        self._handlers = handlers
        self._decoder = decoder
        self._reader = reader

    @cached_property
    def request(self) -> type[Any]:
        """The class of its requests."""
        module = import_module(f"kcli.protocol.messages.{self._function}")
        request: type[Any] = getattr(module, f"{self.name}Request")
        return request

    @cached_property
    def handler(self) -> Handler:
        """The function that handles a request."""
        handler: Handler = getattr(_handlers(self._handlers), self._function)
        return handler

    @cached_property
    def failed(self) -> Failed | None:
        """The function that makes the response if the handler fails; None only for ApiVersions."""
        own: Failed | None = getattr(_handlers(self._handlers), f"failed_{self._function}", None)
        return own or _named("error_responses.failed")(self)

    @cached_property
    def decoder(self) -> Callable[[int], Decoder]:
        """The function that returns what reads a request body of a version."""
        if self._decoder is None:
            return lambda version: codec(self.request, version).decode
        decoder: Callable[[int], Decoder] = _named(self._decoder)
        return decoder

    @cached_property
    def reader(self) -> Callable[[int], Decoder]:
        """The function that returns what reads a request body of a version for the handler."""
        if self._reader is None:
            return self.decoder
        reader: Callable[[int], Decoder] = _named(self._reader)
        return reader


def unsupported_version_body(api: Api) -> bytes:
    """Return the ApiVersions response to an unknown version of it: in version 0, with its own range."""
    return _UNSUPPORTED_VERSION.pack(
        ErrorCode.UNSUPPORTED_VERSION, 1, api.key, api.min_version, api.max_version
    )


def _handlers(name: str) -> ModuleType:
    return import_module(f"kcli.broker.handlers.{name}")


def _named(reference: str) -> Any:  # noqa: ANN401 - the function
    module, _, name = reference.rpartition(".")
    return getattr(_handlers(module), name)


APIS = (
    Api("Produce", "produce.handler", decoder="produce.wire.decoder", reader="produce.short_path.reader"),
    Api("Fetch", "fetch.handler", reader="fetch.short_path.reader", sends_files=True),
    Api("ListOffsets", "log_offsets"),
    Api("Metadata", "metadata"),
    Api("OffsetCommit", "committed_offsets"),
    Api("OffsetFetch", "committed_offsets"),
    Api("FindCoordinator", "coordinators"),
    Api("JoinGroup", "groups"),
    Api("Heartbeat", "groups"),
    Api("LeaveGroup", "groups"),
    Api("SyncGroup", "groups"),
    Api("DescribeGroups", "groups"),
    Api("ListGroups", "groups"),
    Api("SaslHandshake", "sasl"),
    Api("ApiVersions", "api_versions"),
    Api("CreateTopics", "topics"),
    Api("DeleteTopics", "topics"),
    Api("DeleteRecords", "log_offsets"),
    Api("InitProducerId", "producers"),
    Api("OffsetForLeaderEpoch", "log_offsets"),
    Api("AddPartitionsToTxn", "transactions"),
    Api("AddOffsetsToTxn", "transactions"),
    Api("EndTxn", "transactions"),
    Api("WriteTxnMarkers", "txn_markers"),
    Api("TxnOffsetCommit", "txn_offsets"),
    Api("DescribeAcls", "acls"),
    Api("CreateAcls", "acls"),
    Api("DeleteAcls", "acls"),
    Api("DescribeConfigs", "configs"),
    Api("AlterConfigs", "configs"),
    Api("SaslAuthenticate", "sasl"),
    Api("AlterReplicaLogDirs", "log_dirs"),
    Api("DescribeLogDirs", "log_dirs"),
    Api("CreatePartitions", "topics"),
    Api("DeleteGroups", "groups"),
    Api("ElectLeaders", "partitions"),
    Api("IncrementalAlterConfigs", "configs"),
    Api("AlterPartitionReassignments", "partitions"),
    Api("ListPartitionReassignments", "partitions"),
    Api("OffsetDelete", "committed_offsets"),
    Api("DescribeClientQuotas", "client_quotas"),
    Api("AlterClientQuotas", "client_quotas"),
    Api("DescribeUserScramCredentials", "scram_credentials"),
    Api("AlterUserScramCredentials", "scram_credentials"),
    Api("DescribeQuorum", "cluster"),
    Api("UpdateFeatures", "cluster"),
    Api("DescribeCluster", "cluster"),
    Api("DescribeProducers", "producers"),
    Api("UnregisterBroker", "cluster"),
    Api("DescribeTransactions", "transactions"),
    Api("ListTransactions", "transactions"),
    Api("ConsumerGroupHeartbeat", "groups"),
    Api("ConsumerGroupDescribe", "groups"),
    Api("ListConfigResources", "configs"),
    Api("DescribeTopicPartitions", "topics"),
)
