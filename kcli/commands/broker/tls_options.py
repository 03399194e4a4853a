"""What `kcli broker start --tls` and `--client-auth` mean as properties of the broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.config.listener_config import ListenerConfig

CLIENT_AUTH, KEY_STORE, TRUST_STORE = "ssl.client.auth", "ssl.keystore.", "ssl.truststore."
AUTO_TLS = "auto"
CHOICES = ("none", "requested", "required")


def add_tls(properties: dict[str, str], tls: str, *, protocol: str) -> None:
    """Name the key store, unless the broker makes one. Raises `UsageError` if no listener would use it.

    `protocol` is what the listeners speak if no property names them.
    """
    key_store = next((name for name in properties if name.startswith(KEY_STORE)), None)
    if key_store is not None:
        raise UsageError(f"`--tls` and `{key_store}` exclude each other", hint="leave one of them out")
    if not tls_listeners(properties, protocol):
        raise UsageError(
            "`--tls`, but no listener in `listeners` has TLS",
            hint="leave `listeners` out, or name one as `SSL://host:port`",
        )
    if tls != AUTO_TLS:
        path = Path(tls)
        if not path.is_file():
            raise UsageError(f"`--tls` names no file: {tls}", hint="`--tls auto` makes keys by itself")
        properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path.absolute())}


def add_client_auth(properties: dict[str, str], client_auth: str, *, protocol: str, tls: str | None) -> None:
    """Have clients show certificates. Raises `UsageError` if nobody would ask, or none could be trusted."""
    if client_auth not in CHOICES:
        raise UsageError(
            f"bad value of `--client-auth`: {client_auth}", hint=f"it is one of {', '.join(CHOICES)}"
        )
    asking = tls_listeners(properties, protocol)
    if not asking:
        raise UsageError("`--client-auth` needs a listener with TLS", hint="`--tls auto` makes one")
    has_trust_store = tls == AUTO_TLS or any(name.startswith(TRUST_STORE) for name in properties)
    if client_auth != "none" and not has_trust_store:
        raise UsageError(
            "`--client-auth` needs a trust store: which clients are to get in?",
            hint="`--override ssl.truststore.type=PEM --override ssl.truststore.location=FILE` names one",
        )
    # A listener with SASL asks for certificates only if the property is its own (KIP-684).
    own = [f"listener.name.{each.name.lower()}.{CLIENT_AUTH}" for each in asking if each.is_sasl]
    for name in (CLIENT_AUTH, *own):
        if properties.setdefault(name, client_auth) != client_auth:
            raise UsageError(
                f"`--client-auth {client_auth}` and `{name}={properties[name]}` exclude each other",
                hint="leave one of them out",
            )


def tls_listeners(properties: Mapping[str, str], protocol: str) -> list[ListenerConfig]:
    """Return the listeners with TLS. Raises `UsageError` for properties that cannot be used."""
    from kcli.broker.security.users import named_listeners

    return [each for each in named_listeners(properties, protocol) if each.is_tls]
