"""The API table: what the broker speaks. ApiVersions is this table.

An API is in it only if it works. The ranges go from the lowest version of Kafka 3.9 to the highest of 4.3.1.

A row names code, and imports none: what reads, answers and writes all APIs would be a third of a broker's
start, and most brokers are asked for a handful of them. So the code of an API is found by its name when it
is first asked for: request and response of `JoinGroup` stand in `kcli.protocol.messages.join_group`, and its
handler is `join_group`, in the module of handlers that its row names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, Any

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.schema.declaration import codec

if TYPE_CHECKING:
    from types import ModuleType

    from kcli.protocol.error_codes import KafkaError

API_VERSIONS_KEY = 18
_UNSUPPORTED_VERSION = Struct(">hihhh")

Handler = Callable[[Any, Any], Any]
"""Answers a request, given its context."""


Failed = Callable[[Any, "KafkaError"], Any]
"""Makes the error response to a request; None, where only closing the connection tells the client."""


Decoder = Callable[[memoryview, int, int], tuple[Any, int]]
"""Reads `buffer[position:end]`; returns the request and where it ended. Raises `DecodeError`."""


Direct = Callable[[Any, memoryview, int, int], Any]
"""Handles the common requests of an API at once, from behind the client id at `position` to `end`.

The client id itself is not looked at.

It returns the whole frame of the answer, as bytes or in parts, or a response; None leaves the request to the
rest.
"""


class Api:
    """One API: the versions served, and where the code is that answers it.

    `handlers` is the module of handlers. `decoder` and `direct` name functions of any of these modules: what
    gives the reader of a request body of a version, instead of the generated codec, and a shortcut for the
    commonest requests. With `sends_files` record data in the response may be slices of files.
    """

    def __init__(
        self,
        key: int,
        name: str,
        versions: str,
        handlers: str,
        *,
        decoder: str | None = None,
        direct: str | None = None,
        sends_files: bool = False,
    ) -> None:
        lowest, _, highest = versions.partition("-")
        self.key = key
        self.name = name
        self.min_version = int(lowest)
        self.max_version = int(highest or lowest)
        self.sends_files = sends_files
        self._function = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)[1:]
        self._handlers = handlers
        self._decoder = decoder
        self._direct = direct

    @cached_property
    def request(self) -> type[Any]:
        """The class of its requests."""
        module = import_module(f"kcli.protocol.messages.{self._function}")
        request: type[Any] = getattr(module, f"{self.name}Request")
        return request

    @cached_property
    def handler(self) -> Handler:
        """What answers it."""
        handler: Handler = getattr(_handlers(self._handlers), self._function)
        return handler

    @cached_property
    def failed(self) -> Failed | None:
        """What answers when that fails: `failed_join_group`."""
        module = _handlers(self._handlers)
        failed: Failed | None = getattr(module, f"failed_{self._function}", None)
        return failed

    @cached_property
    def decoder(self) -> Callable[[int], Decoder]:
        """What gives the reader of a request body of a version."""
        if self._decoder is None:
            return lambda version: codec(self.request, version).decode
        decoder: Callable[[int], Decoder] = _named(self._decoder)
        return decoder

    @cached_property
    def direct(self) -> Direct | None:
        """The shortcut for the commonest requests, if there is one."""
        return None if self._direct is None else _named(self._direct)


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
    Api(
        0,
        "Produce",
        "0-13",
        "produce.handler",
        decoder="produce.wire.decoder",
        direct="produce.short_path.produce_directly",
    ),
    Api(1, "Fetch", "0-18", "fetch.handler", direct="fetch.short_path.fetch_directly", sends_files=True),
    Api(2, "ListOffsets", "0-11", "log_offsets"),
    Api(3, "Metadata", "0-13", "metadata"),
    Api(8, "OffsetCommit", "0-10", "committed_offsets"),
    Api(9, "OffsetFetch", "0-10", "committed_offsets"),
    Api(10, "FindCoordinator", "0-6", "coordinators"),
    Api(11, "JoinGroup", "0-9", "groups"),
    Api(12, "Heartbeat", "0-4", "groups"),
    Api(13, "LeaveGroup", "0-5", "groups"),
    Api(14, "SyncGroup", "0-5", "groups"),
    Api(15, "DescribeGroups", "0-6", "groups"),
    Api(16, "ListGroups", "0-5", "groups"),
    Api(18, "ApiVersions", "0-4", "api_versions"),
    Api(19, "CreateTopics", "0-7", "topics"),
    Api(20, "DeleteTopics", "0-6", "topics"),
    Api(21, "DeleteRecords", "0-2", "log_offsets"),
    Api(22, "InitProducerId", "0-5", "producers"),
    Api(23, "OffsetForLeaderEpoch", "0-4", "log_offsets"),
    Api(32, "DescribeConfigs", "0-4", "configs"),
    Api(33, "AlterConfigs", "0-2", "configs"),
    Api(34, "AlterReplicaLogDirs", "0-2", "log_dirs"),
    Api(35, "DescribeLogDirs", "0-5", "log_dirs"),
    Api(37, "CreatePartitions", "0-3", "topics"),
    Api(42, "DeleteGroups", "0-2", "groups"),
    Api(43, "ElectLeaders", "0-2", "partitions"),
    Api(44, "IncrementalAlterConfigs", "0-1", "configs"),
    Api(45, "AlterPartitionReassignments", "0-1", "partitions"),
    Api(46, "ListPartitionReassignments", "0", "partitions"),
    Api(47, "OffsetDelete", "0", "committed_offsets"),
    Api(48, "DescribeClientQuotas", "0-1", "client_quotas"),
    Api(49, "AlterClientQuotas", "0-1", "client_quotas"),
    Api(55, "DescribeQuorum", "0-2", "cluster"),
    Api(57, "UpdateFeatures", "0-2", "cluster"),
    Api(60, "DescribeCluster", "0-2", "cluster"),
    Api(61, "DescribeProducers", "0", "producers"),
    Api(64, "UnregisterBroker", "0", "cluster"),
    Api(68, "ConsumerGroupHeartbeat", "0-1", "groups"),
    Api(69, "ConsumerGroupDescribe", "0-1", "groups"),
    Api(74, "ListConfigResources", "0-1", "configs"),
    Api(75, "DescribeTopicPartitions", "0", "topics"),
)
