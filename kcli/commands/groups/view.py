"""View: what `describe` shows of groups."""

from __future__ import annotations

from enum import Enum

from kcli.commands.groups.options import refuse_several
from kcli.errors import UsageError


class View(Enum):
    """What is shown of groups; the values are the options' names."""

    OFFSETS = "--offsets"
    MEMBERS = "--members"
    STATE = "--state"
    TOTAL_LAG = "--total-lag"
    EXPLAIN = "--explain"
    HISTORY = "--history"

    def check(self, *, time_lag: bool, watch: bool, offline: bool) -> None:
        """Refuse what this view has no place for."""
        if time_lag and self not in (View.OFFSETS, View.TOTAL_LAG):
            raise UsageError(f"`--time-lag` and `{self.value}` exclude each other")
        if watch and self in (View.EXPLAIN, View.HISTORY):
            raise UsageError(f"`--watch` and `{self.value}` exclude each other")
        if not offline:
            return
        for option, is_given in (
            ("--time-lag", time_lag),
            ("--watch", watch),
            (self.value, self is View.EXPLAIN),
        ):
            if is_given:
                raise UsageError(f"`{option}` needs a broker, it cannot be used with `--log-dir`")


def chosen_view(flags: dict[View, bool]) -> View:
    """Return the one view whose flag is set, the offsets if none is."""
    chosen = [view for view, is_set in flags.items() if is_set]
    refuse_several(chosen)
    return chosen[0] if chosen else View.OFFSETS
