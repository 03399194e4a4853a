"""SecuritySettings: the broker configurations of logins, TLS and authorization that kcli acts on.

Those without effect, which a broker refuses, are in `inert_security_definitions`.
"""

from __future__ import annotations

from kcli.broker.config.config_definition import boolean, string

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_AUTHORIZERS = ("", "standard", STANDARD_AUTHORIZER)


def _authorizer(value: str) -> str | None:
    return None if value in _AUTHORIZERS else f"must be empty or `{STANDARD_AUTHORIZER}`"


def _principals(value: str) -> str | None:
    wrong = [text for text in split_principals(value) if ":" not in text]
    return f"`{wrong[0]}` is not a principal, as in `User:alice`" if wrong else None


def split_principals(value: str) -> tuple[str, ...]:
    """Return the principals in a text with semicolons, as `super.users` has them."""
    return tuple(text for each in value.split(";") if (text := each.strip()))


class SecuritySettings:
    """A broker's settings of security; on an instance each row reads as its value."""

    # What a principal may do
    authorizer_class_name = string(
        "authorizer.class.name",
        "",
        "Class that decides which principal may do what; `standard` is short for Kafka's own.",
        check=_authorizer,
    )
    super_users = string(
        "super.users",
        "",
        "Principals that may do everything, separated by semicolons, as in `User:admin;User:root`.",
        check=_principals,
        internal=True,
    )
    allow_everyone_if_no_acl_found = boolean(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether everybody may use a resource that no access control entry is about.",
        internal=True,
    )
