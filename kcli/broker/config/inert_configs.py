"""The broker configurations of Kafka that kcli knows and does not act on.

Their rows are in `inert_server_definitions` and its siblings, which are loaded when one of them is named: few
brokers need them. Names of older releases, and those with a prefix, have no row.

A `server.properties` written for Apache Kafka may name any of them: each costs one warning line. `refusal`
names the exceptions: a value that would keep clients out of a real broker stops the start. While a broker
runs, `is_security` names what it refuses to set.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kcli.broker.config.config_definition import ConfigDefinition
from kcli.broker.config.listener_properties import PREFIX, split_name
from kcli.protocol.configs import ConfigType

if TYPE_CHECKING:
    from collections.abc import Mapping

_OLDER_RELEASES = """
    advertised.host.name advertised.port broker.id.generation.enable control.plane.listener.name
    controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms delegation.token.master.key
    eligible.leader.replicas.enable enable.zookeeper group.coordinator.new.enable host.name
    inter.broker.protocol.version log.message.downconversion.enable log.message.format.version
    log.message.timestamp.difference.max.ms offsets.commit.required.acks password.encoder.cipher.algorithm
    password.encoder.iterations password.encoder.key.length password.encoder.keyfactory.algorithm
    password.encoder.old.secret password.encoder.secret port quota.consumer.default quota.producer.default
    reserved.broker.max.id zookeeper.clientCnxnSocket zookeeper.connect zookeeper.connection.timeout.ms
    zookeeper.max.in.flight.requests zookeeper.metadata.migration.enable
    zookeeper.metadata.migration.min.batch.size zookeeper.session.timeout.ms zookeeper.set.acl
    zookeeper.ssl.cipher.suites zookeeper.ssl.client.enable zookeeper.ssl.crl.enable
    zookeeper.ssl.enabled.protocols zookeeper.ssl.endpoint.identification.algorithm
    zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type
    zookeeper.ssl.ocsp.enable zookeeper.ssl.protocol zookeeper.ssl.truststore.location
    zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type zookeeper.sync.time.ms
"""

_PLUGIN_PREFIXES = ("rlmm.config.", "rsm.config.")

_ACCESS_CONTROL: Mapping[str, frozenset[str]] = {
    "principal.builder.class": frozenset(
        {"org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"}
    ),
    "sasl.server.callback.handler.class": frozenset(),
    "security.providers": frozenset(),
    "ssl.engine.factory.class": frozenset(),
}
"""Configurations of access control, each with the values that let every client in, as kcli does."""


def refusal(name: str, value: str) -> str | None:
    """Return why a broker must not start with this value, None if it may; listener prefixes are ignored."""
    is_prefixed = name.startswith(PREFIX)
    found = next(
        (each for each in _ACCESS_CONTROL if name == each or (is_prefixed and name.endswith(f".{each}"))),
        None,
    )
    if found is None or not value.strip() or value.strip().lower() in map(str.lower, _ACCESS_CONTROL[found]):
        return None
    return f"`{name}` is set, and kcli does not act on it: every client would get in"


def warning(definition: ConfigDefinition[Any]) -> str | None:
    """Return a warning for a configuration without effect, None if it has its effect."""
    return None if definition.has_effect else f"`{definition.name}` has no effect in kcli"


@cache
def inert_configs() -> Mapping[str, ConfigDefinition[Any]]:
    """Return the rows of Kafka's broker configurations that have no effect, by name."""
    from kcli.broker.config import (
        inert_group_definitions,
        inert_remote_definitions,
        inert_security_definitions,
        inert_server_definitions,
    )

    rows = {
        row.name: row
        for rows in (
            inert_server_definitions.ROWS,
            inert_group_definitions.ROWS,
            inert_remote_definitions.ROWS,
            inert_security_definitions.ROWS,
            inert_security_definitions.JAVA_TLS,
            inert_security_definitions.LOGIN_REFRESH,
        )
        for row in rows
    }
    for row in rows.values():
        row.has_effect = False
    return MappingProxyType(rows)


def find_inert_config(
    name: str, acted_on: Mapping[str, ConfigDefinition[Any]]
) -> ConfigDefinition[Any] | None:
    """Return the row of a name without effect, None if Kafka does not know the name either.

    A property of one listener has the row of the property, which may be one of `acted_on`. Kafka has no type
    for names of older releases and of plug-ins, and never shows their values.
    """
    rows = inert_configs()
    if name in rows:
        return rows[name]
    if name.startswith(PREFIX):
        base_name = split_name(name)[2]
        base = rows.get(base_name) or acted_on.get(base_name)
        if base is None:
            return None
        return ConfigDefinition(
            name, base.type, None, base.doc, check=base.check, mode=base.mode, has_effect=False
        )
    is_plugins = name in _ACCESS_CONTROL or name.startswith(_PLUGIN_PREFIXES)
    if is_plugins or name in _older_releases():
        return ConfigDefinition(name, ConfigType.UNKNOWN, None, "", has_effect=False)
    return None


def inert_names() -> frozenset[str]:
    """Return every name without effect that is no prefix, older releases included."""
    return _older_releases() | _ACCESS_CONTROL.keys() | inert_configs().keys()


def is_security(name: str) -> bool:
    """True if somebody could believe that a configuration, of all listeners or one, keeps clients out."""
    from kcli.broker.config.inert_security_definitions import ROWS

    base = split_name(name)[2] if name.startswith(PREFIX) else name
    return base in _ACCESS_CONTROL or any(base == row.name or base.endswith(f".{row.name}") for row in ROWS)


@cache
def _older_releases() -> frozenset[str]:
    return frozenset(_OLDER_RELEASES.split())
