"""Tables and figures that tests have to show: printed behind the run, whichever process the test ran in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

TABLES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TABLES] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    # A process that runs tests beside others has no terminal of its own.
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["tables"] = session.config.stash[TABLES]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    node.config.stash[TABLES].extend(getattr(node, "workeroutput", {}).get("tables", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for table in config.stash[TABLES]:
        terminalreporter.write_line("")
        terminalreporter.write_line(table)


@pytest.fixture
def show(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Print a table after the test run, whether or not output is captured."""
    return request.config.stash[TABLES].append
