"""kcli's client and the listeners of a guarded Apache Kafka: TLS, logins, and what it says if they fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.guarded_apache import GuardedApache

pytestmark = pytest.mark.interop

DOORS = [
    ("SSL", ""),
    ("MTLS", ""),
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_SSL", "PLAIN"),
]


@pytest.fixture
def run(kcli: Callable[..., Finished], tmp_path: Path) -> Callable[..., Finished]:
    """Run kcli with client properties from a file."""

    def done(properties: Mapping[str, str], *arguments: str, input: bytes = b"") -> Finished:
        path = tmp_path / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return kcli(*arguments, "--command-config", str(path), input=input)

    return done


@pytest.mark.parametrize(("listener", "mechanism"), DOORS)
def test_a_client_passes_each_kind_of_listener(
    guarded_apache: GuardedApache, run: Callable[..., Finished], listener: str, mechanism: str
) -> None:
    properties = guarded_apache.properties(listener, mechanism)
    result = run(properties, "cluster", "id", "-o", "text")
    assert (result.exit_code, result.err) == (0, ""), result
    assert result.out.strip()
