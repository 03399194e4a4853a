"""`broker start --user`: the users of SCRAM, whose credentials are in the metadata."""

from __future__ import annotations

import hmac
import logging
import os
from typing import TYPE_CHECKING

from kcli.broker.controller.scram_control import ScramUpsertion
from kcli.protocol.internal.security_records import UserScramCredentialRecord
from kcli.security.scram import MECHANISMS, MIN_ITERATIONS, SALT_BYTES, ScramCredential

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.controller.controller import Controller
    from kcli.broker.security.users import User
    from kcli.security.scram import ScramHash
    from kcli.security.secret import Secret

_log = logging.getLogger(__name__)


def store_users(users: Iterable[User], controller: Controller) -> None:
    """Set the credentials of users that are new or have another password; others keep theirs."""
    for user in users:
        mechanism, salt = MECHANISMS[user.mechanism], os.urandom(SALT_BYTES)
        record = controller.image.security.get((UserScramCredentialRecord, user.name, mechanism.number))
        if _is_of(user.password, mechanism, record):
            continue
        salted = mechanism.salted_password(user.password.reveal(), salt, MIN_ITERATIONS)
        change = ScramUpsertion(user.name, mechanism.number, MIN_ITERATIONS, salt, salted)
        error = controller.alter_user_scram_credentials([], [change])[user.name]
        if error is not None:
            raise error
        _log.info("user `%s` has a new credential for %s", user.name, mechanism.name)


def _is_of(password: Secret, mechanism: ScramHash, record: object) -> bool:
    """Return whether a record is a credential of this password."""
    if not isinstance(record, UserScramCredentialRecord):
        return False
    salted = mechanism.salted_password(password.reveal(), record.salt, record.iterations)
    same = ScramCredential.of(mechanism, salted, record.salt, record.iterations)
    return hmac.compare_digest(same.stored_key, record.stored_key)
