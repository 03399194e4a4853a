"""kcli's request engine behind a blocking thread: `python -m tests.benchmarks.blocking_broker DIRECTORY`.

The same node, the same engine, but the connection is a thread that blocks in `recv` and `sendall`; what trio
costs a single request is the difference. It serves one connection at a time and only what is answered at
once.
"""

from __future__ import annotations

import logging
import socket
import sys
from pathlib import Path
from struct import Struct

import trio

from kcli.broker.network.apis import APIS
from kcli.broker.network.request_context import RequestContext
from kcli.broker.network.request_engine import RequestEngine
from kcli.broker.process.broker_process import prepare_interpreter, settle_garbage_collector
from kcli.broker.process.cluster import Cluster, ClusterOptions

SCRATCH_BYTES = 256 * 1024
_SIZE = Struct(">i")


def serve(listening: socket.socket, context: RequestContext) -> None:
    """Take connections one after another, for ever."""
    engine = RequestEngine(APIS)
    scratch = memoryview(bytearray(SCRATCH_BYTES))
    while True:
        sock, _ = listening.accept()
        with sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _serve_one(sock, engine, context, scratch)


def _serve_one(
    sock: socket.socket, engine: RequestEngine, context: RequestContext, scratch: memoryview
) -> None:
    have = 0
    while count := sock.recv_into(scratch[have:]):
        have += count
        position = 0
        answers = []
        while have - position >= 4:
            stop = position + 4 + _SIZE.unpack_from(scratch, position)[0]
            if stop > have:
                break
            answer = engine.feed(context, scratch, position + 4, stop)
            assert isinstance(answer, tuple)
            answers += answer
            position = stop
        scratch[: have - position] = bytes(scratch[position:have])
        have -= position
        if answers:
            sock.sendall(b"".join(answers))


async def main(directory: Path) -> None:
    """Start a node and serve beside its own listeners."""
    cluster = Cluster(ClusterOptions(directory, host="127.0.0.1", port=0))
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)
        settle_garbage_collector()
        listening = socket.create_server(("127.0.0.1", 0))
        context = RequestContext(cluster.brokers[0], "PLAINTEXT", "127.0.0.1", APIS)
        print(f"ready: 127.0.0.1:{listening.getsockname()[1]}", flush=True)
        await trio.to_thread.run_sync(serve, listening, context)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    prepare_interpreter()
    trio.run(main, Path(sys.argv[1]))
