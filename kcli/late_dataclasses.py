"""Dataclasses that cost next to nothing before they are used.

`dataclasses.dataclass` writes and compiles half a dozen methods while a module is imported: 0.6 ms for a
frozen class. Some sixty such classes are imported by the broker and the client, and a start or a command
uses a few of them. The decorator here only makes the slots. A method writes itself when it is first called,
and `__dataclass_fields__` is there when somebody asks, so that functions of the standard library take these
classes for what they are. To type checkers they are its own.

There is what kcli needs: slots in every class, `frozen`, `kw_only`, `eq`, `__post_init__`, and fields with a
default, a factory of defaults, or metadata. No dataclass inherits from another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass, field, fields, replace

__all__ = ["dataclass", "field", "fields", "replace"]


class _Mark:
    """What `field` says of a field."""

    __slots__ = ("words",)

    def __init__(self, words: dict[str, Any]) -> None:
        self.words = words


class _Fields:
    """`__dataclass_fields__`, which the standard library makes of a class like this one if somebody asks."""

    __slots__ = ("_namespace", "_written")

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._written: dict[str, Any] | None = None

    def __get__(self, instance: object, owner: type[Any]) -> dict[str, Any]:
        if self._written is None:
            import dataclasses

            twin: Any = type(owner.__name__, (), {"__doc__": "Fields only.", **self._namespace})
            for name, default in self._namespace.items():
                if isinstance(default, _Mark):
                    setattr(twin, name, dataclasses.field(**default.words))
            decorate = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True)
            self._written = decorate(twin).__dataclass_fields__
        return self._written


if not TYPE_CHECKING:

    def dataclass(
        *, slots: bool, frozen: bool = False, kw_only: bool = False, eq: bool = True
    ) -> Callable[[type[Any]], type[Any]]:
        """Return a decorator that makes a class a dataclass."""
        assert slots
        return lambda cls: _made(cls, frozen=frozen, kw_only=kw_only, eq=eq)

    def field(**words: Any) -> _Mark:  # noqa: ANN401
        """Declare a field by its `default`, or the `default_factory` that makes one, and its `metadata`."""
        return _Mark(words)

    def fields(cls: type[Any]) -> tuple[Any, ...]:
        """Return the fields of a class."""
        from dataclasses import fields

        return fields(cls)

    def replace(value: Any, /, **changes: object) -> Any:  # noqa: ANN401
        """Return a value that differs from another in some fields."""
        for name in value.__slots__:
            if name not in changes:
                changes[name] = getattr(value, name)
        return type(value)(**changes)


def _made(cls: Any, *, frozen: bool, kw_only: bool, eq: bool) -> type[Any]:  # noqa: ANN401
    """Return the class again, with slots and with methods that are yet to be written."""
    annotations: dict[str, str] = cls.__annotations__
    names = tuple(name for name, kind in annotations.items() if not kind.startswith("ClassVar["))
    namespace = dict(cls.__dict__)
    defaults = {name: namespace.pop(name) for name in names if name in namespace}
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    namespace["__slots__"] = names
    namespace["__match_args__"] = () if kw_only else names
    namespace["__dataclass_fields__"] = _Fields(
        {"__annotations__": {name: annotations[name] for name in names}, **defaults}
    )
    namespace.setdefault("__repr__", _repr)
    if frozen:
        namespace["__setattr__"], namespace["__delattr__"] = _refuse_set, _refuse_delete
        namespace["__getstate__"], namespace["__setstate__"] = _get_state, _set_state
    elif eq:
        namespace["__hash__"] = None
    made: type[Any] = type(cls)(cls.__name__, cls.__bases__, namespace)
    _write_later(made, "__init__", lambda: _init(made, defaults, frozen=frozen, kw_only=kw_only))
    if eq:
        _write_later(made, "__eq__", lambda: _eq(made))
        if frozen:
            _write_later(made, "__hash__", lambda: _hash(made))
    return made


def _write_later(cls: type[Any], name: str, write: Callable[[], Callable[..., Any]]) -> None:
    """Give a class a method that makes way for what `write` returns when it is first called."""
    if name in cls.__dict__:
        return

    def method(self: object, *arguments: object, **keywords: object) -> Any:  # noqa: ANN401
        written = write()
        setattr(cls, name, written)
        return written(self, *arguments, **keywords)

    setattr(cls, name, method)


def _init(cls: type[Any], defaults: dict[str, Any], *, frozen: bool, kw_only: bool) -> Callable[..., Any]:
    missing = object()
    names: dict[str, Any] = {"_missing": missing}
    parameters, body = ["self", *(["*"] if kw_only and cls.__slots__ else [])], []
    for name in cls.__slots__:
        value = name
        default = defaults.get(name, missing)
        words = default.words if isinstance(default, _Mark) else {"default": default}
        if "default_factory" in words:
            names[f"_make_{name}"] = words["default_factory"]
            value = f"_make_{name}() if {name} is _missing else {name}"
            parameters.append(f"{name}=_missing")
        elif words.get("default", missing) is missing:
            parameters.append(name)
        else:
            names[f"_default_{name}"] = words["default"]
            parameters.append(f"{name}=_default_{name}")
        if frozen:
            names[f"_set_{name}"] = cls.__dict__[name].__set__
            body.append(f"_set_{name}(self, {value})")
        else:
            body.append(f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    return _compiled(cls, "__init__", ", ".join(parameters), body or ["pass"], names)


def _eq(cls: type[Any]) -> Callable[..., Any]:
    mine, theirs = _tuple_of(cls, "self"), _tuple_of(cls, "other")
    body = [f"return {mine} == {theirs} if other.__class__ is self.__class__ else NotImplemented"]
    return _compiled(cls, "__eq__", "self, other", body, {})


def _hash(cls: type[Any]) -> Callable[..., Any]:
    return _compiled(cls, "__hash__", "self", [f"return hash({_tuple_of(cls, 'self')})"], {})


def _tuple_of(cls: type[Any], variable: str) -> str:
    return f"({''.join(f'{variable}.{name}, ' for name in cls.__slots__)})"


def _compiled(
    cls: type[Any], name: str, parameters: str, body: list[str], names: dict[str, Any]
) -> Callable[..., Any]:
    exec(f"def {name}({parameters}):\n" + "\n".join(f"    {line}" for line in body), names)
    method: Callable[..., Any] = names[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


def _repr(self: Any) -> str:  # noqa: ANN401
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__qualname__}({values})"


def _refuse_set(self: object, name: str, value: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:  # noqa: ANN401
    """Return what `copy` and `pickle` keep: the slots of a frozen object cannot be set one by one."""
    return [getattr(self, name) for name in self.__slots__]


def _set_state(self: object, state: list[Any]) -> None:
    for name, value in zip(type(self).__slots__, state, strict=True):  # type: ignore[attr-defined]
        object.__setattr__(self, name, value)
