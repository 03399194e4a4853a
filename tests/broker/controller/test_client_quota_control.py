"""Quotas of clients: what may be set for whom, and the records that set it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kcli.broker.controller.client_quota_control import QuotaAlteration, alter_client_quotas
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE
from kcli.broker.metadata.metadata_replay import apply
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import ClientQuotaRecord, EntityData

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.metadata.metadata_image import MetadataImage

ME = (("client-id", "me"),)
RATES = [("producer_byte_rate", 1000.0), ("consumer_byte_rate", 2000.0)]


def altered(
    image: MetadataImage,
    entity: Sequence[tuple[str, str | None]],
    *operations: tuple[str, float | None],
) -> MetadataImage:
    """Return the image after a change, which must be possible."""
    result = alter_client_quotas(image, [QuotaAlteration(entity, operations)])
    assert result.response == [None]
    return apply(image, result.records)[0]


def refusal(entity: Sequence[tuple[str, str | None]], *operations: tuple[str, float | None]) -> KafkaError:
    result = alter_client_quotas(EMPTY_IMAGE, [QuotaAlteration(entity, operations)])
    assert result.records == ()
    (error,) = result.response
    assert error is not None
    return error


def test_a_quota_is_one_record_and_one_that_is_as_wanted_is_none() -> None:
    result = alter_client_quotas(EMPTY_IMAGE, [QuotaAlteration(ME, RATES)])
    entity = [EntityData(entity_type="client-id", entity_name="me")]
    assert result.records == tuple(
        ClientQuotaRecord(entity=entity, key=key, value=value, remove=False) for key, value in RATES
    )
    image, delta = apply(EMPTY_IMAGE, result.records)
    assert image.client_quotas == {ME: dict(RATES)}
    assert delta.changed_quotas == {ME}
    assert alter_client_quotas(image, [QuotaAlteration(ME, RATES)]).records == ()


def test_a_quota_is_removed_and_with_the_last_its_entity() -> None:
    image = altered(EMPTY_IMAGE, ME, *RATES)
    image = altered(image, ME, ("producer_byte_rate", None))
    assert image.client_quotas == {ME: {"consumer_byte_rate": 2000.0}}
    image = altered(image, ME, ("consumer_byte_rate", None), ("producer_byte_rate", None))
    assert image.client_quotas == {}
    assert altered(image, ME, ("consumer_byte_rate", None)) == image


def test_user_and_client_are_one_entity_in_either_order_and_a_default_is_another() -> None:
    both = (("user", "u"), ("client-id", None))
    image = altered(EMPTY_IMAGE, both, RATES[0])
    image = altered(image, both[::-1], RATES[1])
    image = altered(image, (("user", "u"),), RATES[0])
    image = altered(image, (("user", None),), RATES[0])
    assert image.client_quotas == {
        (("client-id", None), ("user", "u")): dict(RATES),
        (("user", "u"),): dict(RATES[:1]),
        (("user", None),): dict(RATES[:1]),
    }


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ((), "a quota is for a user, a client or an address"),
        ((("group", "g"),), "there are no quotas for entities of type `group`"),
        ((("", "g"),), "there are no quotas for entities of type ``"),
        ((("user", "a"), ("user", None)), "an entity has two parts of type `user`"),
        ((("user", ""),), "the name of a `user` is empty"),
        ((("client-id", ""), ("user", "a")), "the name of a `client-id` is empty"),
        (
            (("ip", "127.0.0.1"), ("user", "a")),
            "the quota of an address cannot be for a user or a client, too",
        ),
        ((("user", "a"), ("ip", None)), "the quota of an address cannot be for a user or a client, too"),
        ((("ip", "bob"),), "not an IP address: bob"),
    ],
)
def test_an_entity_that_cannot_be_is_refused(
    entity: tuple[tuple[str, str | None], ...], message: str
) -> None:
    for operations in (RATES, ()):
        error = refusal(entity, *operations)
        assert (error.code, error.message) == (ErrorCode.INVALID_REQUEST, message)


@pytest.mark.parametrize(
    ("entity", "key", "value", "message"),
    [
        (ME, "no_such_rate", 1.0, "there is no quota `no_such_rate` of users and clients"),
        (
            ME,
            "connection_creation_rate",
            1.0,
            "there is no quota `connection_creation_rate` of users and clients",
        ),
        ((("ip", None),), "producer_byte_rate", 1.0, "there is no quota `producer_byte_rate` of addresses"),
        (
            ME,
            "request_percentage",
            1.0,
            "`request_percentage` is not enforced by this broker, so it cannot be set",
        ),
        (
            ME,
            "controller_mutation_rate",
            1.0,
            "`controller_mutation_rate` is not enforced by this broker, so it cannot be set",
        ),
        (
            (("ip", "127.0.0.1"),),
            "connection_creation_rate",
            1.0,
            "`connection_creation_rate` is not enforced by this broker, so it cannot be set",
        ),
        (ME, "producer_byte_rate", 0.0, "`producer_byte_rate` must be greater than 0"),
        (ME, "producer_byte_rate", -1.0, "`producer_byte_rate` must be greater than 0"),
        (ME, "producer_byte_rate", float("nan"), "`producer_byte_rate` must be greater than 0"),
        (ME, "consumer_byte_rate", 1.5, "`consumer_byte_rate` must be a whole number"),
        (ME, "consumer_byte_rate", float("inf"), "`consumer_byte_rate` is too large for a number of 64 bits"),
        (ME, "consumer_byte_rate", 1e19, "`consumer_byte_rate` is too large for a number of 64 bits"),
    ],
)  # fmt: skip
def test_a_quota_that_cannot_be_kept_is_refused_with_all_of_its_entity(
    entity: tuple[tuple[str, str | None], ...], key: str, value: float, message: str
) -> None:
    error = refusal(entity, (key, value))
    assert (error.code, error.message) == (ErrorCode.INVALID_REQUEST, message)
    if entity == ME:
        others = [each for each in RATES if each[0] != key]
        assert refusal(entity, *others, (key, value)).message == message


@pytest.mark.parametrize("value", [1024.0000001, 2.0**63], ids=["a millionth", "the most"])
def test_what_kafka_takes_for_a_whole_number_is_one(value: float) -> None:
    result = alter_client_quotas(EMPTY_IMAGE, [QuotaAlteration(ME, [("producer_byte_rate", value)])])
    assert [record.value for record in result.records] == [value]


def test_what_this_broker_would_not_set_can_be_removed() -> None:
    entity = [EntityData(entity_type="client-id", entity_name="me")]
    foreign = ClientQuotaRecord(entity=entity, key="request_percentage", value=50.0, remove=False)
    image, _ = apply(EMPTY_IMAGE, [foreign])
    assert altered(image, ME, ("request_percentage", None)).client_quotas == {}


def test_a_quota_named_twice_is_refused() -> None:
    error = refusal(ME, RATES[0], ("producer_byte_rate", None))
    assert (error.code, error.message) == (ErrorCode.INVALID_REQUEST, "a quota is named twice")


def test_an_entity_named_twice_changes_nothing_and_others_change() -> None:
    both = (("user", "u"), ("client-id", "c"))
    result = alter_client_quotas(
        EMPTY_IMAGE,
        [
            QuotaAlteration(both, RATES),
            QuotaAlteration(ME, RATES),
            QuotaAlteration(both[::-1], RATES),
            QuotaAlteration((("user", None),), [("no_such_rate", 1.0)]),
        ],
    )
    messages = [None if error is None else error.message for error in result.response]
    assert messages == [
        "an entity is named twice",
        None,
        "an entity is named twice",
        "there is no quota `no_such_rate` of users and clients",
    ]
    assert apply(EMPTY_IMAGE, result.records)[0].client_quotas == {ME: dict(RATES)}


def test_more_records_than_one_operation_may_make_are_refused() -> None:
    alterations = [QuotaAlteration((("user", str(number)),), RATES) for number in range(5001)]
    with pytest.raises(KafkaError) as caught:
        alter_client_quotas(EMPTY_IMAGE, alterations)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
