"""Configurations of topics, brokers and groups: validation, and the records that set them (KIP-226, KIP-339).

All values of a resource change together or not at all. They are checked against each other and against the
defaults of the node that got the request. Names that cannot be configured, or not while a broker runs, are
refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from kcli.broker.config.broker_definitions import broker_config
from kcli.broker.config.config_definition import InvalidConfig, UpdateMode
from kcli.broker.config.config_entries import find_config
from kcli.broker.config.group_definitions import GroupConfig, check_group_configs
from kcli.broker.config.inert_configs import is_security
from kcli.broker.config.security_definitions import OF_LISTENERS
from kcli.broker.config.topic_definitions import check_topic_configs
from kcli.broker.controller.feature_control import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    check_min_isr,
    elr_clearing_records,
)
from kcli.broker.controller.result import ControllerResult
from kcli.protocol.configs import (
    ConfigOperation,
    ConfigResourceType,
    ConfigType,
    not_acted_on_message,
)
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import ConfigRecord
from kcli.protocol.topics import check_topic_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kcli.broker.config.config_definition import ConfigDefinition
    from kcli.broker.config.config_entries import ConfigChange
    from kcli.broker.metadata.metadata_image import ConfigResource, MetadataImage
    from kcli.protocol.internal.metadata_records import MetadataRecord

C = TypeVar("C")

_GROUPS = GroupConfig()


def topic_config_records(
    name: str, configs: Mapping[str, str | None], *, defaults: Mapping[str, Any]
) -> list[MetadataRecord]:
    """Return the records of a new topic's configuration; raise `KafkaError` INVALID_CONFIG."""
    nulls = [key for key, value in configs.items() if value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"null value for topic configs: {', '.join(nulls)}")
    values = {key: value for key, value in configs.items() if value is not None}
    resource = (ConfigResourceType.TOPIC, name)
    _check_values(resource, values, (), defaults, _GROUPS)
    return _records(resource, {}, values, ())


def incremental_alter_configs(
    image: MetadataImage,
    changes: Sequence[tuple[ConfigResource, Sequence[ConfigChange]]],
    *,
    defaults: Mapping[str, Any],
    groups: GroupConfig = _GROUPS,
) -> ControllerResult[list[KafkaError | None]]:
    """Change single values of resources; the response has an error or None for each, in order.

    `defaults` is the typed configuration of a topic without overrides, `groups` that of a group.
    """

    def decide(resource: ConfigResource, operations: Sequence[ConfigChange]) -> list[MetadataRecord]:
        current = image.config(*resource)
        values = values_after(resource, current, operations)
        named = {each.name for each in operations}
        _check_values(resource, values, named, defaults, groups)
        return _records(resource, current, values, named)

    return _decide_each(image, changes, decide)


def alter_configs(
    image: MetadataImage,
    changes: Sequence[tuple[ConfigResource, Mapping[str, str]]],
    *,
    defaults: Mapping[str, Any],
    groups: GroupConfig = _GROUPS,
) -> ControllerResult[list[KafkaError | None]]:
    """Replace whole configurations (the old API): values that are not given are deleted."""

    def decide(resource: ConfigResource, values: Mapping[str, str]) -> list[MetadataRecord]:
        _check_values(resource, values, values.keys(), defaults, groups)
        return _records(resource, image.config(*resource), values, values.keys())

    return _decide_each(image, changes, decide)


def _decide_each(
    image: MetadataImage,
    changes: Sequence[tuple[ConfigResource, C]],
    decide: Callable[[ConfigResource, C], list[MetadataRecord]],
) -> ControllerResult[list[KafkaError | None]]:
    """Decide each resource as a whole; the response has an error or None for each, in order."""
    records: list[MetadataRecord] = []
    outcomes: list[KafkaError | None] = []
    for resource, change in changes:
        try:
            _check_resource(image, resource)
            own = _with_eligible_leaders(image, decide(resource, change))
        except KafkaError as error:
            outcomes.append(error.detached())
            continue
        records.extend(own)
        outcomes.append(None)
    return ControllerResult(tuple(records), outcomes)


def _check_resource(image: MetadataImage, resource: ConfigResource) -> None:
    type, name = resource
    match type:
        case ConfigResourceType.TOPIC if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "topics have no default configuration")
        case ConfigResourceType.TOPIC:
            check_topic_name(name)
            if name not in image.topics:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic `{name}` does not exist")
        case ConfigResourceType.BROKER:
            if name and not (name.isascii() and name.isdigit()):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"not a node id: `{name}`")
            if name and int(name) not in image.brokers:
                raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no node {name}")
        case ConfigResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "groups have no default configuration")
        case ConfigResourceType.CLIENT_METRICS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "client metrics are not collected")
        case ConfigResourceType.BROKER_LOGGER:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the levels of loggers cannot be replaced as a whole, only changed"
            )
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there are no resources of type {type}")


def values_after(
    resource: ConfigResource, current: Mapping[str, str], operations: Sequence[ConfigChange]
) -> dict[str, str]:
    """Return a resource's values after the changes. Raises `KafkaError` for an unknown operation."""
    values = dict(current)
    for change in operations:
        match change.operation:
            case ConfigOperation.DELETE:
                values.pop(change.name, None)
            case ConfigOperation.SET:
                values[change.name] = change.value or ""
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
                values[change.name] = _edit_list(resource, values.get(change.name), change)
            case _:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown operation: {change.operation}")
    return values


def _edit_list(resource: ConfigResource, current: str | None, change: ConfigChange) -> str:
    definition = _definition(resource, change.name)
    if not definition.is_list:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"`{change.name}` is not a list")
    words = [
        word for word in ((definition.default_text if current is None else current) or "").split(",") if word
    ]
    for word in _words(change.value or ""):
        if change.operation == ConfigOperation.APPEND and word not in words:
            words.append(word)
        elif change.operation == ConfigOperation.SUBTRACT and word in words:
            words.remove(word)
    return ",".join(words)


def _words(text: str) -> list[str]:
    """Split as Java does: the empty text is one word, while empty words at the end are none."""
    if not text:
        return [text]
    words = text.split(",")
    while words and not words[-1]:
        words.pop()
    return words


def _definition(resource: ConfigResource, name: str) -> ConfigDefinition[Any]:
    definition = find_config(resource[0], name)
    if definition is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown config name: {name}")
    return definition


def _check_values(
    resource: ConfigResource,
    values: Mapping[str, str],
    changed: Collection[str],
    defaults: Mapping[str, Any],
    groups: GroupConfig,
) -> None:
    """Raise `KafkaError` INVALID_CONFIG for values that do not fit; see `_check_broker` for brokers."""
    try:
        if resource[0] == ConfigResourceType.TOPIC:
            check_topic_configs(values, defaults)
        elif resource[0] == ConfigResourceType.GROUP:
            check_group_configs(values, groups)
        else:
            _check_broker(values, changed, is_default=not resource[1])
    except InvalidConfig as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, error.message) from error


def _check_broker(values: Mapping[str, str], changed: Collection[str], *, is_default: bool) -> None:
    """Check only changed values: others may come from another release.

    As in Kafka, a wrong value, or one that is fixed while the broker runs, is an invalid request, not an
    invalid configuration. Raises `InvalidConfig` for an unknown name; Kafka would store it without effect.
    """
    for name in changed:
        if name not in values:
            continue
        definition = broker_config(name)
        if definition.type is ConfigType.UNKNOWN:  # Of a plug-in, or of an older release.
            raise InvalidConfig(f"no running broker knows the config name: {name}")
        if definition.mode is UpdateMode.READ_ONLY:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"`{name}` cannot change while a broker runs")
        if definition.has_effect and name.startswith(OF_LISTENERS):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"`{name}` can only change for one listener")
        if definition.mode is UpdateMode.PER_BROKER and is_default:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"`{name}` can only be set for one broker")
        if not definition.has_effect and is_security(name):
            raise InvalidConfig(not_acted_on_message(name))
        try:
            definition.parse(values[name])
        except InvalidConfig as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error


def _with_eligible_leaders(image: MetadataImage, records: list[MetadataRecord]) -> list[MetadataRecord]:
    """Return the records with their effects on eligible leaders; raise `KafkaError` for forbidden ones."""
    if not image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION):
        return records
    check_min_isr(records)
    return [*records, *elr_clearing_records(records)]


def _records(
    resource: ConfigResource,
    before: Mapping[str, str],
    after: Mapping[str, str],
    named: Collection[str],
) -> list[MetadataRecord]:
    """Return the records of a change.

    A broker's value that is set to what it is has one, too, as in Kafka: a file that it names is read again.
    """
    type, name = resource
    again = {key for key in named if key in after} if type == ConfigResourceType.BROKER else set()
    return [
        ConfigRecord(resource_type=type, resource_name=name, name=key, value=after.get(key))
        for key in {**before, **after}
        if before.get(key) != after.get(key) or key in again
    ]
