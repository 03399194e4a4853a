"""ActiveFault: a fault that was added and not yet cleared, and how often it has struck."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from kcli.broker.faults.fault import RequestFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.faults.fault import Fault


class ActiveFault:
    """A fault by its number. With the same seed the same requests of a sequence meet it."""

    def __init__(self, number: int, fault: Fault, *, seed: int, spent: Callable[[ActiveFault], None]) -> None:
        self.number = number
        self.fault = fault
        self.hits = 0
        """How many requests have met it."""
        self._random = Random(f"{seed}/{number}")
        self._spent = spent

    @property
    def request_fault(self) -> RequestFault:
        """The fault, which is one of requests."""
        assert isinstance(self.fault, RequestFault)
        return self.fault

    @property
    def left(self) -> int | None:
        """How many more requests will meet it; None if that is not limited."""
        limit = getattr(self.fault, "next", None)
        return None if not limit else limit - self.hits

    def strikes(self) -> bool:
        """Return whether a request that it concerns meets it, and count that."""
        if self.left == 0 or self._random.random() >= self.request_fault.probability:
            return False
        self.hits += 1
        if self.left == 0:
            self._spent(self)
        return True
