"""The control socket of a process: requests and answers, line by line."""

from __future__ import annotations

import json
import stat
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.process.control_server import FINISH_SECONDS, TELL_SECONDS, ControlServer, LongOperation
from kcli.control_socket import MAX_LINE_BYTES, SOCKET_NAME, ask, running_operation, socket_name
from kcli.errors import KcliError, UsageError
from tests.support import waiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path


async def echo(cluster: object, arguments: Mapping[str, Any]) -> object:
    return {"arguments": dict(arguments)}


async def refuse(cluster: object, arguments: Mapping[str, Any]) -> object:
    kind = UsageError if arguments.get("usage") else KcliError
    raise kind("no", hint="ask another")


async def fail(cluster: object, arguments: Mapping[str, Any]) -> object:
    raise ZeroDivisionError("a bug")


async def hang(cluster: object, arguments: Mapping[str, Any]) -> object:
    await trio.sleep_forever()


async def last(cluster: object, arguments: Mapping[str, Any]) -> object:
    """Last until the client has left; that one had done so is the result, or a bug."""

    async def until(left: trio.Event) -> object:
        await left.wait()
        if arguments.get("fail"):
            raise ZeroDivisionError("a bug")
        if arguments.get("refuse"):
            raise KcliError("no longer")
        LEFT.append(arguments.get("name"))
        return "left"

    return LongOperation(until)


LEFT: list[object] = []


async def end_by_itself(cluster: object, arguments: Mapping[str, Any]) -> object:
    async def until(left: trio.Event) -> object:
        return "over"

    return LongOperation(until)


def server(data_dir: Path) -> ControlServer:
    operations = {
        "echo": echo,
        "refuse": refuse,
        "fail": fail,
        "hang": hang,
        "last": last,
        "end-by-itself": end_by_itself,
    }
    return ControlServer(None, data_dir, operations=lambda: operations)  # type: ignore[arg-type]


@asynccontextmanager
async def serving(data_dir: Path) -> AsyncIterator[None]:
    """Serve the control socket of a directory until the end of the block."""
    async with trio.open_nursery() as nursery:
        await nursery.start(server(data_dir).run)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def connected(data_dir: Path) -> AsyncIterator[trio.SocketStream]:
    """Serve the control socket of a directory; a client of it that is told what to send."""
    async with serving(data_dir), await trio.open_unix_socket(str(data_dir / SOCKET_NAME)) as stream:
        yield stream


async def asked(data_dir: Path, operation: str, timeout_seconds: float = 60, **arguments: object) -> Any:
    call = partial(ask, data_dir, operation, timeout_seconds=timeout_seconds, **arguments)
    return await trio.to_thread.run_sync(call)


async def test_an_operation_gets_its_arguments_and_gives_its_result(tmp_path: Path) -> None:
    async with serving(tmp_path):
        assert await asked(tmp_path, "echo", node=2, text="ü\n") == {"arguments": {"node": 2, "text": "ü\n"}}


async def test_only_its_owner_may_open_the_socket_which_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / SOCKET_NAME
    async with serving(tmp_path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


@pytest.mark.parametrize(
    ("operation", "arguments", "kind", "message", "hint"),
    [
        ("refuse", {}, KcliError, "no", "ask another"),
        ("refuse", {"usage": True}, UsageError, "no", "ask another"),
        ("fail", {}, KcliError, "unexpected ZeroDivisionError: a bug", None),
        ("nothing", {}, UsageError, "there is no operation `nothing`", None),
    ],
)
async def test_what_is_refused_is_raised_where_it_was_asked(
    operation: str,
    arguments: dict[str, object],
    kind: type[KcliError],
    message: str,
    hint: str | None,
    tmp_path: Path,
) -> None:
    async with serving(tmp_path):
        with pytest.raises(KcliError) as caught:
            await asked(tmp_path, operation, **arguments)  # type: ignore[arg-type]
    assert (type(caught.value), caught.value.message, caught.value.hint) == (kind, message, hint)


@pytest.mark.parametrize(
    "line", [b"{}", b"[]", b"no json", b'{"operation": 1}', b'{"operation":"x","arguments":1}']
)
async def test_what_is_no_request_is_answered_with_an_error(line: bytes, tmp_path: Path) -> None:
    async with connected(tmp_path) as stream:
        await stream.send_all(line + b"\n")
        assert b'"error": "a request is an object' in await stream.receive_some()


async def test_one_that_hangs_delays_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path):
        async with await trio.open_unix_socket(str(tmp_path / SOCKET_NAME)) as stream:
            await stream.send_all(b'{"operation": "hang"}\n')
            assert await asked(tmp_path, "echo") == {"arguments": {}}
        with pytest.raises(KcliError, match="did not finish within"):
            await asked(tmp_path, "hang", timeout_seconds=0.01)


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({}, {"result": "left"}),
        ({"fail": True}, "unexpected ExceptionGroup"),
        ({"refuse": True}, "no longer"),
    ],
)
async def test_what_lasts_is_over_when_its_client_has_nothing_more_to_say(
    arguments: dict[str, object], answer: object, tmp_path: Path
) -> None:
    def hurried() -> Any:
        with running_operation(tmp_path, "last", **arguments) as operation:
            operation.finish()
            try:
                return {"result": operation.result(timeout_seconds=60)}
            except KcliError as error:
                return error.message.partition(":")[0]

    async with serving(tmp_path):
        assert await trio.to_thread.run_sync(hurried) == answer


async def test_what_lasts_is_over_when_the_process_ends(tmp_path: Path) -> None:
    serving = server(tmp_path)
    async with trio.open_nursery() as nursery:
        await nursery.start(serving.run)
        async with (
            await trio.open_unix_socket(str(tmp_path / SOCKET_NAME)) as idle,
            await trio.open_unix_socket(str(tmp_path / SOCKET_NAME)) as hanging,
            await trio.open_unix_socket(str(tmp_path / SOCKET_NAME)) as stream,
        ):
            await hanging.send_all(b'{"operation": "hang"}\n')
            await stream.send_all(b'{"operation": "end-by-itself"}\n{"operation": "last"}\n')
            received = await stream.receive_some()
            assert await asked(tmp_path, "echo") == {"arguments": {}}
            with trio.fail_after(waiting.PATIENCE_SECONDS):
                await serving.finish()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True), trio.fail_after(waiting.PATIENCE_SECONDS):
                while data := await stream.receive_some():
                    received += data
                assert [await each.receive_some() for each in (idle, hanging)] == [b"", b""]
    assert [json.loads(line) for line in received.splitlines()] == [{"result": "over"}, {"result": "left"}]


async def test_what_is_never_over_delays_the_end_for_some_seconds_only(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    begun = trio.Event()

    async def never_over(cluster: object, arguments: Mapping[str, Any]) -> object:
        async def until(left: trio.Event) -> object:
            begun.set()
            await trio.sleep_forever()

        return LongOperation(until)

    serving = ControlServer(None, tmp_path, operations=lambda: {"never-over": never_over})  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        await nursery.start(serving.run)
        async with await trio.open_unix_socket(str(tmp_path / SOCKET_NAME)) as stream:
            await stream.send_all(b'{"operation": "never-over"}\n')
            await begun.wait()
            began = trio.current_time()
            await serving.finish()
            assert trio.current_time() - began == pytest.approx(FINISH_SECONDS)
        nursery.cancel_scope.cancel()


async def test_a_client_that_wants_it_is_told_the_progress(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def count(cluster: object, arguments: Mapping[str, Any]) -> object:
        async def until(left: trio.Event) -> object:
            await trio.sleep(2.5 * TELL_SECONDS)
            if arguments.get("refuse"):
                raise KcliError("no longer")
            return "over"

        began = trio.current_time()
        return LongOperation(until, progress=lambda: round((trio.current_time() - began) / TELL_SECONDS))

    async def received(**request: object) -> list[dict[str, Any]]:
        lines = bytearray()
        async with await trio.open_unix_socket(str(tmp_path / SOCKET_NAME)) as stream:
            await stream.send_all(json.dumps({"operation": "count", **request}).encode() + b"\n")
            while b"result" not in lines and b"error" not in lines:
                lines += await stream.receive_some()
        return [json.loads(line) for line in lines.splitlines()]

    serving = ControlServer(None, tmp_path, operations=lambda: {"count": count})  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        await nursery.start(serving.run)
        told = [{"progress": 1}, {"progress": 2}]
        assert await received() == [{"result": "over"}]
        assert await received(progress=True) == [*told, {"result": "over"}]
        refused = await received(progress=True, arguments={"refuse": True})
        assert refused == [*told, {"error": "no longer", "hint": None, "exit_code": 1}]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("sent", [b"", b"x" * (MAX_LINE_BYTES + 1)], ids=["gone", "sends too much"])
async def test_what_lasts_is_over_when_its_client_is_gone(
    sent: bytes, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name = request.node.name
    line = json.dumps({"operation": "last", "arguments": {"name": name}}).encode() + b"\n"
    async with serving(tmp_path):
        async with await trio.open_unix_socket(str(tmp_path / SOCKET_NAME)) as stream:
            await stream.send_all(line + sent)
            if sent:
                await waiting.until(lambda: name in LEFT)
        await waiting.until(lambda: name in LEFT)
        assert await asked(tmp_path, "echo") == {"arguments": {}}


async def test_what_is_asked_while_something_lasts_is_answered_after_it(tmp_path: Path) -> None:
    async with connected(tmp_path) as stream:
        await stream.send_all(b'{"operation": "last"}\n')
        await stream.send_all(b'{"operation": "end-by-itself"}\n{"operation": "echo"}\n')
        await stream.send_eof()
        received = b""
        while data := await stream.receive_some():
            received += data
    answers = [json.loads(line) for line in received.splitlines()]
    assert answers == [{"result": "left"}, {"result": "over"}, {"result": {"arguments": {}}}]


async def test_a_directory_with_a_long_name_has_one_too(tmp_path: Path) -> None:
    deep = tmp_path / ("long-" * 30)
    deep.mkdir()
    with socket_name(deep) as name:
        assert len(name) < 100
    async with serving(deep):
        assert await asked(deep, "echo") == {"arguments": {}}
    assert not (deep / SOCKET_NAME).exists()


async def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / SOCKET_NAME).write_bytes(b"")
    async with serving(tmp_path):
        assert await asked(tmp_path, "echo") == {"arguments": {}}


async def test_the_socket_of_the_next_process_stays(tmp_path: Path) -> None:
    scope = trio.CancelScope()

    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        with scope:
            await server(tmp_path).run(task_status=task_status)

    async with trio.open_nursery() as nursery:
        await nursery.start(run)
        async with serving(tmp_path):
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert await asked(tmp_path, "echo") == {"arguments": {}}
    assert not (tmp_path / SOCKET_NAME).exists()


def test_where_no_broker_runs_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(KcliError) as caught:
        ask(tmp_path, "echo", timeout_seconds=1)
    assert caught.value.message == f"no broker runs in `{tmp_path}`"
    assert caught.value.hint == "name its directory with `--data-dir`, or start one with `kcli broker start`"
