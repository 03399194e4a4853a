"""What `kcli tls reload` prints: the listeners of a running broker with their certificates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcli.errors import KcliError


class ReloadedListener(NamedTuple):
    """A listener of a node; with an `error` it keeps the certificate that it had."""

    node: int
    listener: str
    subject: str
    names: Sequence[str]
    not_after: str
    error: str | None
    hint: str | None

    def line(self) -> str:
        done = "reloaded" if self.error is None else "keeps its certificate"
        names = f" for {', '.join(self.names)}" if self.names else ""
        return (
            f"node {self.node}, {self.listener}: {done}: {self.subject}{names}, valid until {self.not_after}"
        )


class TlsReloaded(NamedTuple):
    """All listeners with TLS; those whose new stores were refused are failures."""

    listeners: Sequence[ReloadedListener]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        for listener in self.listeners:
            yield listener.line()


def reloaded(rows: Sequence[Mapping[str, Any]]) -> TlsReloaded:
    """Return what the broker's answer says."""
    listeners = [ReloadedListener(**row) for row in rows]
    failures = [
        KcliError(f"node {each.node}, listener `{each.listener}`: {each.error}", hint=each.hint)
        for each in listeners
        if each.error is not None
    ]
    return TlsReloaded(listeners, failures)
