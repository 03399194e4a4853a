"""Values of properties that stand elsewhere: `${env:NAME}`, `${file:PATH:KEY}` and `${dir:PATH:FILE}`.

They are Kafka's own three providers under these names; `config.providers` may give them other names and
bounds (KIP-297, KIP-421; Kafka classes `ConfigTransformer`, `EnvVarConfigProvider`, `FileConfigProvider`,
`DirectoryConfigProvider`). Unlike in Java, a reference to nothing is an error, not a text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import UsageError, nearest_hint
from kcli.properties import read_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

PROVIDERS = "config.providers"

_REFERENCE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
_PACKAGE = "org.apache.kafka.common.config.provider."
_KINDS = {
    f"{_PACKAGE}EnvVarConfigProvider": "env",
    f"{_PACKAGE}FileConfigProvider": "file",
    f"{_PACKAGE}DirectoryConfigProvider": "dir",
}


class _Provider(NamedTuple):
    kind: str
    bound: str
    """The pattern of allowed variables, or the allowed paths with commas; empty: all are allowed."""

    def value(self, path: str, key: str, environment: Mapping[str, str]) -> str:
        """Return what a reference stands for; raise `UsageError` if there is nothing."""
        if self.kind == "env":
            return self._variable(path, key, environment)
        if not path:
            raise UsageError(f"it names no path: ${{{self.kind}:PATH:NAME}}")
        self._check_path(Path(path))
        if self.kind == "file":
            found = read_properties(Path(path)).get(key)
            if found is None:
                raise UsageError(f"`{path}` has no property `{key}`")
            return found
        try:
            return (Path(path) / Path(key).name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise UsageError(f"cannot read `{path}/{key}`: {reason}") from None

    def _variable(self, path: str, name: str, environment: Mapping[str, str]) -> str:
        if path:
            raise UsageError("a variable has no path: ${env:NAME}")
        if self.bound and not re.fullmatch(self.bound, name):
            raise UsageError(f"`allowlist.pattern` does not allow the variable {name}")
        if name not in environment:
            raise UsageError(f"the environment has no variable {name}", hint=nearest_hint(name, environment))
        return environment[name]

    def _check_path(self, path: Path) -> None:
        allowed = [Path(one.strip()).resolve() for one in self.bound.split(",") if one.strip()]
        if allowed and not any(path.resolve().is_relative_to(one) for one in allowed):
            raise UsageError(f"`allowed.paths` does not allow {path}")


def resolved(properties: Mapping[str, str], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return properties with the values that they refer to; raise `UsageError` that names the property."""
    if not any("${" in value for value in properties.values()):
        return dict(properties)
    providers = _providers(properties)
    variables = os.environ if environment is None else environment

    def one(name: str, value: str) -> str:
        def replacement(match: re.Match[str]) -> str:
            provider = providers.get(match.group(1))
            if provider is None:
                return match.group()
            try:
                return provider.value(match.group(3) or "", match.group(4), variables)
            except UsageError as error:
                raise UsageError(
                    f"cannot find the value of `{name}`: {error.message}", hint=error.hint
                ) from None

        return _REFERENCE.sub(replacement, value)

    return {
        name: value if name.startswith(PROVIDERS) else one(name, value) for name, value in properties.items()
    }


def _providers(properties: Mapping[str, str]) -> dict[str, _Provider]:
    found = {kind: _Provider(kind, "") for kind in _KINDS.values()}
    for name in (part.strip() for part in properties.get(PROVIDERS, "").split(",")):
        if not name:
            continue
        java_class = properties.get(f"{PROVIDERS}.{name}.class", "").strip()
        kind = _KINDS.get(java_class)
        if kind is None:
            raise UsageError(
                f"cannot use `{PROVIDERS}.{name}.class` {java_class or '(missing)'}: it is none of Kafka's",
                hint="use Kafka's EnvVarConfigProvider, FileConfigProvider or DirectoryConfigProvider",
            )
        bound = "allowlist.pattern" if kind == "env" else "allowed.paths"
        found[name] = _Provider(kind, properties.get(f"{PROVIDERS}.{name}.param.{bound}", "").strip())
    return found
