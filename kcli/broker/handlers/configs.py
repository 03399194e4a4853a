"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.

* Topics, brokers and groups have configurations; the broker with an empty name is the default of all brokers.
* The loggers of a broker have levels (`loggers`), which change one by one in the process that is asked.
* There are no client metrics subscriptions: each is described as empty, and to create one is INVALID_REQUEST,
  as is any other type of resource.
* A group need not exist to be configured; an empty group name is INVALID_REQUEST.
* A broker answers only for itself; the id of another is INVALID_REQUEST, as in Kafka. The node of the
  controller takes changes for any registered node: tools with `--bootstrap-controller` send them there.
* DescribeConfigs version 0 says only whether a value is the default; sources and synonyms come with version
  1, types and documentation with version 3. The values of passwords are null.
* A broker configuration that Kafka has and kcli does not act on is checked, stored and shown as in Kafka. One
  of security is INVALID_CONFIG: nobody shall believe that it keeps clients out.
* An unknown broker configuration is INVALID_CONFIG, where Kafka would store it without effect. A broker
  configuration that cannot change while the broker runs, has a wrong value or conflicts with others of the
  node is INVALID_REQUEST.
* ListConfigResources version 0 lists only client metrics, so its list is empty.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.broker.config.config_entries import ConfigChange, DescribedConfigs, logger_entries
from kcli.broker.config.loggers import alter_loggers, logger_levels
from kcli.broker.controller.configuration_control import values_after
from kcli.broker.handlers.topics import topic_defaults
from kcli.broker.network.authorization import authorize_cluster, authorize_group, authorize_topics
from kcli.errors import UsageError
from kcli.protocol.configs import ConfigOperation, ConfigResourceType, ConfigSource
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages import alter_configs as legacy
from kcli.protocol.messages import incremental_alter_configs as incremental
from kcli.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kcli.protocol.messages.list_config_resources import ConfigResource, ListConfigResourcesResponse
from kcli.protocol.topics import check_topic_name
from kcli.security.acl import Operation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcli.broker.config.config_entries import ConfigEntry
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.node_context import NodeContext
    from kcli.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
    from kcli.protocol.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from kcli.protocol.messages.list_config_resources import ListConfigResourcesRequest

AlterResource = legacy.AlterConfigsResource | incremental.AlterConfigsResource
R = TypeVar("R", legacy.AlterConfigsResource, incremental.AlterConfigsResource)
A = TypeVar("A", legacy.AlterConfigsResourceResponse, incremental.AlterConfigsResourceResponse)


_DESCRIBED = frozenset(ConfigResourceType) - {ConfigResourceType.UNKNOWN}


def describe_configs(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    """Return the configurations of each resource, all or those asked for by name.

    A resource that is asked for twice is returned once: five bytes would bring ten kilobytes each time. An
    unknown type of resource fails the request.
    """
    if any(each.resource_type not in _DESCRIBED for each in request.resources):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an unknown type of resource")
    results = []
    for resource in {
        (each.resource_type, each.resource_name, frozenset(each.configuration_keys or ())): each
        for each in request.resources
    }.values():
        result = DescribeConfigsResult(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
        try:
            _authorize(context, Operation.DESCRIBE_CONFIGS, resource)
            entries = _entries(resource, context.node)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            wanted = frozenset(resource.configuration_keys or ())
            result.configs = [
                _described(entry, request, context.api_version)
                for entry in entries
                if not wanted or entry.name in wanted
            ]
        results.append(result)
    return DescribeConfigsResponse(results=results)


def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Set, delete, append to and subtract from values; each resource gets all of its changes or none."""
    broker = context.node
    errors, accepted = _accept(request.resources, context)
    for resource in [each for each in accepted if each.resource_type == ConfigResourceType.BROKER_LOGGER]:
        accepted.remove(resource)
        errors[_key(resource)] = _alter_loggers(resource, broker, validate_only=request.validate_only)
    outcomes = broker.controller.incremental_alter_configs(
        [(_key(resource), _changes(resource)) for resource in accepted],
        defaults=topic_defaults(broker.config),
        validate_only=request.validate_only,
    )
    errors.update(zip(map(_key, accepted), outcomes, strict=True))
    return incremental.IncrementalAlterConfigsResponse(
        responses=[
            _altered(incremental.AlterConfigsResourceResponse, each, errors.get(_key(each)))
            for each in request.resources
        ]
    )


def alter_configs(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    """Replace the whole configuration of each resource."""
    broker = context.node
    errors, accepted = _accept(request.resources, context)
    outcomes = broker.controller.alter_configs(
        [
            (_key(resource), {each.name: each.value or "" for each in resource.configs})
            for resource in accepted
        ],
        defaults=topic_defaults(broker.config),
        validate_only=request.validate_only,
    )
    errors.update(zip(map(_key, accepted), outcomes, strict=True))
    return legacy.AlterConfigsResponse(
        responses=[
            _altered(legacy.AlterConfigsResourceResponse, each, errors.get(_key(each)))
            for each in request.resources
        ]
    )


def list_config_resources(
    request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    """Return the resources of the types asked for, of all types without any."""
    authorize_cluster(context, Operation.DESCRIBE_CONFIGS)
    if context.api_version == 0:
        return ListConfigResourcesResponse(config_resources=[])
    known = {int(type) for type in ConfigResourceType if type is not ConfigResourceType.UNKNOWN}
    if any(type not in known for type in request.resource_types):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "an unknown type of resource")
    wanted = set(request.resource_types) or known
    image = context.node.image
    brokers = [str(node_id) for node_id in sorted(image.brokers)]
    names = {
        ConfigResourceType.TOPIC: sorted(image.topics),
        ConfigResourceType.BROKER: brokers,
        ConfigResourceType.BROKER_LOGGER: brokers,
        ConfigResourceType.GROUP: sorted(
            name for type, name in image.configs if type == ConfigResourceType.GROUP
        ),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=type)
            for type in names
            if type in wanted
            for name in names[type]
        ]
    )


def _authorize(
    context: RequestContext, operation: Operation, resource: AlterResource | DescribeConfigsResource
) -> None:
    """Raise `KafkaError` if the operation on the configuration of a resource is denied.

    Types that do not exist are left to others.
    """
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.GROUP:
            authorize_group(context, operation, name)
        case ConfigResourceType.TOPIC if authorize_topics(context, operation, (name,)):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER | ConfigResourceType.CLIENT_METRICS:
            authorize_cluster(context, operation)


def _entries(resource: DescribeConfigsResource, broker: NodeContext) -> list[ConfigEntry]:
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            check_topic_name(name)
            if name not in broker.image.topics:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic `{name}` does not exist")
            return DescribedConfigs(broker.config).topic(broker.image.topic_config(name))
        case ConfigResourceType.BROKER if not name:
            return DescribedConfigs(broker.config).default_broker()
        case ConfigResourceType.BROKER:
            _check_is_this_broker(name, broker)
            return DescribedConfigs(broker.config).broker()
        case ConfigResourceType.BROKER_LOGGER:
            _check_is_this_broker(name, broker)
            return logger_entries(logger_levels())
        case ConfigResourceType.CLIENT_METRICS if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a subscription to metrics of clients has a name")
        case ConfigResourceType.CLIENT_METRICS:
            return []
        case ConfigResourceType.GROUP if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "groups have no default configuration")
        case ConfigResourceType.GROUP:
            return DescribedConfigs(broker.config).group(broker.image.config(ConfigResourceType.GROUP, name))
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"there are no resources of type {resource.resource_type}")


def _alter_loggers(
    resource: incremental.AlterConfigsResource, broker: NodeContext, *, validate_only: bool
) -> KafkaError | None:
    """Change the levels of the loggers of this broker; return the error if that is refused."""
    try:
        _check_is_this_broker(resource.resource_name, broker)
        alter_loggers(_changes(resource), validate_only=validate_only)
    except KafkaError as error:
        return error.detached()
    return None


def _is_this_broker(name: str, broker: NodeContext) -> bool:
    if not (name.isascii() and name.lstrip("-").isdigit()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"not a node id: `{name}`")
    return int(name) == broker.node_id


def _check_is_this_broker(name: str, broker: NodeContext) -> None:
    if not _is_this_broker(name, broker):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is node {broker.node_id}, not {name}")


def _described(
    entry: ConfigEntry, request: DescribeConfigsRequest, version: int
) -> DescribeConfigsResourceResult:
    described = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        config_type=entry.definition.type,
    )
    if version == 0:
        described.is_default = entry.source is ConfigSource.DEFAULT_CONFIG
    if request.include_synonyms:
        described.synonyms = [
            DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
            for each in entry.synonyms
        ]
    if request.include_documentation:
        described.documentation = entry.definition.documentation
    return described


def _key(resource: AlterResource) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _accept(
    resources: Sequence[R], context: RequestContext
) -> tuple[dict[tuple[int, str], KafkaError | None], list[R]]:
    """Return the errors of resources that are malformed, denied or not for this broker, and the others."""
    errors: dict[tuple[int, str], KafkaError | None] = {}
    accepted = []
    counts = Counter(map(_key, resources))
    for resource in resources:
        try:
            if counts[_key(resource)] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a resource is named twice")
            _check_changes(resource.configs)
            if resource.resource_type == ConfigResourceType.BROKER:
                _check_broker(resource, context.node)
            # Kafka's brokers check what they can before the controller authorizes the rest.
            _authorize(context, Operation.ALTER_CONFIGS, resource)
        except KafkaError as error:
            errors[_key(resource)] = error.detached()
        else:
            accepted.append(resource)
    return errors, accepted


def _check_broker(resource: AlterResource, broker: NodeContext) -> None:
    """Raise `KafkaError` unless this node can take a change of a broker's configuration."""
    name = resource.resource_name
    if not name or _is_this_broker(name, broker):
        after = broker.config.check_reconfiguration(_values_after(resource, broker), is_default=not name)
        try:
            broker.check_stores(after)
        except UsageError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error
    elif broker.controller_link.controller_id != broker.node_id:
        _check_is_this_broker(name, broker)


def _values_after(resource: AlterResource, broker: NodeContext) -> Mapping[str, str]:
    if isinstance(resource, legacy.AlterConfigsResource):
        return {each.name: each.value or "" for each in resource.configs}
    return values_after(_key(resource), broker.image.config(*_key(resource)), _changes(resource))


def _changes(resource: incremental.AlterConfigsResource) -> list[ConfigChange]:
    return [ConfigChange(each.name, each.config_operation, each.value) for each in resource.configs]


def _check_changes(configs: Sequence[Any]) -> None:
    names = [config.name for config in configs]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a configuration is named twice")
    nulls = [
        config.name
        for config in configs
        if config.value is None and getattr(config, "config_operation", None) != ConfigOperation.DELETE
    ]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"null value for: {', '.join(nulls)}")


def _altered(response: type[A], resource: AlterResource, error: KafkaError | None) -> A:
    return response(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
