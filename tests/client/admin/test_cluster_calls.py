"""Admin calls about brokers and configs: requests to older brokers, and errors."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcli.client import admin
from kcli.client.admin import ConfigResourceType
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages import list_config_resources as wire
from kcli.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.client.fake_brokers import fake_cluster

GROUP, METRICS = ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS


def listed(*resources: tuple[str, ConfigResourceType]) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(
        config_resources=[
            wire.ConfigResource(resource_name=name, resource_type=kind) for name, kind in resources
        ]
    )


@pytest.mark.parametrize(
    ("version", "kinds", "asked", "found"),
    [
        (1, [GROUP], [32], ["billing"]),
        (1, [], [], ["billing", "laptops"]),
        (0, [METRICS], [], ["laptops"]),
        (0, [], [], ["laptops"]),
        (0, [METRICS, GROUP], [], ["laptops"]),
        (0, [GROUP], [], []),
    ],
)
async def test_a_broker_is_asked_by_type_if_it_knows_types(
    version: int,
    kinds: Sequence[ConfigResourceType],
    asked: list[int],
    found: list[str],
    autojump_clock: object,
) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.max_versions[74] = version
        brokers.disconnect(1)
        resources = [("laptops", METRICS), *([("billing", GROUP)] if version else [])]
        brokers.script(ListConfigResourcesRequest, listed(*resources))
        answer = await admin.list_config_resources(client, kinds)
        [request] = brokers.received(ListConfigResourcesRequest)
    assert sorted(resource.name for resource in answer) == found
    assert request.resource_types == asked


async def test_a_broker_is_forgotten_once_the_controller_is_there(autojump_clock: object) -> None:
    async with fake_cluster() as (brokers, client):
        moved = UnregisterBrokerResponse(error_code=ErrorCode.NOT_CONTROLLER)
        brokers.script(UnregisterBrokerRequest, moved, UnregisterBrokerResponse())
        await admin.unregister_broker(client, 3)
        assert [request.broker_id for request in brokers.received(UnregisterBrokerRequest)] == [3, 3]


async def test_a_broker_that_nobody_knows_cannot_be_forgotten(autojump_clock: object) -> None:
    async with fake_cluster() as (brokers, client):
        unknown = UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
        brokers.script(UnregisterBrokerRequest, unknown)
        with pytest.raises(KafkaError) as caught:
            await admin.unregister_broker(client, 3)
    assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED
