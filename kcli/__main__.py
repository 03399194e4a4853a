"""`python -m kcli` is the `kcli` program."""

from __future__ import annotations

from kcli.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
