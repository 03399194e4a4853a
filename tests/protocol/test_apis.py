"""The table of APIs holds what the messages declare."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from kcli.broker.network.apis import APIS as broker_apis
from kcli.protocol import messages
from kcli.protocol.apis import APIS, api_name, named
from kcli.protocol.schema.declaration import message_info


def test_the_versions_of_every_message_are_those_of_the_table() -> None:
    declared = {}
    for module in pkgutil.iter_modules(messages.__path__, f"{messages.__name__}."):
        name = "".join(part.capitalize() for part in module.name.rpartition(".")[2].split("_"))
        for kind in ("Request", "Response"):
            info = message_info(getattr(import_module(module.name), f"{name}{kind}"))
            assert info.name == name
            declared[info.key] = (name, info.min_version, info.max_version)
    assert declared == {key: (api.name, *api.kcli) for key, api in APIS.items() if api.kcli is not None}


def test_the_broker_serves_all_but_what_brokers_ask_each_other() -> None:
    served = {(each.key, each.name, (each.min_version, each.max_version)) for each in broker_apis}
    assert served == {(api.key, api.name, api.kcli) for api in APIS.values() if api.kcli and api.is_served}
    unserved = [api.name for api in APIS.values() if not api.is_served and api.java is None]
    assert unserved == ["AlterPartition"]


def test_every_key_of_kafka_has_a_row_and_names_are_found() -> None:
    assert list(APIS) == list(range(93))
    assert all(api.key == key and named(api.name) is api for key, api in APIS.items())
    assert [api_name(key) for key in (0, 92, 93, -1)] == ["Produce", "DeleteShareGroupOffsets", None, None]


def test_a_usable_version_is_the_highest_in_common() -> None:
    fetch = named("Fetch")
    assert fetch.usable(4, 16) == 16
    assert fetch.usable(12, 99) == 18
    assert fetch.usable(19, 99) is None
    assert named("Vote").usable(0, 2) is None
