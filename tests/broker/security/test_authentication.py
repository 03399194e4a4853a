"""Logins by SASL, from the first request to the end of the session, with real sockets and virtual time."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.broker.network.connection import MAX_LOGIN_SECONDS
from kcli.broker.security.authentication import MAX_FRAMES
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kcli.security.jaas import PLAIN_MODULE
from kcli.security.principal import USER_TYPE, Principal
from tests.broker.network.frames import all_metadata, frame
from tests.broker.security.logins import (
    ALICE,
    JAAS,
    REFUSED,
    WRONG,
    log_in,
    logged_in,
    login_node,
    send_raw,
    shake_hands,
)
from tests.broker.single_node import connected

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker.single_node import Node

ASKS = frame(ApiVersionsRequest(), 0)
SHAKES = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
SHAKES_RAW = frame(SaslHandshakeRequest(mechanism="PLAIN"), 0)
PROVES = frame(SaslAuthenticateRequest(auth_bytes=ALICE), 1)
METADATA = frame(all_metadata(), 9)


def principals(node: Node) -> list[Principal]:
    """The principals of the connections that are open."""
    return [each._context.principal for each in node.server.connections]  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_client_logs_in_and_is_served(tmp_path: Path, version: int) -> None:
    async with login_node(tmp_path) as node, connected(node) as client:
        assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0
        response = await log_in(client, version=version)
        assert (response.error_code, response.auth_bytes, response.session_lifetime_ms) == (0, b"", 0)
        assert (await client.ask(all_metadata(), 9)).topics == []
        assert principals(node) == [Principal(USER_TYPE, "alice")]


async def test_raw_tokens_after_the_oldest_handshake_have_raw_answers(tmp_path: Path) -> None:
    async with login_node(tmp_path) as node, connected(node) as client:
        await shake_hands(client, version=0)
        await send_raw(client, ALICE)
        assert await client.receive_frame() == b""
        assert (await client.ask(all_metadata(), 9)).topics == []


async def test_a_login_and_requests_may_come_in_one_piece(tmp_path: Path) -> None:
    async with login_node(tmp_path) as node, connected(node) as client:
        await client.stream.send_all(ASKS + SHAKES + PROVES + METADATA + METADATA)
        frames = [await client.receive_frame() for _ in range(5)]
        assert frames[3] == frames[4]


async def test_users_are_told_apart(tmp_path: Path) -> None:
    async with login_node(tmp_path) as node, logged_in(node), logged_in(node, b"bob\0bob\0hidden"):
        assert {each.name for each in principals(node)} == {"alice", "bob"}


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (WRONG, REFUSED),
        (b"\0nobody\0secret", REFUSED),
        (b"\0nobody\0", "the password is empty"),
        (b"\0\0secret", "the user name is empty"),
        (
            b"bob\0alice\0secret",
            "the authorization id is not the user name",
        ),
        (b"bob\0alice\0wrong", REFUSED),
        (b"alice\0secret", "a PLAIN token has 3 parts, not 2"),
        (b"", "a PLAIN token has 3 parts, not 1"),
        (ALICE + b"\0", "a PLAIN token has 3 parts, not 4"),
        (b"\0alice\0\xff", "the token is not UTF-8"),
    ],
)
async def test_a_failed_login_is_told_after_a_while_and_closed(
    tmp_path: Path, clock: trio.testing.MockClock, token: bytes, message: str
) -> None:
    async with login_node(tmp_path) as node, connected(node) as client:
        await shake_hands(client)
        await client.send(SaslAuthenticateRequest(auth_bytes=token), 2)
        await client.stream.send_all(PROVES + METADATA)
        await trio.testing.wait_all_tasks_blocked()
        clock.jump(0.099)
        await trio.testing.wait_all_tasks_blocked()
        assert not client.has_received
        clock.jump(0.001)
        _, response = await client.receive(36, 2)
        assert (response.error_code, response.error_message) == (58, message)
        assert await client.is_closed()
        assert principals(node) == []


async def test_a_failed_raw_token_closes_without_an_answer(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with (
        login_node(tmp_path, connection_failed_authentication_delay_ms="2000") as node,
        connected(node) as client,
    ):
        await shake_hands(client, version=0)
        await send_raw(client, WRONG)
        await trio.testing.wait_all_tasks_blocked()
        clock.jump(1.999)
        await trio.testing.wait_all_tasks_blocked()
        assert len(principals(node)) == 1
        clock.jump(0.001)
        assert await client.is_closed()


@pytest.mark.parametrize("mechanism", ["GSSAPI", "SCRAM-SHA-256", "plain", "", "x" * 1000])
async def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, mechanism: str
) -> None:
    async with login_node(tmp_path, sasl_enabled_mechanisms="GSSAPI,PLAIN") as node:
        for version in (0, 1):
            async with connected(node) as client:
                response = await client.ask(SaslHandshakeRequest(mechanism=mechanism), version)
                assert (response.error_code, response.mechanisms) == (33, ["PLAIN"])
                assert await client.is_closed()


async def test_api_versions_that_fail_may_come_again(tmp_path: Path) -> None:
    async with login_node(tmp_path) as node, connected(node) as client:
        bad_name = ApiVersionsRequest(client_software_name="b@d", client_software_version="1")
        assert (await client.ask(bad_name, 3)).error_code == ErrorCode.INVALID_REQUEST
        await client.stream.send_all(struct.pack(">ihhihb", 11, 18, 99, 7, -1, 0))
        correlation_id, response = await client.receive(18, 0)
        assert (correlation_id, response.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
        good = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        response = await client.ask(good, 3)
        assert {17, 36} <= {each.api_key for each in response.api_keys}
        assert (await log_in(client)).error_code == 0


@pytest.mark.parametrize(
    ("frames", "answers"),
    [
        ([METADATA], 0),
        ([PROVES], 0),
        ([ASKS, METADATA], 1),
        ([ASKS, ASKS], 1),
        ([ASKS, SHAKES, SHAKES], 3),
        ([SHAKES, ASKS], 2),
        ([frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)[:4] + b"\x60\x82" + SHAKES[6:]], 0),
        ([struct.pack(">ihhih", 10, 17, 2, 1, -1)], 0),
        ([SHAKES, struct.pack(">ihhihb", 11, 36, 3, 1, -1, 0)], 1),
        ([SHAKES, struct.pack(">ihhihb", 11, 3, 999, 1, -1, 0)], 1),
        ([SHAKES, struct.pack(">ihhih", 10, 999, 0, 1, -1)], 1),
        ([struct.pack(">i", len(SHAKES) - 5) + SHAKES[4:-1]], 0),
        ([SHAKES_RAW + struct.pack(">i", len(WRONG)) + WRONG], 1),
        ([b"\0\0\0\0"], 0),
        ([b"\0\0\0\1\0"], 0),
    ],
)
async def test_what_has_no_place_in_a_login_closes_it(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, frames: list[bytes], answers: int
) -> None:
    async with login_node(tmp_path) as node, connected(node) as client:
        await client.stream.send_all(b"".join(frames))
        for _ in range(answers):
            await client.receive_frame()
        assert await client.is_closed()


@pytest.mark.parametrize(
    ("request_", "version"),
    [(all_metadata(), 12), (ListGroupsRequest(), 0), (SaslHandshakeRequest(mechanism="PLAIN"), 1)],
)
async def test_another_request_instead_of_a_token_is_told_that_it_comes_too_early(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, request_: Any, version: int
) -> None:
    async with login_node(tmp_path) as node, connected(node) as client:
        await shake_hands(client)
        response = await client.ask(request_, version)
        if not isinstance(request_, MetadataRequest):
            assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.is_closed()


@pytest.mark.parametrize("size", [524_289, 2**31 - 1, -1])
async def test_a_request_before_the_login_is_bounded(tmp_path: Path, size: int) -> None:
    async with login_node(tmp_path) as node, connected(node) as client, logged_in(node) as other:
        await client.stream.send_all(struct.pack(">i", size))
        assert await client.is_closed()
        assert (await other.ask(all_metadata(), 9)).topics == []


async def test_a_bound_before_the_login_does_not_hold_after_it(tmp_path: Path) -> None:
    async with login_node(tmp_path, sasl_server_max_receive_size="100") as node, logged_in(node) as client:
        client_id = "x" * 5000
        assert (await client.ask(all_metadata(), 9, client_id)).topics == []
    async with (
        login_node(tmp_path / "2", sasl_server_max_receive_size="100") as node,
        connected(node) as client,
    ):
        await client.send(SaslHandshakeRequest(mechanism="x" * 100), 1)
        assert await client.is_closed()


async def test_a_login_has_so_many_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bad_name = frame(ApiVersionsRequest(client_software_name="b@d", client_software_version="1"), 3)
    async with login_node(tmp_path) as node, connected(node) as client:
        await client.stream.send_all(bad_name * (MAX_FRAMES + 1))
        for _ in range(MAX_FRAMES):
            await client.receive_frame()
        assert await client.is_closed()
    assert f"more than {MAX_FRAMES} requests before the end of the login" in caplog.text


async def test_who_does_not_log_in_in_time_is_closed(tmp_path: Path, clock: trio.testing.MockClock) -> None:
    async with login_node(tmp_path) as node, connected(node) as slow, logged_in(node) as known:
        sweep = node.server.sweep_once  # type: ignore[attr-defined]
        for byte in frame(SaslHandshakeRequest(mechanism="x" * 100), 1)[:MAX_LOGIN_SECONDS]:
            await slow.stream.send_all(bytes([byte]))
            clock.jump(1)
            await sweep(trio.current_time())
        assert not slow.has_received
        clock.jump(0.001)
        await sweep(trio.current_time())
        assert await slow.is_closed()
        assert (await known.ask(all_metadata(), 9)).topics == []


@pytest.mark.parametrize("reauth_ms", ["0", "60000"])
async def test_after_the_login_more_of_it_is_out_of_place(tmp_path: Path, reauth_ms: str) -> None:
    async with login_node(tmp_path, connections_max_reauth_ms=reauth_ms) as node, logged_in(node) as client:
        response = await client.ask(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        if reauth_ms == "0":
            response = await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        assert (await client.ask(all_metadata(), 9)).topics == []


async def test_a_login_again_makes_the_session_longer(tmp_path: Path, clock: trio.testing.MockClock) -> None:
    async with login_node(tmp_path, connections_max_reauth_ms="5000") as node, connected(node) as client:
        assert (await log_in(client)).session_lifetime_ms == 5000
        for _ in range(3):
            clock.jump(4.5)
            assert (await log_in(client)).session_lifetime_ms == 5000
            assert (await client.ask(all_metadata(), 9)).topics == []
        clock.jump(5.001)
        # A session that is over may still be renewed.
        assert (await log_in(client)).session_lifetime_ms == 5000
        clock.jump(5.001)
        await client.send(all_metadata(), 9)
        assert await client.is_closed()


async def test_an_old_client_is_cut_at_the_end_of_its_session(
    tmp_path: Path, clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with login_node(tmp_path, connections_max_reauth_ms="5000") as node, connected(node) as client:
        await shake_hands(client, version=0)
        await send_raw(client, ALICE)
        assert await client.receive_frame() == b""
        clock.jump(5)
        assert (await client.ask(all_metadata(), 9)).topics == []
        clock.jump(0.001)
        await client.send(all_metadata(), 9)
        assert await client.is_closed()
    assert "the session of User:alice is over" in caplog.text


async def test_a_login_again_comes_too_soon(tmp_path: Path, clock: trio.testing.MockClock) -> None:
    async with login_node(tmp_path, connections_max_reauth_ms="500") as node, connected(node) as client:
        await log_in(client)
        assert (await log_in(client)).error_code == 0
        clock.jump(0.5)
        response = await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        clock.jump(0.499)
        await client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert await client.is_closed()


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0bob\0hidden", "another principal than before"),
        (WRONG, REFUSED),
    ],
)
async def test_a_login_again_must_be_that_of_the_same_user(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, token: bytes, message: str
) -> None:
    async with (
        login_node(tmp_path, connections_max_reauth_ms="5000") as node,
        logged_in(node) as client,
    ):
        response = await log_in(client, token)
        assert (response.error_code, response.error_message) == (58, message)
        assert await client.is_closed()


async def test_nothing_is_served_in_the_middle_of_a_login_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with (
        login_node(tmp_path, connections_max_reauth_ms="5000") as node,
        logged_in(node) as client,
    ):
        await shake_hands(client)
        response = await client.ask(ListGroupsRequest(), 0)
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.is_closed()


async def test_a_listener_of_one_mechanism_has_its_own_session_length(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    names = {
        "connections.max.reauth.ms": "1000",
        "listener.name.sasl_plaintext.connections.max.reauth.ms": "2000",
        "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "3000",
    }
    for count in (1, 2, 3):
        properties = dict(list(names.items())[:count])
        async with login_node(tmp_path / str(count), properties) as node, connected(node) as client:
            assert (await log_in(client)).session_lifetime_ms == 1000 * count


async def test_a_client_that_leaves_in_a_delay_is_forgotten(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with login_node(tmp_path) as node:
        async with connected(node) as client:
            await shake_hands(client)
            await client.send(SaslAuthenticateRequest(auth_bytes=WRONG), 2)
            await trio.testing.wait_all_tasks_blocked()
        clock.jump(0.1)
        await trio.testing.wait_all_tasks_blocked()
        assert principals(node) == []


async def test_users_and_bounds_change_while_a_node_runs(tmp_path: Path) -> None:
    async with login_node(tmp_path) as node, logged_in(node) as known:
        changed = {JAAS: f"{PLAIN_MODULE} required user_carol=new;", "connections.max.reauth.ms": "7000"}
        node.config = node.config.with_dynamic(broker=changed, default={})
        async with connected(node) as client:
            assert (await log_in(client, b"\0carol\0new")).error_code == 0
        async with connected(node) as client:
            assert (await log_in(client)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert (await known.ask(all_metadata(), 9)).topics == []


async def test_a_listener_keeps_its_users_if_the_new_ones_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with login_node(tmp_path) as node:
        node.config = node.config.with_dynamic(broker={JAAS: "nonsense"}, default={})
        async with logged_in(node) as client:
            assert (await client.ask(all_metadata(), 9)).topics == []
    assert [record.message for record in caplog.records] == [
        "listener `SASL_PLAINTEXT` keeps its logins: "
        f"malformed JAAS configuration in `{JAAS}`, line 1, column 9: a flag is missing"
    ]
