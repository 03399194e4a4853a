"""Records as JSON documents: the names and the rules of Kafka's generated converters."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.protocol.internal.coordinator_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from kcli.protocol.internal.metadata_records import PartitionChangeRecord, RegisterBrokerRecord
from kcli.protocol.internal.quorum_records import KRaftVersionRecord, decode_quorum_record
from kcli.protocol.records.control_records import ControlRecordType
from kcli.protocol.schema.declaration import DecodeError
from kcli.protocol.schema.json_document import document, json_name

TOPIC = bytes(range(16))

DOCUMENTS: list[tuple[str, object, int, dict[str, Any]]] = [
    (
        "a field that the version lacks is left out",
        OffsetCommitValue(offset=1, metadata="m", commit_timestamp=2),
        0,
        {"offset": 1, "metadata": "m", "commitTimestamp": 2},
    ),
    (
        "a field of the version is there with its default",
        OffsetCommitValue(offset=1, metadata="", commit_timestamp=2),
        3,
        {"offset": 1, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 2},
    ),
    (
        "a tagged field is there unless it is the default",
        PartitionChangeRecord(partition_id=1, topic_id=TOPIC, leader=3),
        2,
        {"partitionId": 1, "topicId": "AAECAwQFBgcICQoLDA0ODw", "leader": 3},
    ),
    (
        "structs and bytes",
        GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol=None,
            leader=None,
            members=[
                MemberMetadata(
                    member_id="m",
                    client_id="c",
                    client_host="/h",
                    session_timeout=6,
                    subscription=b"\0\1",
                    assignment=b"",
                )
            ],
        ),
        0,
        {
            "protocolType": "consumer",
            "generation": 1,
            "protocol": None,
            "leader": None,
            "members": [
                {
                    "memberId": "m",
                    "clientId": "c",
                    "clientHost": "/h",
                    "sessionTimeout": 6,
                    "subscription": "AAE=",
                    "assignment": "",
                }
            ],
        },
    ),
    (
        "ids in a tagged list",
        RegisterBrokerRecord(broker_id=1, incarnation_id=bytes(16), broker_epoch=2, log_dirs=[TOPIC]),
        3,
        {
            "brokerId": 1,
            "isMigratingZkBroker": False,
            "incarnationId": "AAAAAAAAAAAAAAAAAAAAAA",
            "brokerEpoch": 2,
            "endPoints": [],
            "features": [],
            "rack": None,
            "fenced": True,
            "inControlledShutdown": False,
            "logDirs": ["AAECAwQFBgcICQoLDA0ODw"],
        },
    ),
    (
        "a name that begins oddly",
        KRaftVersionRecord(version=0, k_raft_version=1),
        0,
        {"version": 0, "kRaftVersion": 1},
    ),
]


@pytest.mark.parametrize(
    ("value", "version", "expected"), [row[1:] for row in DOCUMENTS], ids=[row[0] for row in DOCUMENTS]
)
def test_a_record_as_a_document(value: object, version: int, expected: dict[str, Any]) -> None:
    shown = document(value, version)
    assert shown == expected
    assert list(shown) == list(expected)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("offset", "offset"), ("leader_epoch", "leaderEpoch"), ("k_raft_version", "kRaftVersion")],
)
def test_names_are_those_of_the_schemas(name: str, shown: str) -> None:
    assert json_name(name) == shown


@pytest.mark.parametrize(
    ("control_type", "value", "expected"),
    [
        (ControlRecordType.SNAPSHOT_FOOTER, "000000", ({"version": 0}, 0)),
        (
            ControlRecordType.SNAPSHOT_HEADER,
            "0000000000000000000500",
            ({"version": 0, "lastContainedLogTimestamp": 5}, 0),
        ),
        (
            ControlRecordType.LEADER_CHANGE,
            "0000000000010200000001000200000001 00 00".replace(" ", ""),
            (
                {"version": 0, "leaderId": 1, "voters": [{"voterId": 1}], "grantingVoters": [{"voterId": 1}]},
                0,
            ),
        ),
    ],
    ids=["footer", "header", "leader"],
)
def test_control_records_of_the_quorum(
    control_type: ControlRecordType, value: str, expected: tuple[dict[str, Any], int]
) -> None:
    decoded, version = decode_quorum_record(control_type, bytes.fromhex(value))
    assert (document(decoded, version), version) == expected


@pytest.mark.parametrize("value", [None, b"", b"\0", b"\xff\xff\0\0", b"\0\0\0"])
def test_a_control_record_that_is_cut_short_is_refused(value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_quorum_record(ControlRecordType.LEADER_CHANGE, value)
