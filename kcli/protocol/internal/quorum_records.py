"""Control records of the metadata quorum: leader changes, voters, begin and end of snapshots.

Kafka 4.3 writes and reads the fields of all of them as version 0, whatever their first field says, which is
the version they are printed with (class `ControlRecordUtils`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Annotated, Any

from kcli.protocol.records.control_records import ControlRecordType
from kcli.protocol.schema.declaration import (
    DecodeError,
    codec,
    fresh,
    i16,
    i32,
    i64,
    string,
    struct,
    u16,
    uuid,
    v,
)

if TYPE_CHECKING:
    from kcli.protocol.corruption import Buffer

_VERSION = Struct(">h")


@struct
class LeaderVoter:
    """A voter (published as `Voter`)."""

    voter_id: i32
    voter_directory_id: Annotated[uuid, v("1+")]


@struct
class LeaderChangeMessage:
    version: i16
    leader_id: i32
    voters: list[LeaderVoter]
    granting_voters: list[LeaderVoter]


@struct
class SnapshotHeaderRecord:
    """A snapshot begins."""

    version: i16
    last_contained_log_timestamp: i64


@struct
class SnapshotFooterRecord:
    """A snapshot ends."""

    version: i16


@struct
class KRaftVersionRecord:
    """The kraft version of the quorum."""

    version: i16
    k_raft_version: i16


@struct
class VoterEndpoint:
    """A listener of a voter (published as `Endpoint`)."""

    name: string
    host: string
    port: u16


@struct
class KRaftVersionFeature:
    """The kraft versions that a voter supports."""

    min_supported_version: i16
    max_supported_version: i16


@struct
class Voter:
    """A voter, its listeners and its kraft versions."""

    voter_id: i32
    voter_directory_id: uuid
    endpoints: list[VoterEndpoint]
    k_raft_version_feature: KRaftVersionFeature = fresh(KRaftVersionFeature)


@struct
class VotersRecord:
    version: i16
    voters: list[Voter]


_CLASSES: dict[ControlRecordType, tuple[type[Any], int]] = {
    ControlRecordType.LEADER_CHANGE: (LeaderChangeMessage, 1),
    ControlRecordType.SNAPSHOT_HEADER: (SnapshotHeaderRecord, 0),
    ControlRecordType.SNAPSHOT_FOOTER: (SnapshotFooterRecord, 0),
    ControlRecordType.KRAFT_VERSION: (KRaftVersionRecord, 0),
    ControlRecordType.KRAFT_VOTERS: (VotersRecord, 0),
}


def decode_quorum_record(control_type: ControlRecordType, value: Buffer | None) -> tuple[Any, int]:
    """Return a decoded control record and the version to print it with; raise `DecodeError`."""
    cls, highest = _CLASSES[control_type]
    if value is None or len(value) < _VERSION.size:
        raise DecodeError(f"the value of a {control_type.name} control record is cut short")
    (version,) = _VERSION.unpack_from(value)
    if version < 0:
        raise DecodeError(f"a {control_type.name} control record of version {version}")
    decoded, _ = codec(cls, 0, flexible=True).decode(value)
    return decoded, min(version, highest)
