"""Profiles: client properties by name, below the file and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kcli.commands.shared.profiles import profile_names, read_profile
from kcli.commands.shared.session import client_properties
from kcli.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

PROFILES = """
[staging]
bootstrap.servers = ["one:9093", "two:9093"]
security.protocol = "SASL_SSL"
"sasl.mechanism" = "PLAIN"
sasl.jaas.config = '''P required username="me" password="${env:KCLI_TEST_PASSWORD}";'''
client.id = "profile"
request.timeout.ms = 5000
enable.idempotence = false

[production]
security.protocol = "SSL"
ssl.keystore.key = 1979-05-27
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of profiles."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("KCLI_TEST_PASSWORD", "from the environment")
    found = tmp_path / "kcli" / "profiles.toml"
    found.parent.mkdir()
    found.write_text(PROFILES)
    return found


@pytest.mark.usefixtures("path")
def test_a_profile_has_properties_as_java_has_them() -> None:
    assert read_profile("staging") == {
        "bootstrap.servers": "one:9093,two:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'P required username="me" password="${env:KCLI_TEST_PASSWORD}";',
        "client.id": "profile",
        "request.timeout.ms": "5000",
        "enable.idempotence": "false",
    }
    assert profile_names("st") == ["staging"]


@pytest.mark.usefixtures("path")
def test_command_line_and_file_win_over_a_profile(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=file\nrequest.timeout.ms=6000\n")
    given = client_properties(file, ["client.id=line"], {"client.id": "own", "acks": "1"}, profile="staging")
    assert (given["client.id"], given["request.timeout.ms"], given["acks"]) == ("line", "6000", "1")
    assert given["sasl.jaas.config"] == 'P required username="me" password="from the environment";'


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("stagin", "`{}` has no profile `stagin`", "did you mean `staging`?"),
        ("x", "`{}` has no profile `x`", "it has: staging, production"),
        ("production", "`ssl.keystore.key` of profile `production` in `{}` is neither a text nor a number",
         None),
    ],
)  # fmt: skip
def test_a_profile_that_is_not_there_is_a_usage_error(
    path: Path, name: str, message: str, hint: str | None
) -> None:
    with pytest.raises(UsageError) as raised:
        read_profile(name)
    assert (raised.value.message, raised.value.hint) == (message.replace("{}", str(path)), hint)


def test_a_malformed_file_is_told_by_its_place_alone(path: Path) -> None:
    path.write_text("[staging]\nssl.key.password = marker\n")
    with pytest.raises(UsageError) as raised:
        read_profile("staging")
    assert raised.value.message == f"cannot read `{path}`: not TOML at line 2, column 20"
    assert profile_names("") == []


def test_without_a_file_the_hint_says_where_to_write_it(path: Path) -> None:
    path.unlink()
    with pytest.raises(UsageError) as raised:
        read_profile("staging")
    assert raised.value.hint == f"write it as [staging] into {path}"
