"""Key stores of listeners, loaded again: what is taken, what is refused, and when anybody looks."""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.node.housekeeping import STORE_CHECK_MS, Housekeeping
from kcli.broker.security.tls_contexts import TlsContexts
from kcli.errors import UsageError
from tests.broker.single_node import Node
from tests.support.tls_pair import handshake, write_pem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import trustme

    from kcli.broker.network.tls_transport import TlsListener

NAMES = ("localhost", "broker.example")


@dataclass
class Stores:
    """Files of a listener, and what it is configured with."""

    directory: Path
    authority: trustme.CA

    @property
    def key(self) -> Path:
        return self.directory / "broker.pem"

    def issue(self, *names: str, subject: str = "broker") -> None:
        """Put a new key into the file in one step, as who renews certificates does."""
        os.replace(self.written(self.directory / "new.pem", *names, subject=subject), self.key)

    def written(
        self, path: Path, *names: str, subject: str = "broker", authority: trustme.CA | None = None
    ) -> Path:
        """Write a new key and its certificate to a file; return its path."""
        issuer = authority or self.authority
        return write_pem(issuer.issue_cert(*names, common_name=subject, organization_unit_name="tests"), path)

    def config(self, **more: str) -> BrokerConfig:
        """Return the configuration of two listeners, of which SSL has a key."""
        given = {name.replace("_", "."): text for name, text in more.items()}
        return BrokerConfig.from_properties(
            {
                "listeners": "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:2",
                "ssl.keystore.type": "PEM",
                "ssl.truststore.type": "PEM",
                "listener.name.ssl.ssl.keystore.location": str(self.key),
                **given,
            }
        )

    def presented(self, tls: TlsListener) -> int:
        """Return the serial number of the certificate that a client is shown."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        certificate = handshake(tls.context, context).client.getpeercert()
        assert certificate is not None
        return int(str(certificate["serialNumber"]), 16)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    import trustme

    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture
def stores(tmp_path: Path, authority: trustme.CA) -> Stores:
    stores = Stores(tmp_path, authority)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    stores.issue(*NAMES)
    return stores


def opened(config: BrokerConfig) -> tuple[TlsContexts, TlsListener]:
    contexts = TlsContexts()
    return contexts, contexts.open(config, config.listener_configs[1])


def altered(config: BrokerConfig, changes: Mapping[str, str]) -> BrokerConfig:
    return config.with_dynamic(broker=changes, default={})


def test_a_new_key_is_taken_when_its_file_has_changed(stores: Stores) -> None:
    config = stores.config()
    contexts, tls = opened(config)
    first = stores.presented(tls)
    assert contexts.reload(config) == []
    stores.issue(*NAMES, "more.example")
    (reloaded,) = contexts.reload(config)
    assert (reloaded.listener, reloaded.is_new, reloaded.error) == ("SSL", True, None)
    assert set(reloaded.certificate.names) == {*NAMES, "more.example"}
    assert stores.presented(tls) not in (first, 0)
    assert contexts.reload(config) == []


def test_a_file_with_the_same_times_and_size_is_loaded_if_somebody_asks(stores: Stores) -> None:
    config = stores.config()
    contexts, _ = opened(config)
    (reloaded,) = contexts.reload(config, again=True)
    assert reloaded.is_new


@pytest.mark.parametrize(
    ("names", "subject", "allowed_by", "why"),
    [
        (NAMES, "other", "ssl_allow_dn_changes", "the new certificate is for `CN=other,"),
        (NAMES[:1], "broker", "ssl_allow_san_changes", "the new certificate lacks alternative names"),
        ((*NAMES[1:], "x.example"), "broker", "ssl_allow_san_changes", "of the old one: localhost"),
    ],
)
def test_another_subject_and_fewer_names_are_refused_unless_allowed(
    stores: Stores, names: tuple[str, ...], subject: str, allowed_by: str, why: str
) -> None:
    strict, lenient = stores.config(), stores.config(**{allowed_by: "true"})
    contexts, tls = opened(strict)
    before = tls.context
    stores.issue(*names, subject=subject)
    with pytest.raises(UsageError, match=why):
        contexts.check(strict)
    (refused,) = contexts.reload(strict)
    assert refused.error is not None
    assert why in refused.error.message
    assert refused.error.hint == f"`{allowed_by.replace('_', '.')}=true` accepts that"
    assert tls.context is before
    contexts.check(lenient)
    (taken,) = contexts.reload(lenient, again=True)
    assert taken.is_new
    assert tls.context is not before


@pytest.mark.parametrize(
    "content", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", None]
)
def test_a_broken_store_keeps_the_old_one_and_is_told_once(
    stores: Stores, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    config = stores.config()
    contexts, tls = opened(config)
    before = tls.context
    if content is None:
        stores.key.unlink()
    else:
        stores.key.write_bytes(content)
    with pytest.raises(UsageError):
        contexts.check(config)
    assert [each.is_new for each in contexts.reload(config)] == [False]
    assert contexts.reload(config) == []
    assert tls.context is before
    assert caplog.text.count("listener `SSL` keeps its certificate: ") == 1
    stores.issue(*NAMES)
    assert [each.is_new for each in contexts.reload(config)] == [True]


def test_a_listener_takes_the_store_that_its_configuration_names_now(stores: Stores) -> None:
    config = stores.config()
    contexts, tls = opened(config)
    first = stores.presented(tls)
    other = stores.written(stores.directory / "2.pem", *NAMES)
    changed = altered(config, {"listener.name.ssl.ssl.keystore.location": str(other)})
    contexts.check(changed)
    assert stores.presented(tls) == first
    assert [each.is_new for each in contexts.reload(changed)] == [True]
    assert stores.presented(tls) != first
    missing = altered(config, {"listener.name.ssl.ssl.keystore.location": str(other) + "?"})
    with pytest.raises(UsageError, match=r"cannot read|cannot use"):
        contexts.check(missing)


def test_a_trust_store_cannot_be_added(stores: Stores) -> None:
    config = stores.config()
    contexts, _ = opened(config)
    changed = altered(config, {"listener.name.ssl.ssl.truststore.location": str(stores.directory / "ca.pem")})
    with pytest.raises(UsageError, match="started without a trust store"):
        contexts.check(changed)


def test_the_listener_of_brokers_must_trust_itself(stores: Stores) -> None:
    import trustme

    trusted = {"ssl_truststore_location": str(stores.directory / "ca.pem"), "ssl_client_auth": "required"}
    config = stores.config(inter_broker_listener_name="SSL", **trusted)
    contexts, tls = opened(config)
    before = tls.context
    stores.written(stores.key, *NAMES, authority=trustme.CA(key_type=trustme.KeyType.ECDSA))
    with pytest.raises(UsageError, match="brokers would not trust each other"):
        contexts.check(config)
    assert [each.is_new for each in contexts.reload(config)] == [False]
    assert tls.context is before
    with pytest.raises(UsageError, match="listener `SSL`: brokers would not trust each other"):
        opened(config)
    # A listener for clients alone may have a certificate that it would not accept itself.
    assert [each.is_new for each in contexts.reload(stores.config(**trusted), again=True)] == [True]


async def test_housekeeping_looks_every_ten_seconds(node: Node) -> None:
    looks: list[int] = []
    jobs = Housekeeping(
        node.log_manager,
        replica_manager=node.replica_manager,
        config=node.config,
        wall_ms=node.wall_ms,
        look_for_stores=lambda: looks.append(now_ms),
    )
    for now_ms in range(0, 31_000, 1000):
        await jobs.tick(now_ms)
    assert looks == [STORE_CHECK_MS, 2 * STORE_CHECK_MS, 3 * STORE_CHECK_MS]
