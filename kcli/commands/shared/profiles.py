"""Profiles: client properties by name, in `~/.config/kcli/profiles.toml`.

    [staging]
    bootstrap.servers = "broker-1:9093"
    security.protocol = "SASL_SSL"
    sasl.jaas.config = '… required username="me" password="${env:STAGING_PASSWORD}";'

`XDG_CONFIG_HOME` moves the directory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcli.errors import UsageError, nearest_hint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def profiles_path() -> Path:
    """Return where profiles are."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "kcli" / "profiles.toml"


def read_profile(name: str) -> dict[str, str]:
    """Return the properties of a profile; raise `UsageError` if there is none, or the file is malformed."""
    path = profiles_path()
    if not path.exists():
        raise UsageError(f"there is no profile `{name}`", hint=f"write it as [{name}] into {path}")
    profiles = _read(path)
    profile = profiles.get(name)
    if profile is None:
        near = nearest_hint(name, profiles)
        raise UsageError(f"`{path}` has no profile `{name}`", hint=near or f"it has: {', '.join(profiles)}")
    if not isinstance(profile, dict):
        raise UsageError(f"`{name}` in `{path}` is no profile", hint=f"a profile begins with [{name}]")
    return dict(_flat(profile, "", f"profile `{name}` in `{path}`"))


def profile_names(incomplete: str) -> list[str]:
    """Return the profiles whose name begins with `incomplete`; none if the file cannot be read."""
    try:
        return [name for name in _read(profiles_path()) if name.startswith(incomplete)]
    except UsageError:
        return []


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read `{path}`: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read `{path}`: not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        # The text of the error may quote the line: only its end says where.
        place = str(error).rpartition("(")[2].rstrip(")")
        raise UsageError(f"cannot read `{path}`: not TOML {place}") from None


def _flat(values: Mapping[str, Any], prefix: str, where: str) -> Iterator[tuple[str, str]]:
    """Yield properties; `a.b = 1` is a table in TOML."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.", where)
        elif isinstance(value, bool):
            yield name, str(value).lower()
        elif isinstance(value, str | int | float):
            yield name, str(value)
        elif isinstance(value, list) and all(isinstance(one, str | int) for one in value):
            yield name, ",".join(map(str, value))
        else:
            raise UsageError(f"`{name}` of {where} is neither a text nor a number")
