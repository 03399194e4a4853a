"""Connecting takes no longer than the caller has time, and errors name the true time."""

from __future__ import annotations

import pytest
import trio

from kcli.client.client import connect
from kcli.client.config import ClientConfig
from kcli.client.network.bootstrap import Unreachable
from kcli.client.network.metadata import ANY, Node
from kcli.errors import KcliError
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.metadata import MetadataRequest
from tests.client.fake_brokers import Disconnect, FakeBrokers, NoAnswer

REQUEST = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)


@pytest.mark.parametrize(
    ("config", "timeout_ms", "seconds"),
    [
        pytest.param(ClientConfig(default_api_timeout_ms=1500), None, 1.5, id="of every call"),
        pytest.param(ClientConfig(), 3000, 3, id="of whoever connects"),
        pytest.param(ClientConfig(default_api_timeout_ms=1500), 3000, 1.5, id="of every call, which is less"),
        pytest.param(ClientConfig(), 20_000, 10, id="more than the setup may take"),
        pytest.param(ClientConfig(socket_connection_setup_timeout_ms=2000), 3000, 2, id="less for the setup"),
        pytest.param(ClientConfig(), 0, 0, id="none"),
    ],
)
@pytest.mark.parametrize("connects", [True, False], ids=["that takes connections", "that takes none"])
async def test_a_silent_address_is_given_up_when_the_time_given_is_over(
    connects: bool,
    config: ClientConfig,
    timeout_ms: int | None,
    seconds: float,
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def open_stream(node: Node, config: ClientConfig) -> trio.abc.Stream:
        if not connects:
            await trio.sleep_forever()
        return trio.testing.memory_stream_pair()[0]

    start = trio.current_time()
    with pytest.raises(Unreachable, match=f"one:9092 did not answer within {seconds:g} s"):
        async with connect("one", config, timeout_ms=timeout_ms, open_stream=open_stream):
            pass
    assert trio.current_time() - start == pytest.approx(seconds)


async def test_of_several_addresses_each_is_told_of_when_the_time_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def open_stream(node: Node, config: ClientConfig) -> trio.abc.Stream:
        if node.host == "refusing":
            raise Unreachable(f"cannot connect to {node.address}: connection refused")
        return trio.testing.memory_stream_pair()[0]

    start = trio.current_time()
    with pytest.raises(Unreachable) as caught:
        async with connect("silent,refusing", timeout_ms=1000, open_stream=open_stream):
            pass
    assert trio.current_time() - start == pytest.approx(1)
    assert caught.value.message == (
        "no bootstrap server answers: silent:9092 did not answer within 1 s; "
        "cannot connect to refusing:9092: connection refused"
    )


async def test_a_broker_without_metadata_is_given_up_when_the_time_given_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        brokers = FakeBrokers(nursery)
        brokers.open_seconds = 1
        brokers.script(MetadataRequest, *[NoAnswer] * 9)
        start = trio.current_time()
        with pytest.raises(KcliError, match=r"^broker-1:9092 did not answer within 3 s$"):
            async with connect("broker-1", timeout_ms=3000, open_stream=brokers.open_stream):
                pass
        assert trio.current_time() - start == pytest.approx(3)
        nursery.cancel_scope.cancel()


async def test_the_time_given_for_connecting_does_not_bound_what_follows(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        brokers = FakeBrokers(nursery)
        async with connect("broker-1", timeout_ms=1000, open_stream=brokers.open_stream) as client:
            await trio.sleep(5)
            brokers.script(InitProducerIdRequest, Disconnect, Disconnect)
            assert (await client.request(ANY, REQUEST)).producer_id == 1000
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("jitter", [-1, 0, 1])
async def test_an_address_that_refuses_is_given_up_within_two_seconds(
    jitter: int, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def open_stream(node: Node, config: ClientConfig) -> trio.abc.Stream:
        raise Unreachable(f"cannot connect to {node.address}: connection refused")

    monkeypatch.setattr("random.uniform", lambda low, high: (low, 1, high)[jitter + 1])
    start = trio.current_time()
    with pytest.raises(Unreachable):
        async with connect("one", open_stream=open_stream):
            pass
    # The client still waits for a broker that is starting.
    assert 1 < trio.current_time() - start <= 2
