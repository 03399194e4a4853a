"""Any frames before a login are answered or end the connection; they reach no handler and leave nothing."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.broker.network.apis import APIS
from kcli.broker.network.request_context import CloseConnection, RequestContext
from kcli.broker.network.request_engine import RequestEngine
from kcli.broker.network.responses import AwaitedResponse
from kcli.broker.network.transport import Transport
from kcli.broker.security.authentication import MAX_FRAMES, AuthenticatingEngine
from kcli.broker.security.sasl_listener import SaslListener
from kcli.protocol.frames import RequestHeader, encode_request
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kcli.protocol.schema.declaration import message_info
from kcli.security.principal import ANONYMOUS
from tests.broker.security.logins import ALICE, LOGINS, WRONG
from tests.broker.single_node import Node

if TYPE_CHECKING:
    from kcli.broker.network.responses import Response

MANY = 40
LARGE = 500_000
FLAT_BYTES = 50_000
"""What many refused logins may leave in memory."""

MOSTLY_RIGHT = st.sampled_from([0, 1, 2, 3, 4, 0, 1])
ASKS = ApiVersionsRequest(client_software_name="a", client_software_version="1")
TOKENS = st.sampled_from([ALICE, WRONG, b""]) | st.binary(max_size=40)


def body(request: object, version: int) -> bytes:
    """Return a request without its size."""
    header = RequestHeader(message_info(type(request)).key, version, 1, "test")
    return encode_request(header, request)[4:]


REQUESTS = st.one_of(
    st.builds(body, st.just(ASKS), MOSTLY_RIGHT),
    st.builds(
        body,
        st.builds(SaslHandshakeRequest, mechanism=st.sampled_from(["PLAIN", "PLAIN", "GSSAPI"])),
        st.sampled_from([0, 1]),
    ),
    st.builds(body, st.builds(SaslAuthenticateRequest, auth_bytes=TOKENS), st.sampled_from([0, 1, 2])),
    st.builds(body, st.just(MetadataRequest(topics=None)), st.sampled_from([1, 9, 12])),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return a request with some bytes changed, cut off or added."""
    frame = bytearray(draw(REQUESTS))
    for _ in range(draw(st.integers(1, 3))):
        frame[draw(st.integers(0, len(frame) - 1))] = draw(st.integers(0, 255))
    return bytes(frame[: draw(st.integers(0, len(frame)))]) + draw(st.binary(max_size=5))


FRAMES = st.lists(REQUESTS | TOKENS | damaged() | st.binary(max_size=30), max_size=MAX_FRAMES + 3)


class Visit:
    """A connection with a login, and what stands behind that: it only counts."""

    def __init__(self, node: Node) -> None:
        engine = RequestEngine(APIS)
        listener = SaslListener(node, engine, node.config.listener_configs[0], Transport)  # type: ignore[arg-type]
        self.context = RequestContext(node, "SASL_PLAINTEXT", "127.0.0.1", APIS)  # type: ignore[arg-type]
        self.login = AuthenticatingEngine(listener, self, self)
        self.is_let_in = False
        self.served = 0

    def let_in(self, *, keeps_login: bool) -> None:
        self.is_let_in = True

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
        """Stand behind the login."""
        assert self.is_let_in
        assert context.principal != ANONYMOUS
        self.served += 1
        return ()

    async def send(self, frame: bytes) -> bool:
        """Feed a frame; return whether the connection is still open."""
        try:
            response: Any = self.login.feed(self.context, memoryview(frame), 0, len(frame))
            while isinstance(response, AwaitedResponse):
                response = await response
        except CloseConnection:
            return False
        assert isinstance(response, tuple)
        return True


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return Node(tmp_path_factory.mktemp("node"), LOGINS)


def run(node: Node, frames: list[bytes]) -> tuple[Visit, int]:
    """Feed frames until the end; return the connection, and how many frames it took."""

    async def feed_all() -> tuple[Visit, int]:
        visit = Visit(node)
        for count, frame in enumerate(frames):
            if not await visit.send(frame):
                return visit, count
        return visit, len(frames)

    return trio.run(feed_all, clock=trio.testing.MockClock(autojump_threshold=0))


@settings(max_examples=300, deadline=None)
@given(frames=FRAMES)
def test_frames_before_a_login_are_answered_or_close(node: Node, frames: list[bytes]) -> None:
    visit, count = run(node, frames)
    if not visit.is_let_in:
        assert count <= MAX_FRAMES
        assert visit.context.principal is ANONYMOUS
    else:
        assert any(ALICE in frame for frame in frames)


@settings(max_examples=50, deadline=None)
@given(rest=FRAMES, version=st.sampled_from([0, 1]))
def test_what_comes_after_a_login_is_none_of_its_business(
    node: Node, rest: list[bytes], version: int
) -> None:
    token = ALICE if version == 0 else body(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
    login = [body(SaslHandshakeRequest(mechanism="PLAIN"), version), token]
    visit, count = run(node, [*login, *rest])
    assert count == len(login) + len(rest)
    assert visit.served == len(rest)


def test_large_frames_of_many_failed_logins_leave_nothing(node: Node) -> None:
    raw = [body(SaslHandshakeRequest(mechanism="PLAIN"), 0), b"\0alice\0" + b"x" * LARGE]
    framed = [
        body(SaslHandshakeRequest(mechanism="PLAIN"), 1),
        body(SaslAuthenticateRequest(auth_bytes=b"\0" + b"x" * LARGE + b"\0y"), 2),
    ]
    kept = [run(node, raw)[0], run(node, framed)[0]]
    tracemalloc.start()
    try:
        kept += [run(node, frames)[0] for frames in (raw, framed) * (MANY // 2)]
        assert tracemalloc.get_traced_memory()[0] < MANY * FLAT_BYTES
    finally:
        tracemalloc.stop()
