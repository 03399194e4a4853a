"""The SCRAM credentials of users, as the metadata of a node has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.internal.security_records import UserScramCredentialRecord
from kcli.security.principal import USER_TYPE, Principal
from kcli.security.sasl import Authenticated
from kcli.security.scram import MECHANISMS, Known, ScramCredential, ScramMechanism

if TYPE_CHECKING:
    from kcli.broker.node_context import NodeContext


def scram_mechanism(node: NodeContext, name: str) -> ScramMechanism:
    """Return the mechanism `name` for the users whom the node's metadata has at the time of a login."""
    mechanism = MECHANISMS[name]

    def find(user: str, is_token: bool) -> Known | None:
        record = node.image.security.get((UserScramCredentialRecord, user, mechanism.number))
        if is_token or not isinstance(record, UserScramCredentialRecord):
            return None
        credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        return Known(credential, Authenticated(Principal(USER_TYPE, user)))

    return ScramMechanism(mechanism, find)
