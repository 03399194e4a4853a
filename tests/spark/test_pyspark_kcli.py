"""The module by which Spark finds the format: in place when installed, and never in the way."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from kcli.spark.datasource.data_source import KcliDataSource

ROOT = Path(__file__).parent.parent.parent


def test_the_default_source_is_the_format_kcli() -> None:
    from kcli.spark.pyspark_kcli import DefaultSource

    assert DefaultSource is KcliDataSource
    assert DefaultSource.name() == "kcli"


def test_it_is_installed_at_the_top_level_and_only_there() -> None:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    assert (ROOT / found["where"][1] / "pyspark_kcli" / "__init__.py").is_file()
    assert "pyspark_kcli" in found["include"]
    assert found["exclude"] == ["kcli.spark.pyspark_kcli"]


def test_without_pyspark_it_imports_and_names_no_source() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import kcli.spark.pyspark_kcli as found\n"
        "assert not hasattr(found, 'DefaultSource')"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
