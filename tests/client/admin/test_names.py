"""The names of `kcli.client.admin`, which imports a module when one of its names is first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kcli.client import admin


def test_every_name_is_there() -> None:
    assert sorted(admin._MODULES) == sorted(admin.__all__)
    for name in admin.__all__:
        assert getattr(admin, name) is not None


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'create_groups'"):
        admin.create_groups  # noqa: B018 - reading it is the test


def test_a_name_imports_no_module_but_its_own() -> None:
    code = (
        "import sys; from kcli.client import admin; admin.list_topics; "
        "print(*(name for name in sys.modules if name.startswith('kcli.client.admin.')))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert {*loaded.split()} == {
        "kcli.client.admin.driver",
        "kcli.client.admin.topics",
        "kcli.client.admin.types",
    }
