"""Values of properties that stand elsewhere, with Kafka's own three providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kcli.errors import UsageError
from kcli.security.config_providers import resolved

if TYPE_CHECKING:
    from pathlib import Path

CLASSES = "org.apache.kafka.common.config.provider."


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """A properties file and a directory of files."""
    (tmp_path / "passwords.properties").write_text("staging=from the file\n")
    (tmp_path / "token").write_text("from the directory")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${env:PASSWORD}", "from the environment"),
        ('password="${env:PASSWORD}";', 'password="from the environment";'),
        ("${env:PASSWORD} ${env:OTHER}", "from the environment another"),
        ("${file:{}/passwords.properties:staging}", "from the file"),
        ("${dir:{}:token}", "from the directory"),
        ("${vault:secret/kafka:password}", "${vault:secret/kafka:password}"),
        ("$PASSWORD ${PASSWORD}", "$PASSWORD ${PASSWORD}"),
    ],
)
def test_references_are_replaced(secrets: Path, text: str, value: str) -> None:
    environment = {"PASSWORD": "from the environment", "OTHER": "another"}
    given = {"sasl.jaas.config": text.replace("{}", str(secrets)), "acks": "all"}
    assert resolved(given, environment) == {"sasl.jaas.config": value, "acks": "all"}


def test_what_a_reference_stands_for_is_not_looked_into() -> None:
    assert resolved({"a": "${env:ONE}"}, {"ONE": "${env:TWO}", "TWO": "2"}) == {"a": "${env:TWO}"}


def test_providers_may_have_other_names_and_bounds(secrets: Path) -> None:
    providers = {
        "config.providers": "e, f",
        "config.providers.e.class": f"{CLASSES}EnvVarConfigProvider",
        "config.providers.e.param.allowlist.pattern": "KAFKA_.*",
        "config.providers.f.class": f"{CLASSES}FileConfigProvider",
        "config.providers.f.param.allowed.paths": str(secrets / "public"),
    }
    environment = {"KAFKA_USER": "alice", "HOME": "/root"}
    assert resolved({**providers, "a": "${e:KAFKA_USER}"}, environment)["a"] == "alice"
    with pytest.raises(UsageError, match=r"`a`: `allowlist.pattern` does not allow the variable HOME"):
        resolved({**providers, "a": "${e:HOME}"}, environment)
    with pytest.raises(UsageError, match=r"`a`: `allowed.paths` does not allow"):
        resolved({**providers, "a": f"${{f:{secrets}/passwords.properties:staging}}"}, environment)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("${env:PASWORD}", "the environment has no variable PASWORD", "did you mean `PASSWORD`?"),
        ("${env:x:PASSWORD}", "a variable has no path: ${env:NAME}", None),
        ("${file:key}", "it names no path: ${file:PATH:NAME}", None),
        ("${file:/nowhere:key}", "cannot read `/nowhere`: No such file or directory", None),
        ("${file:{}/passwords.properties:prod}", "`{}/passwords.properties` has no property `prod`", None),
        ("${dir:{}:nothing}", "cannot read `{}/nothing`: No such file or directory", None),
    ],
)  # fmt: skip
def test_a_reference_to_nothing_is_an_error(secrets: Path, text: str, message: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as raised:
        resolved({"ssl.key.password": text.replace("{}", str(secrets))}, {"PASSWORD": "marker"})
    expected = message.replace("{}", str(secrets))
    assert raised.value.message == f"cannot find the value of `ssl.key.password`: {expected}"
    assert raised.value.hint == hint


@pytest.mark.parametrize("java_class", ["com.example.VaultConfigProvider", ""])
def test_foreign_providers_are_refused(java_class: str) -> None:
    given = {"config.providers": "vault", "config.providers.vault.class": java_class, "a": "${vault:x}"}
    with pytest.raises(UsageError, match=r"config\.providers\.vault\.class"):
        resolved(given, {})
