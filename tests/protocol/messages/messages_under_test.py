"""Every message class that `kcli.protocol.messages` declares, and each of its versions."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any

import kcli.protocol.messages
from kcli.protocol.schema.declaration import message_info


def _messages() -> list[type[Any]]:
    found = []
    for module in pkgutil.iter_modules(kcli.protocol.messages.__path__):
        classes = vars(import_module(f"kcli.protocol.messages.{module.name}"))
        api = module.name.title().replace("_", "")
        found += [classes[f"{api}Request"], classes[f"{api}Response"]]
    return found


MESSAGES = _messages()

VERSIONS = [
    (message, version)
    for message in MESSAGES
    for version in range(message_info(message).min_version, message_info(message).max_version + 1)
]


def version_id(value: object) -> str:
    return value.__name__ if isinstance(value, type) else f"v{value}"
