"""The error responses that have the same form in many APIs.

They hold the error wherever the response has a place for it: in the response itself, and in a row for every
element of one list of the request. An element is a number, a name or a struct; a row takes over the fields of
`_KEYS`, and its own rows are those of the list in the element. APIs with another form have a function
`failed_x` in their module of handlers.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kcli.protocol.schema.declaration import response_class
from kcli.protocol.schema.fields import fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.network.apis import Api, Failed
    from kcli.protocol.error_codes import KafkaError

_KEYS = frozenset(
    {"name", "topic", "partition_index", "partition", "resource_type", "resource_name", "entity"}
)
ROWS: Mapping[str, tuple[str, str] | None] = {
    "AddOffsetsToTxn": None,
    "AlterClientQuotas": ("entries", "entries"),
    "AlterConfigs": ("resources", "responses"),
    "ConsumerGroupHeartbeat": None,
    "CreatePartitions": ("topics", "results"),
    "CreateTopics": ("topics", "topics"),
    "DescribeCluster": None,
    "DescribeConfigs": ("resources", "results"),
    "DescribeLogDirs": None,
    "DescribeProducers": ("topics", "topics"),
    "DescribeQuorum": None,
    "DescribeTopicPartitions": ("topics", "topics"),
    "ElectLeaders": ("topic_partitions", "replica_election_results"),
    "EndTxn": None,
    "IncrementalAlterConfigs": ("resources", "responses"),
    "LeaveGroup": None,
    "ListConfigResources": None,
    "ListGroups": None,
    "ListOffsets": ("topics", "topics"),
    "ListPartitionReassignments": None,
    "OffsetDelete": None,
    "OffsetForLeaderEpoch": ("topics", "topics"),
    "SaslAuthenticate": None,
    "SaslHandshake": None,
    "SyncGroup": None,
    "TxnOffsetCommit": ("topics", "topics"),
    "UnregisterBroker": None,
    "UpdateFeatures": None,
}
"""By API, the list of the request, and the list of the response with a row for each of its elements."""


def failed(api: Api) -> Failed | None:
    """Return what makes the error response of an API in this table, None for any other API."""
    return partial(_response, api.key, ROWS[api.name]) if api.name in ROWS else None


def blank(struct: type[Any]) -> Any:  # noqa: ANN401 - an object of it
    """Return an object with the default of every field."""
    return struct(**{field.name: field.make_default() for field in fields_of(struct)})


def _response(api_key: int, lists: tuple[str, str] | None, request: object, error: KafkaError) -> Any:  # noqa: ANN401 - of the API
    response = _with_error(response_class(api_key), error)
    if lists is not None:
        row: Any = next(field.struct for field in fields_of(type(response)) if field.name == lists[1])
        setattr(response, lists[1], [_row(row, each, error) for each in getattr(request, lists[0]) or ()])
    return response


def _row(struct: type[Any], element: Any, error: KafkaError) -> Any:  # noqa: ANN401 - any struct
    row = _with_error(struct, error)
    fields = fields_of(struct)
    if isinstance(element, int):
        setattr(row, fields[0].name, element)
        return row
    inner = next((getattr(element, each.name) for each in fields_of(type(element)) if each.is_array), ())
    for field in fields:
        if field.name in _KEYS:
            setattr(row, field.name, getattr(element, field.name))
        elif field.struct is not None and any(each.name == "error_code" for each in fields_of(field.struct)):
            setattr(row, field.name, [_row(field.struct, each, error) for each in inner])
    return row


def _with_error(struct: type[Any], error: KafkaError) -> Any:  # noqa: ANN401 - an object of it
    result = blank(struct)
    names = {field.name for field in fields_of(struct)}
    if "error_code" in names:
        result.error_code = error.code
    if "error_message" in names:
        result.error_message = error.message
    return result
