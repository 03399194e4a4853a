"""Admin calls about configs: describe, alter incrementally, list the resources that have any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.admin.driver import check, error_of, retry_items
from kcli.client.admin.types import ConfigAlteration, ConfigEntry, ConfigResource, ConfigSynonym
from kcli.client.network.metadata import ANY, CONTROLLER, Target
from kcli.protocol.configs import (
    ConfigNotActedOn,
    ConfigResourceType,
    ConfigSource,
    ConfigType,
    is_not_acted_on_message,
)
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kcli.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kcli.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kcli.client.client import Client
    from kcli.protocol.error_codes import KafkaError


async def describe_configs(
    client: Client,
    resources: Iterable[ConfigResource],
    *,
    names: Sequence[str] | None = None,
    include_synonyms: bool = False,
    include_documentation: bool = False,
    timeout_ms: int | None = None,
) -> dict[ConfigResource, tuple[ConfigEntry, ...] | KafkaError]:
    """Return the configs of each resource, all or those in `names`; only a broker knows its static ones."""

    async def attempt(
        pending: list[ConfigResource], left_ms: int
    ) -> dict[ConfigResource, tuple[ConfigEntry, ...] | KafkaError]:
        results: dict[ConfigResource, tuple[ConfigEntry, ...] | KafkaError] = {}
        for target, group in _by_target(pending, ANY).items():
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configuration_keys=None if names is None else list(names),
                    )
                    for resource in group
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )
            response: DescribeConfigsResponse = await client.request(target, request, timeout_ms=left_ms)
            for result in response.results:
                resource = ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
                entries = tuple(sorted(map(_entry, result.configs), key=lambda entry: entry.name))
                results[resource] = error_of(result.error_code, result.error_message) or entries
        return results

    return await retry_items(client, resources, timeout_ms=timeout_ms, attempt=attempt)


async def incremental_alter_configs(
    client: Client,
    alterations: Mapping[ConfigResource, Sequence[ConfigAlteration]],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> dict[ConfigResource, KafkaError | None]:
    """Apply alterations (KIP-339), or only check them: all of a resource or none."""

    async def attempt(pending: list[ConfigResource], left_ms: int) -> dict[ConfigResource, KafkaError | None]:
        results: dict[ConfigResource, KafkaError | None] = {}
        for target, group in _by_target(pending, CONTROLLER).items():
            request = IncrementalAlterConfigsRequest(
                resources=[_altered(resource, alterations[resource]) for resource in group],
                validate_only=validate_only,
            )
            response: IncrementalAlterConfigsResponse = await client.request(
                target, request, timeout_ms=left_ms
            )
            for result in response.responses:
                resource = ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
                results[resource] = _refusal(result.error_code, result.error_message)
        return results

    return await retry_items(client, alterations, timeout_ms=timeout_ms, attempt=attempt)


async def list_config_resources(
    client: Client, types: Iterable[ConfigResourceType] = (), *, timeout_ms: int | None = None
) -> list[ConfigResource]:
    """Return the listed resources (KIP-1142); brokers before 4.1 list client metrics resources only."""
    kinds = [int(kind) for kind in types]

    def build(version: int) -> ListConfigResourcesRequest:
        return ListConfigResourcesRequest(resource_types=kinds if version >= 1 else [])

    response: ListConfigResourcesResponse = await client.request_by_version(
        ANY, ListConfigResourcesRequest, build, timeout_ms=timeout_ms
    )
    check(response.error_code)
    return sorted(
        ConfigResource(ConfigResourceType(resource.resource_type), resource.resource_name)
        for resource in response.config_resources
        if not kinds or resource.resource_type in kinds
    )


def config_source(number: int) -> ConfigSource:
    """Return the source of a wire number, UNKNOWN for one from a newer broker."""
    return ConfigSource(number) if number in ConfigSource.__members__.values() else ConfigSource.UNKNOWN


def _by_target(resources: list[ConfigResource], otherwise: Target) -> dict[Target, list[ConfigResource]]:
    """Group resources by target: the named broker for its own configs, `otherwise` for the rest."""
    groups: dict[Target, list[ConfigResource]] = {}
    for resource in resources:
        is_nodes_own = resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
        target = int(resource.name) if is_nodes_own and resource.name.isdecimal() else otherwise
        groups.setdefault(target, []).append(resource)
    return groups


def _altered(resource: ConfigResource, alterations: Sequence[ConfigAlteration]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=resource.type,
        resource_name=resource.name,
        configs=[
            AlterableConfig(name=item.name, config_operation=item.operation, value=item.value)
            for item in alterations
        ],
    )


def _refusal(code: int, message: str | None) -> KafkaError | None:
    """Return the error of a resource, None if it was altered."""
    if code == ErrorCode.INVALID_CONFIG and message is not None and is_not_acted_on_message(message):
        return ConfigNotActedOn(message)
    return error_of(code, message)


def _entry(result: DescribeConfigsResourceResult) -> ConfigEntry:
    known_types = ConfigType.__members__.values()
    return ConfigEntry(
        name=result.name,
        value=result.value,
        source=config_source(result.config_source),
        is_read_only=result.read_only,
        is_sensitive=result.is_sensitive,
        synonyms=tuple(
            ConfigSynonym(synonym.name, synonym.value, config_source(synonym.source))
            for synonym in result.synonyms
        ),
        type=ConfigType(result.config_type) if result.config_type in known_types else ConfigType.UNKNOWN,
        documentation=result.documentation,
    )
