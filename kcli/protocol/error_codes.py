"""The error codes that travel on the wire, and the exception that carries one.

Numbers, names and retriability are those of Apache Kafka 4.3 (class `Errors`); the descriptions are kcli's.
Both sides raise `KafkaError`: a handler's `KafkaError` becomes the error code of the item it answers, and a
client turns an error code it receives into one.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial

from kcli.errors import KcliError


class ErrorCode(IntEnum):
    """A code from a response's `error_code` field.

    `retriable` means that the same request may succeed later, usually after refreshing metadata.
    `description` is a short sentence without a full stop.
    """

    retriable: bool
    description: str

    def __new__(cls, code: int, retriable: bool, description: str) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.description = description
        return member

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """Return the member for a received code, UNKNOWN_SERVER_ERROR for an unknown number."""
        return _BY_CODE.get(code, cls.UNKNOWN_SERVER_ERROR)

    UNKNOWN_SERVER_ERROR = -1, False, "the broker failed with an error that has no code"
    NONE = 0, False, "no error"
    OFFSET_OUT_OF_RANGE = 1, False, "the offset lies outside the partition's log"
    CORRUPT_MESSAGE = 2, True, "the records are damaged: wrong checksum, size or structure"
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "the broker does not know this topic or partition"
    INVALID_FETCH_SIZE = 4, False, "the fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, True, "the partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, True, "the broker is not the leader, or not a replica, of the partition"
    REQUEST_TIMED_OUT = 7, True, "the request was not done in time"
    BROKER_NOT_AVAILABLE = 8, False, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, True, "the replica is not available on this broker"
    MESSAGE_TOO_LARGE = 10, False, "the record batch is larger than the broker accepts"
    STALE_CONTROLLER_EPOCH = 11, False, "another controller has taken over since"
    OFFSET_METADATA_TOO_LARGE = 12, False, "the text stored with an offset is too long"
    NETWORK_EXCEPTION = 13, True, "the connection closed before the response arrived"
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "the coordinator is still loading its state"
    COORDINATOR_NOT_AVAILABLE = 15, True, "the coordinator is not available"
    NOT_COORDINATOR = 16, True, "another broker coordinates this group or transaction"
    INVALID_TOPIC_EXCEPTION = 17, False, "the topic name is not valid, or the topic is reserved"
    RECORD_LIST_TOO_LARGE = 18, False, "the record batch is larger than a log segment"
    NOT_ENOUGH_REPLICAS = 19, True, "too few replicas are in sync; nothing was written"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, True, "written, but too few replicas were in sync afterwards"
    INVALID_REQUIRED_ACKS = 21, False, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, False, "the generation is not the group's current one"
    INCONSISTENT_GROUP_PROTOCOL = 23, False, "the member shares no protocol with the group"
    INVALID_GROUP_ID = 24, False, "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, False, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, False, "the session timeout is outside the range the broker allows"
    REBALANCE_IN_PROGRESS = 27, False, "the group is rebalancing; join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "the offsets to commit are too large"
    TOPIC_AUTHORIZATION_FAILED = 29, False, "not authorized for this topic"
    GROUP_AUTHORIZATION_FAILED = 30, False, "not authorized for this group"
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "not authorized for this cluster operation"
    INVALID_TIMESTAMP = 32, False, "a record's timestamp is outside the accepted range"
    UNSUPPORTED_SASL_MECHANISM = 33, False, "the broker does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, False, "the request does not fit the state of the SASL exchange"
    UNSUPPORTED_VERSION = 35, False, "the broker does not support this API or version"
    TOPIC_ALREADY_EXISTS = 36, False, "a topic of this name exists"
    INVALID_PARTITIONS = 37, False, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, False, "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, False, "the replica assignment is not valid"
    INVALID_CONFIG = 40, False, "the configuration is not valid"
    NOT_CONTROLLER = 41, True, "another node is the controller"
    INVALID_REQUEST = 42, False, "the request is malformed or contradicts itself"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "the record format does not support this request"
    POLICY_VIOLATION = 44, False, "a policy of the cluster forbids this"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "the producer's sequence number does not follow the last one"
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "the producer's sequence number was used before"
    INVALID_PRODUCER_EPOCH = 47, False, "the producer's epoch is older than the one on the broker"
    INVALID_TXN_STATE = 48, False, "the transaction's state does not allow this"
    INVALID_PRODUCER_ID_MAPPING = 49, False, "the producer id does not belong to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, False, "the transaction timeout is longer than the broker allows"
    CONCURRENT_TRANSACTIONS = 51, True, "another operation on the transaction is still running"
    TRANSACTION_COORDINATOR_FENCED = 52, False, "another transaction coordinator has taken over"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "not authorized for this transactional id"
    SECURITY_DISABLED = 54, False, "the broker runs without an authorizer"
    OPERATION_NOT_ATTEMPTED = 55, False, "not attempted because another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, True, "the log directory of the partition has failed"
    LOG_DIR_NOT_FOUND = 57, False, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, False, "authentication failed"
    UNKNOWN_PRODUCER_ID = 59, False, "the broker no longer knows the producer id"
    REASSIGNMENT_IN_PROGRESS = 60, False, "the partition is being reassigned"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "delegation tokens are switched off"
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "the delegation token belongs to another owner"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, False, "this connection may not handle delegation tokens"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "not authorized for this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, False, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, False, "the type of principal is not supported"
    NON_EMPTY_GROUP = 68, False, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, False, "no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "the broker does not know the fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, True, "the fetch session is at another epoch"
    LISTENER_NOT_FOUND = 72, True, "the leader has no listener of the name the client used"
    TOPIC_DELETION_DISABLED = 73, False, "the cluster does not allow topics to be deleted"
    FENCED_LEADER_EPOCH = 74, True, "the leader epoch is older than the broker's"
    UNKNOWN_LEADER_EPOCH = 75, True, "the leader epoch is newer than the broker's"
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, "this version of the API cannot carry the compression type"
    STALE_BROKER_EPOCH = 77, False, "the broker has registered again since"
    OFFSET_NOT_AVAILABLE = 78, True, "the new leader does not know its high watermark yet"
    MEMBER_ID_REQUIRED = 79, False, "join again with the member id that the coordinator gave"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "the preferred leader cannot lead at the moment"
    GROUP_MAX_SIZE_REACHED = 81, False, "the group is full"
    FENCED_INSTANCE_ID = 82, False, "another member has taken over the group instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "no replica may become leader at the moment"
    ELECTION_NOT_NEEDED = 84, True, "the partition needs no election"
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "the partition is not being reassigned"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "the group is consuming the topic"
    INVALID_RECORD = 87, False, "the broker's checks refused a record"
    UNSTABLE_OFFSET_COMMIT = 88, True, "a transaction has offsets that are not settled yet"
    THROTTLING_QUOTA_EXCEEDED = 89, True, "the client used up its quota"
    PRODUCER_FENCED = 90, False, "a newer producer uses the same transactional id"
    RESOURCE_NOT_FOUND = 91, False, "no such resource"
    DUPLICATE_RESOURCE = 92, False, "the request names a resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, False, "the credential does not meet the requirements"
    INCONSISTENT_VOTER_SET = 94, False, "the sender or the receiver is not among the voters"
    INVALID_UPDATE_VERSION = 95, False, "the update's version is not valid"
    FEATURE_UPDATE_FAILED = 96, False, "the finalized features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "a forwarded principal could not be read"
    SNAPSHOT_NOT_FOUND = 98, False, "no such snapshot"
    POSITION_OUT_OF_RANGE = 99, False, "the position lies outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, True, "the broker does not know this topic id"
    DUPLICATE_BROKER_REGISTRATION = 101, False, "another broker uses this id"
    BROKER_ID_NOT_REGISTERED = 102, False, "no broker of this id is registered"
    INCONSISTENT_TOPIC_ID = 103, True, "the topic id is not the one in the log"
    INCONSISTENT_CLUSTER_ID = 104, False, "the cluster id is another cluster's"
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "the fetch session mixes topic ids and names"
    INELIGIBLE_REPLICA = 107, False, "a replica may not join the in-sync replicas"
    NEW_LEADER_ELECTED = 108, False, "the change was made and brought a new leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "the offset is only in tiered storage"
    FENCED_MEMBER_EPOCH = 110, False, "the coordinator fenced the member's epoch; rejoin without partitions"
    UNRELEASED_INSTANCE_ID = 111, False, "the instance id's former member has not left yet"
    UNSUPPORTED_ASSIGNOR = 112, False, "the group does not support this assignor"
    STALE_MEMBER_EPOCH = 113, False, "the member's epoch is old; wait for the next heartbeat"
    MISMATCHED_ENDPOINT_TYPE = 114, False, "this endpoint is of another type, broker or controller"
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "this type of endpoint is not supported"
    UNKNOWN_CONTROLLER_ID = 116, False, "no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "the telemetry subscription is unknown or old"
    TELEMETRY_TOO_LARGE = 118, False, "the telemetry is larger than the broker accepts"
    INVALID_REGISTRATION = 119, False, "the controller refused the registration"
    TRANSACTION_ABORTABLE = 120, False, "the transaction failed; abort it to go on"
    INVALID_RECORD_STATE = 121, False, "the record's state does not allow the acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, True, "the broker does not know the share session"
    INVALID_SHARE_SESSION_EPOCH = 123, True, "the share session is at another epoch"
    FENCED_STATE_EPOCH = 124, False, "the share group's state is at another epoch"
    INVALID_VOTER_KEY = 125, False, "the voter's key is not the receiver's"
    DUPLICATE_VOTER = 126, False, "already a voter"
    VOTER_NOT_FOUND = 127, False, "not a voter"
    INVALID_REGULAR_EXPRESSION = 128, False, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, False, "the client must start again from its bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, False, "the streams topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "the epoch of the streams topology is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, False, "the epoch of the streams topology is old"
    SHARE_SESSION_LIMIT_REACHED = 133, True, "the broker has as many share sessions as it allows"


_BY_CODE = {int(member): member for member in ErrorCode}


class KafkaError(KcliError):
    """An error with a wire code. `message` defaults to the code's description."""

    def __init__(self, code: ErrorCode, message: str | None = None, *, hint: str | None = None) -> None:
        super().__init__(code.description if message is None else message, hint=hint)
        self.code = code

    def __reduce__(self) -> tuple[partial[KafkaError], tuple[()]]:
        """Pickle as a plain `KafkaError`."""
        return partial(KafkaError, self.code, self.message, hint=self.hint), ()

    def detached(self) -> KafkaError:
        """Return this error without traceback and causes, so that it can be kept.

        Frames of a traceback keep every local object alive, records included.
        """
        self.__traceback__ = self.__cause__ = self.__context__ = None
        return self
