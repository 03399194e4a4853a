"""The loggers of the process and their levels, as the configuration of a broker (KIP-412).

Levels have Kafka's names: FATAL is Python's CRITICAL, WARN is WARNING, TRACE lies below DEBUG. A change lasts
until the process ends and applies to all of its nodes, which share the loggers (class `LoggingController`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kcli.protocol.configs import ConfigOperation
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kcli.broker.config.config_entries import ConfigChange

ROOT = "root"
_OURS = "kcli"
_AUTHORIZER = "kafka.authorizer.logger"
"""Where the authorizer of a node writes what it denies, under Kafka's name."""
_LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG // 2,
}


def logger_levels() -> dict[str, str]:
    """Return the effective level of each logger of kcli, of the authorizer and of the root, by name."""
    # A copy, since another thread may add a logger meanwhile.
    known = list(logging.root.manager.loggerDict.values())
    loggers = (each for each in known if isinstance(each, logging.Logger))
    names = (each.name for each in loggers)
    ours = sorted(name for name in names if name == _AUTHORIZER or name.partition(".")[0] == _OURS)
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in (*ours, ROOT)}


def alter_loggers(changes: Sequence[ConfigChange], *, validate_only: bool) -> None:
    """Set the levels of all named loggers, or of none. Raises `KafkaError`.

    A logger whose level is deleted has that of its parent.
    """
    known = logger_levels()
    for change in changes:
        _check(change, known)
    if validate_only:
        return
    for change in changes:
        is_set = change.operation == ConfigOperation.SET
        _logger(change.name).setLevel(_LEVELS[change.value or ""] if is_set else logging.NOTSET)


def _check(change: ConfigChange, known: Collection[str]) -> None:
    if change.operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the level of a logger is not a list")
    if change.name not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no logger `{change.name}`")
    if change.operation == ConfigOperation.DELETE and change.name == ROOT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the level of the logger `{ROOT}` cannot be deleted")
    if change.operation == ConfigOperation.SET and change.value not in _LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"`{change.value}` is not a level of `{change.name}`: it must be one of {', '.join(_LEVELS)}",
        )


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_name(level: int) -> str:
    """Return Kafka's name of the highest level that is not above a number."""
    return next((name for name, number in _LEVELS.items() if number <= level), "TRACE")
