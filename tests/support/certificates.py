"""Certificates for tests of TLS, made by trustme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.tls_pair import write_pem

if TYPE_CHECKING:
    from pathlib import Path

    import trustme


@dataclass(frozen=True)
class Certificates:
    """An authority and PEM files: ca.pem, broker.pem for localhost, alice.pem, mallory.pem."""

    directory: Path
    authority: trustme.CA

    def path(self, name: str) -> str:
        return str(self.directory / name)

    def text(self, name: str) -> str:
        return (self.directory / name).read_text(encoding="ascii")


def make_certificates(directory: Path) -> Certificates:
    """Make the certificates; mallory's authority is another one."""
    import trustme

    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(directory / "ca.pem")
    write_pem(authority.issue_cert("localhost", "127.0.0.1"), directory / "broker.pem")
    write_pem(authority.issue_cert("alice", common_name="alice"), directory / "alice.pem")
    stranger = trustme.CA(key_type=trustme.KeyType.ECDSA)
    write_pem(stranger.issue_cert("mallory", common_name="mallory"), directory / "mallory.pem")
    return Certificates(directory, authority)
