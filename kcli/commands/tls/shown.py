"""What `kcli tls show` prints: the certificates of files and of listeners."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.shared.formatting import counted
from kcli.commands.shared.output import Table
from kcli.errors import ChecksFailed, UsageError
from kcli.security.certificates.certificate import Certificate

if TYPE_CHECKING:
    from kcli.security.certificates.store_entries import StoreEntry


class CertificateRow(NamedTuple):
    """A certificate; `role` is key, chain or trusted, times are ISO 8601 in UTC."""

    role: str
    subject: str
    issuer: str
    names: Sequence[str]
    key: str
    not_before: str
    not_after: str
    days_left: int
    is_valid: bool
    sha256: str

    def lines(self) -> Iterator[str]:
        yield f"  {self.role}: {self.subject or '(no subject)'}, {self.key}"
        yield f"    issued by {'itself' if self.issuer == self.subject else self.issuer}"
        if self.names:
            yield f"    for {', '.join(self.names)}"
        yield f"    {self.validity()}"

    def validity(self) -> str:
        """Return until when it is valid, or why it is not."""
        if self.is_valid:
            return f"valid until {self.not_after}, {counted(self.days_left, 'day')} left"
        if self.days_left < 0:
            return f"expired on {self.not_after}"
        return f"not valid before {self.not_before}"


class ShownSource(NamedTuple):
    """A file with its type, or a listener with the cipher suites of its versions of TLS.

    `trust` tells whether a client with the given properties trusts the listener: "yes", or why it does not.
    """

    source: str
    type: str
    certificates: Sequence[CertificateRow]
    versions: dict[str, str] = {}  # noqa: RUF012 - it is never changed
    trust: str | None = None

    def lines(self) -> Iterator[str]:
        yield f"{self.source}: {self.type}"
        for version, suite in self.versions.items():
            yield f"  {version} {suite or 'only with a client certificate'}"
        for row in self.certificates:
            yield from row.lines()
        if self.trust is not None:
            yield f"  trusted: {self.trust}"


class TlsShown(NamedTuple):
    """Everything that was looked at; certificates that are not valid now are failures."""

    sources: Sequence[ShownSource]
    failures: Sequence[ChecksFailed] = ()

    def lines(self) -> Iterator[str]:
        for source in self.sources:
            yield from source.lines()

    def tables(self) -> Iterator[Table]:
        for source in self.sources:
            versions = "".join(f", {version} {suite}".rstrip() for version, suite in source.versions.items())
            trust = "" if source.trust is None else f", trusted: {source.trust}"
            yield Table(
                ("Role", "Subject", "Issuer", "Names", "Key", "Valid until", "Days left"),
                [
                    (
                        row.role,
                        row.subject,
                        row.issuer,
                        " ".join(row.names),
                        row.key,
                        row.not_after,
                        row.days_left,
                    )
                    for row in source.certificates
                ],
                f"{source.source}: {source.type}{versions}{trust}",
            )


def certificate_row(entry: StoreEntry, source: str, now: datetime) -> CertificateRow:
    """Return a row. Raises `UsageError` for a damaged certificate."""
    try:
        read = Certificate.parse(entry.certificate)
    except ValueError as error:
        raise UsageError(f"`{source}` has a damaged certificate: {error}") from error
    return CertificateRow(
        role=entry.role,
        subject=read.subject,
        issuer=read.issuer,
        names=read.names,
        key=read.key,
        not_before=iso(read.not_before),
        not_after=iso(read.not_after),
        days_left=(read.not_after - now).days,
        is_valid=read.not_before <= now <= read.not_after,
        sha256=hashlib.sha256(entry.certificate).hexdigest(),
    )


def iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def with_failures(sources: Sequence[ShownSource]) -> TlsShown:
    """Return the result, with a failure for each certificate that is not valid now."""
    failures = [
        ChecksFailed(f"{source.source}: the certificate of {row.subject} is not valid: {row.validity()}")
        for source in sources
        for row in source.certificates
        if not row.is_valid
    ]
    return TlsShown(sources, failures)
