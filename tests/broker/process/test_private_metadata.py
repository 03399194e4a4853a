"""A metadata log with credentials is for its owner only: all copies, before the first credential is there."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from kcli.broker.controller.credential_records import hold_credentials
from kcli.broker.controller.result import ControllerResult
from kcli.broker.metadata.metadata_log import MetadataLog
from kcli.broker.metadata.metadata_replay import replay
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.internal.metadata_records import ConfigRecord, FeatureLevelRecord, MetadataRecord
from kcli.protocol.internal.security_records import (
    AccessControlEntryRecord,
    SecurityRecord,
    UserScramCredentialRecord,
)
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from pathlib import Path

CREDENTIAL = UserScramCredentialRecord(
    name="alice", mechanism=1, salt=b"salt", stored_key=b"s" * 32, server_key=b"k" * 32, iterations=4096
)


def config(
    name: str, value: str | None = "v", kind: ConfigResourceType = ConfigResourceType.BROKER
) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name="1", name=name, value=value)


@pytest.mark.parametrize(
    ("record", "is_secret"),
    [
        (CREDENTIAL, True),
        (config("ssl.keystore.password"), True),
        (config("listener.name.ssl.ssl.key.password"), True),
        (config("listener.name.sasl_ssl.plain.sasl.jaas.config"), True),
        (config("ssl.keystore.password", None), False),
        (config("log.retention.ms"), False),
        (config("retention.ms", kind=ConfigResourceType.TOPIC), False),
        (FeatureLevelRecord(name="metadata.version", feature_level=25), False),
        (
            AccessControlEntryRecord(
                id=bytes(16),
                resource_type=2,
                resource_name="orders",
                pattern_type=3,
                principal="User:alice",
                host="*",
                operation=3,
                permission_type=3,
            ),
            False,
        ),
    ],
)
def test_passwords_and_scram_credentials_are_secret(
    record: MetadataRecord | SecurityRecord, is_secret: bool
) -> None:
    assert hold_credentials([record]) is is_secret


def modes(data: Path) -> dict[str, set[str]]:
    """Return the modes of each node's metadata directory, segments and snapshots."""
    found: dict[str, set[str]] = {}
    for directory in sorted(data.glob("node-*/__cluster_metadata-0")):
        files = [*directory.glob("*.log"), *directory.glob("*.checkpoint")]
        found[directory.parent.name] = {
            oct(stat.S_IMODE(each.stat().st_mode)) for each in [directory, *files]
        }
    return found


def make_public(directory: Path) -> None:
    directory.chmod(0o755)
    for path in directory.iterdir():
        path.chmod(0o644)


PRIVATE = {"0o700", "0o600"}


async def test_every_copy_becomes_private_with_the_first_credential(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2) as cluster:
        assert modes(tmp_path) == {"node-1": {"0o750", "0o640"}, "node-2": {"0o750", "0o640"}}
        cluster.controller.commit(ControllerResult((CREDENTIAL,), None))
        assert modes(tmp_path) == {"node-1": PRIVATE, "node-2": PRIVATE}
    async with running_cluster(tmp_path, nodes=2):
        assert modes(tmp_path) == {"node-1": PRIVATE, "node-2": PRIVATE}


async def test_a_log_of_another_broker_becomes_private_at_the_start(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        cluster.controller.commit(ControllerResult((config("ssl.keystore.password"),), None))
    make_public(tmp_path / "node-1" / "__cluster_metadata-0")
    async with running_cluster(tmp_path):
        assert modes(tmp_path) == {"node-1": PRIVATE}


def opened(directory: Path) -> MetadataLog:
    return MetadataLog.open(str(directory), node_id=1, wall_ms=lambda: 0, report=[].append)


def test_new_segments_snapshots_and_copies_stay_private(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"node-{name}").mkdir()
    log, copy = opened(tmp_path / "node-one"), opened(tmp_path / "node-two")
    log.begin_epoch()
    log.make_private()
    log.append([CREDENTIAL])
    copy.follow(log)
    assert modes(tmp_path) == {"node-one": PRIVATE, "node-two": PRIVATE}
    log.restart_from(replay(log.replay()))
    copy.install(*(log.snapshot() or pytest.fail("no snapshot")))
    log.close()
    copy.close()
    again = opened(tmp_path / "node-one")
    assert again.is_private
    again.close()
    assert [*tmp_path.glob("node-*/*/*.checkpoint")]
    assert modes(tmp_path) == {"node-one": PRIVATE, "node-two": PRIVATE}
