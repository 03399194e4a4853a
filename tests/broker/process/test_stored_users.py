"""Users of a start get credentials of SCRAM, and new ones only with another password."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kcli.broker.controller.controller import Controller
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE
from kcli.broker.process.stored_users import store_users
from kcli.broker.security.users import User
from kcli.protocol.internal.security_records import UserScramCredentialRecord
from kcli.security.secret import Secret
from tests.support.metadata import MemoryLog

if TYPE_CHECKING:
    from kcli.protocol.internal.security_records import SecurityRecord


def user(password: str, mechanism: str = "SCRAM-SHA-256") -> User:
    return User("alice", Secret(password), mechanism)


def stored(controller: Controller, number: int = 1) -> SecurityRecord | None:
    return controller.image.security.get((UserScramCredentialRecord, "alice", number))


def test_a_credential_changes_only_with_the_password() -> None:
    controller = Controller(MemoryLog(), EMPTY_IMAGE, random=random.Random(0))
    controller.begin_epoch()
    store_users([user("a"), user("a", "SCRAM-SHA-512")], controller)
    first, other = stored(controller), stored(controller, 2)
    assert first is not None
    assert other is not None
    store_users([user("a")], controller)
    assert stored(controller) is first
    store_users([user("b")], controller)
    assert stored(controller) not in (None, first)
    assert stored(controller, 2) is other
