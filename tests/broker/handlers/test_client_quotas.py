"""DescribeClientQuotas and AlterClientQuotas: filters, alterations and their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages import alter_client_quotas as altering
from kcli.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    QuotaMatch,
)
from tests.broker.single_node import connected, running_node
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kcli.broker.metadata.metadata_image import MetadataImage
    from tests.broker.single_node import Client

EXACT, DEFAULT, ANY = QuotaMatch.EXACT, QuotaMatch.DEFAULT, QuotaMatch.ANY
ENTITIES: dict[str, dict[str, str | None]] = {
    "u1": {"user": "u1"},
    "u2": {"user": "u2"},
    "u*": {"user": None},
    "c1": {"client-id": "c1"},
    "c*": {"client-id": None},
    "u1c1": {"user": "u1", "client-id": "c1"},
    "u1c*": {"user": "u1", "client-id": None},
    "u*c1": {"user": None, "client-id": "c1"},
    "u*c*": {"user": None, "client-id": None},
}
EVERYTHING = set(ENTITIES)


def alteration(
    entities: Mapping[str, dict[str, str | None]], *, validate_only: bool = False, **quotas: float | None
) -> altering.AlterClientQuotasRequest:
    return altering.AlterClientQuotasRequest(
        entries=[
            altering.EntryData(
                entity=[
                    altering.EntityData(entity_type=type, entity_name=name) for type, name in entity.items()
                ],
                ops=[
                    altering.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in quotas.items()
                ],
            )
            for entity in entities.values()
        ],
        validate_only=validate_only,
    )


def component(type: str, match_type: int, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=type, match_type=match_type, match=match)


async def described(client: Client, components: list[ComponentData], *, strict: bool) -> Any:
    return await client.ask(DescribeClientQuotasRequest(components=components, strict=strict), 1)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("components", "loose", "exactly"),
    [
        ([], EVERYTHING, set()),
        ([("user", EXACT, "u1")], {"u1", "u1c1", "u1c*"}, {"u1"}),
        ([("user", EXACT, "nobody")], set(), set()),
        ([("user", DEFAULT, None)], {"u*", "u*c1", "u*c*"}, {"u*"}),
        ([("user", ANY, None)], EVERYTHING - {"c1", "c*"}, {"u1", "u2", "u*"}),
        ([("client-id", EXACT, "c1")], {"c1", "u1c1", "u*c1"}, {"c1"}),
        ([("client-id", DEFAULT, None)], {"c*", "u1c*", "u*c*"}, {"c*"}),
        ([("user", EXACT, "u1"), ("client-id", EXACT, "c1")], {"u1c1"}, {"u1c1"}),
        ([("client-id", ANY, None), ("user", EXACT, "u1")], {"u1c1", "u1c*"}, {"u1c1", "u1c*"}),
        ([("client-id", DEFAULT, None), ("user", DEFAULT, None)], {"u*c*"}, {"u*c*"}),
        ([("ip", ANY, None)], set(), set()),
    ],
    ids=str,
)
async def test_a_filter_finds_entities_with_its_parts_and_a_strict_one_with_no_others(
    tmp_path: Path,
    components: list[tuple[str, int, str | None]],
    loose: set[str],
    exactly: set[str],
    strict: bool,
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        await client.ask(alteration(ENTITIES, producer_byte_rate=1000.0), 1)
        response = await described(client, [component(*each) for each in components], strict=strict)
        assert (response.error_code, response.error_message) == (0, None)
        names = {frozenset(entity.items()): name for name, entity in ENTITIES.items()}
        found = {
            names[frozenset((part.entity_type, part.entity_name) for part in entry.entity)]
            for entry in response.entries
        }
        assert found == (exactly if strict else loose)
        for entry in response.entries:
            assert [(each.key, each.value) for each in entry.values] == [("producer_byte_rate", 1000.0)]


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST, "the type of an entity is empty"),
        (
            [("user", ANY, None), ("user", DEFAULT, None)],
            ErrorCode.INVALID_REQUEST,
            "a filter has two parts of type `user`",
        ),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION, "there are no entities of type `group`"),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST, "an exact match of a `user` has no name"),
        ([("user", DEFAULT, "u")], ErrorCode.INVALID_REQUEST, "only an exact match of a `user` has a name"),
        ([("user", ANY, "u")], ErrorCode.INVALID_REQUEST, "only an exact match of a `user` has a name"),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST, "unknown type of match: 3"),
        (
            [("ip", ANY, None), ("user", ANY, None)],
            ErrorCode.INVALID_REQUEST,
            "an address is not sought with a user or a client",
        ),
    ],
    ids=str,
)
async def test_a_filter_that_cannot_be_is_refused(
    tmp_path: Path, components: list[tuple[str, int, str | None]], code: ErrorCode, message: str
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        response = await described(client, [component(*each) for each in components], strict=False)
        assert (response.error_code, response.error_message, response.entries) == (code, message, None)


async def test_each_entity_is_answered_for_itself_and_checking_changes_nothing(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        wanted = {"good": {"user": "u"}, "bad": {"group": "g"}}
        response = await client.ask(alteration(wanted, validate_only=True, consumer_byte_rate=5.0), 0)
        assert [entry.error_code for entry in response.entries] == [0, ErrorCode.INVALID_REQUEST]
        assert node.image.client_quotas == {}
        response = await client.ask(alteration(wanted, consumer_byte_rate=5.0), 0)
        good, bad = response.entries
        assert (good.error_code, good.error_message) == (0, None)
        assert bad.error_message == "there are no quotas for entities of type `group`"
        assert [(part.entity_type, part.entity_name) for part in bad.entity] == [("group", "g")]
        assert node.image.client_quotas == {(("user", "u"),): {"consumer_byte_rate": 5.0}}


async def test_quotas_survive_a_stop_and_a_kill_and_are_in_force_from_the_start(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2) as cluster:
        await set_in(cluster, {"user": None, "client-id": "c"}, producer_byte_rate=1000.0)
    async with running_cluster(tmp_path, nodes=2, kill=True) as cluster:
        assert quotas_of_all(cluster) == [{BOTH: {"producer_byte_rate": 1000.0}}] * 2
        assert all(broker._quota_layer.is_in_force for broker in cluster.brokers)
        await set_in(cluster, {"user": None, "client-id": "c"}, producer_byte_rate=None)
        await set_in(cluster, {"client-id": None}, consumer_byte_rate=2000.0)
    async with running_cluster(tmp_path, nodes=2) as cluster:
        assert quotas_of_all(cluster) == [{(("client-id", None),): {"consumer_byte_rate": 2000.0}}] * 2
        await set_in(cluster, {"client-id": None}, consumer_byte_rate=None)
        assert not any(broker._quota_layer.is_in_force for broker in cluster.brokers)


BOTH = (("client-id", "c"), ("user", None))


def quotas_of_all(cluster: Any) -> list[Any]:
    images: list[MetadataImage] = [broker.image for broker in cluster.brokers]
    return [image.client_quotas for image in images]


async def set_in(cluster: Any, entity: dict[str, str | None], **quotas: float | None) -> None:
    node = cluster.brokers[0]
    node.port = next(iter(node.ports.values()))
    async with connected(node) as client:
        response = await client.ask(alteration({"": entity}, **quotas), 1)
        assert [entry.error_code for entry in response.entries] == [0]
