"""The tests, a folder for each room of `kcli`; `python -m pytest` runs them all."""
