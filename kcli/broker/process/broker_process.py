"""The broker as a process: its limits, signals, ready line and end.

The first SIGINT, SIGTERM or SIGHUP stops the cluster in order, even while it loads. A later one kills the
process, and the next start recovers; `kcli.stop_signals` decides which signal is later.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from kcli.broker.process.cluster import Cluster, ClusterOptions
from kcli.broker.process.control_server import ControlServer
from kcli.broker.process.log_handler import LogHandler
from kcli.broker.process.node_layout import NodeLayout
from kcli.broker.process.pid_file import PidFile, RunningBroker
from kcli.errors import KcliError
from kcli.protocol.records.record_walk import RECORD_WALK
from kcli.stop_signals import STOP_SIGNALS, heard_signals, obey
from kcli.storage.disk import keep_spare_descriptors, make_directory, remove_empty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from kcli.broker.faults.scenario import Scenario
    from kcli.broker.process.control_server import Operation
    from kcli.broker.security.tls_files import TlsFiles

_log = logging.getLogger(__name__)


async def serve(
    options: ClusterOptions, *, verbose: bool, as_json: bool = False, scenario: Scenario | None = None
) -> None:
    """Serve until a signal; print the ready line when all listeners accept, then start the scenario."""
    log = LogHandler(sys.stderr)
    logging.basicConfig(handlers=[log], level=logging.DEBUG if verbose else logging.INFO)
    prepare_interpreter()
    with data_directory(options) as data_dir:
        options = replace(options, data_dir=data_dir)
        tls_files = prepared_tls_files(options) if options.has_auto_tls else None
        if tls_files is not None:
            options = replace(options, properties=tls_files.add_properties(options.properties))
        cluster = Cluster(options)
        pid_file = PidFile(data_dir)
        try:
            async with stopping_on_signal(cluster), trio.open_nursery() as nursery:
                nursery.start_soon(log.tell_counts)
                await nursery.start(cluster.run)
                pid_file.lock()  # First, because the control socket might still belong to another process.
                server = ControlServer(cluster, data_dir, operations=_operations)
                await nursery.start(server.run)
                announce(cluster, pid_file, tls_files, as_json=as_json)
                if scenario is not None:
                    from kcli.broker.process.scenario_run import run_scenario  # Few processes run one.

                    nursery.start_soon(run_scenario, cluster, scenario)
                await cluster.stop_requested.wait()
                await server.finish()
                await cluster.stopped.wait()
                nursery.cancel_scope.cancel()
        finally:
            log.tell_rest()
            if tls_files is not None and not pid_file.is_locked:
                tls_files.discard_if_new()
            if options.is_ephemeral and pid_file.is_locked:
                remove_data(data_dir, pid_file)
            pid_file.remove()


def prepared_tls_files(options: ClusterOptions) -> TlsFiles:
    """Make the keys of `broker start --tls auto`. Raises `KcliError`."""
    from datetime import UTC, datetime

    from kcli.broker.security.tls_files import TlsFiles

    layout = NodeLayout(options)
    advertised = layout.config(layout.to_start()[0]).advertised_listener_configs
    assert options.data_dir is not None
    files = TlsFiles(options.data_dir)
    files.prepare([listener.host for listener in advertised], datetime.now(UTC))
    return files


def _operations() -> Mapping[str, Operation]:
    """Return the operations of the control socket; most processes never import them."""
    from kcli.broker.process.control_operations import OPERATIONS

    return OPERATIONS


def prepare_interpreter() -> None:
    """Raise the limit of open files, and let threads hand over the interpreter sooner.

    With helper threads busy on large requests the shorter switch interval halves the loop's p99.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    keep_spare_descriptors()
    sys.setswitchinterval(0.0005)


def settle_garbage_collector() -> None:
    """Exclude the objects of the start from every later collection, and collect less often.

    A full collection over the objects of ten thousand partitions stops the loop for 6 ms. A start without
    much to load leaves little garbage, so no collection is run after it.
    """
    if gc.get_stats()[0]["collections"] > 0:
        gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def remove_data(data_dir: Path, pid_file: PidFile) -> None:
    """Remove the directory of an ephemeral daemon; it vanishes together with its pid file.

    So a directory without the file, for which `broker stop` waits, is one that is gone.
    """
    for path in data_dir.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path != pid_file.path:
            path.unlink(missing_ok=True)
    rest = data_dir.with_name(f".{data_dir.name}-removed-{os.getpid()}")
    with suppress(OSError):  # a mount point stays, empty
        data_dir.rename(rest)
        shutil.rmtree(rest, ignore_errors=True)


@contextmanager
def data_directory(options: ClusterOptions) -> Iterator[Path]:
    """Make the data directory; a temporary one is removed at the end. Raises `KcliError`."""
    if options.data_dir is None:
        temporary = Path(tempfile.mkdtemp(prefix="kcli-"))
        try:
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return
    made: list[str] = []
    try:
        try:
            make_directory(os.path.abspath(options.data_dir), made)
        except OSError as error:
            raise KcliError(
                f"cannot make the data directory `{options.data_dir}`: {error.strerror}"
            ) from error
        yield options.data_dir
    finally:
        remove_empty(made)  # It is empty if the broker did not start.


@asynccontextmanager
async def stopping_on_signal(cluster: Cluster) -> AsyncIterator[None]:
    """Stop the cluster at the first signal, end the process at a later one; ignore signals after the stop."""

    def stop(number: int) -> None:
        _log.info("stopping: %s", signal.Signals(number).name)
        cluster.stop()

    def abort(number: int) -> None:
        _log.warning("aborted: the next start recovers")
        os._exit(128 + number)

    with trio.open_signal_receiver(*heard_signals()) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(obey, signals, stop=stop, abort=abort))
            yield
            nursery.cancel_scope.cancel()
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def announce(
    cluster: Cluster, pid_file: PidFile, tls_files: TlsFiles | None = None, *, as_json: bool
) -> None:
    """Print the ready line, which programs wait for, and write the files for other commands and clients."""
    if cluster.stopping:
        return
    settle_garbage_collector()
    bootstrap = ",".join(cluster.bootstrap_servers)
    started_at_ms = int(time.time() * 1000)
    is_ephemeral = cluster.options.is_ephemeral
    client_properties = None
    if tls_files is not None:
        client_auth = cluster.options.properties.get("ssl.client.auth", "none")
        tls_files.write_client_properties(*cluster.tls_address(), client_auth=client_auth)
        client_properties = str(tls_files.client_properties)
    pid_file.write(
        RunningBroker(
            os.getpid(),
            bootstrap,
            cluster.cluster_id,
            started_at_ms,
            RECORD_WALK,
            is_ephemeral,
            client_properties,
        )
    )
    line = f"ready: {bootstrap} cluster {cluster.cluster_id} data {cluster.options.data_dir}"
    if secured := secured_listeners(cluster):
        line += f" listeners {','.join(secured)}"
    if client_properties is not None:
        line += f" client properties {client_properties}"
    print(ready_json(cluster, client_properties) if as_json else line, flush=True)


def secured_listeners(cluster: Cluster) -> list[str]:
    """Return the listeners of all nodes if one of them is more than PLAINTEXT, else none."""
    endpoints = [endpoint for broker in cluster.brokers for endpoint in broker.endpoints]
    if not any(endpoint.security_protocol for endpoint in endpoints):
        return []
    from kcli.broker.process.node_operations import shown_listener

    return [shown_listener(endpoint) for endpoint in endpoints]


def ready_json(cluster: Cluster, client_properties: str | None) -> str:
    """Return the ready line as JSON, with the fields of `kcli broker status -o json`."""
    from kcli.broker.process.node_operations import node_rows

    return json.dumps(
        {
            "running": True,
            "data_dir": str(cluster.options.data_dir),
            "pid": os.getpid(),
            "bootstrap_servers": ",".join(cluster.bootstrap_servers),
            "cluster_id": cluster.cluster_id,
            "nodes": node_rows(cluster),
            "record_walk": RECORD_WALK,
            "file_descriptors": cluster.descriptors.counts()._asdict(),
            "client_properties": client_properties,
        }
    )
