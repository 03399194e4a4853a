"""Late dataclasses do what those of the standard library do, only later."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from types import FunctionType
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from kcli import late_dataclasses

T = TypeVar("T")


@late_dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A frozen one."""

    limit: ClassVar[int] = 3

    topic: str
    partition: int = 0
    tags: dict[str, str] = late_dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """A member of its own."""
        return f"{self.topic}-{self.partition}"


@late_dataclasses.dataclass(slots=True)
class Counter:
    """One that changes."""

    count: int = 0


@late_dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One that takes keywords only, in any order of defaults."""

    size: int = 1
    name: str


@late_dataclasses.dataclass(slots=True, eq=False)
class Handle:
    """One that is equal to itself only."""

    number: int


@late_dataclasses.dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """A generic one."""

    value: T


@late_dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One that is checked, with fields of which more is said."""

    number: int = late_dataclasses.field(default=0, metadata={"most": 65535})
    name: str = late_dataclasses.field(metadata={"kind": "text"})

    def __post_init__(self) -> None:
        if self.number > 65535:
            raise TypeError(f"too large: {self.number}")


@late_dataclasses.dataclass(frozen=True, slots=True)
class Empty:
    """One without fields."""


def theirs(cls: type[Any], **words: bool) -> type[Any]:
    """Return a class of the standard library with the same fields."""
    fields = [(each.name, each.type, own_field(each)) for each in dataclasses.fields(cls)]
    own = {name: cls.__dict__[name] for name in ("__post_init__",) if name in cls.__dict__}
    made = dataclasses.make_dataclass(cls.__name__, fields, namespace=own, slots=True, **words)
    made.__qualname__ = cls.__qualname__
    return made


def own_field(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=field.default_factory)
    return dataclasses.field(default=field.default)


CALLS = [
    pytest.param(Place, {"frozen": True}, ("orders",), {}, id="defaults"),
    pytest.param(Place, {"frozen": True}, ("orders", 1), {"tags": {"a": "b"}}, id="positions and names"),
    pytest.param(Place, {"frozen": True}, (), {}, id="a missing argument"),
    pytest.param(Place, {"frozen": True}, ("orders",), {"size": 1}, id="an unknown argument"),
    pytest.param(Counter, {}, (), {}, id="one that changes"),
    pytest.param(Options, {"frozen": True, "kw_only": True}, (), {"name": "a"}, id="keywords"),
    pytest.param(Options, {"frozen": True, "kw_only": True}, (1, "a"), {}, id="positions for keywords"),
    pytest.param(Handle, {"eq": False}, (4,), {}, id="one equal to itself only"),
    pytest.param(Port, {"frozen": True, "kw_only": True}, (), {"name": "a"}, id="one that is checked"),
    pytest.param(
        Port, {"frozen": True, "kw_only": True}, (), {"name": "a", "number": 65536}, id="one that is refused"
    ),
    pytest.param(Empty, {"frozen": True}, (), {}, id="no fields"),
]


def outcome(cls: type[Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> object:
    try:
        made = cls(*arguments, **keywords)
    except TypeError as error:
        return str(error)
    equal = cls(*arguments, **keywords)
    hashable = cls.__hash__ is not None
    return repr(made), made == equal, made != equal, made == repr(made), hashable, cls.__match_args__


@pytest.mark.parametrize(("cls", "words", "arguments", "keywords"), CALLS)
def test_objects_are_as_those_of_the_standard_library(
    cls: type[Any], words: dict[str, bool], arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    assert outcome(cls, arguments, keywords) == outcome(theirs(cls, **words), arguments, keywords)


def test_methods_are_written_when_they_are_first_called() -> None:
    @late_dataclasses.dataclass(frozen=True, slots=True)
    class Pair:
        one: int
        other: int

    def written() -> set[str]:
        names = {"__init__", "__eq__", "__hash__"}
        return {name for name in names if Pair.__dict__[name].__code__.co_filename == "<string>"}

    assert isinstance(Pair.__init__, FunctionType)
    assert written() == set()
    pair = Pair(1, 2)
    assert written() == {"__init__"}
    assert pair == Pair(1, 2)
    assert len({pair, Pair(1, 2), Pair(2, 1)}) == 2
    assert written() == {"__init__", "__eq__", "__hash__"}


def test_defaults_are_made_anew_for_every_object() -> None:
    assert Place("a").tags is not Place("b").tags


def test_objects_have_slots_only() -> None:
    assert not hasattr(Counter(), "__dict__")
    assert Place.limit == Place("a").limit == 3
    assert Place("a", 2).name == "a-2"
    with pytest.raises(AttributeError):
        Counter().other = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["topic", "unknown"])
def test_frozen_objects_do_not_change(name: str) -> None:
    place = Place("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(place, name, "b")
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(place, name)


@pytest.mark.parametrize("replace", [late_dataclasses.replace, dataclasses.replace])
def test_a_value_is_replaced_by_one_that_differs(replace: Any) -> None:
    place = Place("a", 1)
    assert replace(place, partition=2) == Place("a", 2)
    assert place == Place("a", 1)
    with pytest.raises(TypeError):
        replace(place, size=1)


def test_functions_of_the_standard_library_know_them() -> None:
    assert dataclasses.is_dataclass(Place)
    assert [each.name for each in dataclasses.fields(Place)] == ["topic", "partition", "tags"]
    assert [dict(each.metadata) for each in late_dataclasses.fields(Port)] == [
        {"most": 65535},
        {"kind": "text"},
    ]
    assert dataclasses.asdict(Place("a")) == {"topic": "a", "partition": 0, "tags": {}}


@pytest.mark.parametrize("value", [Place("a", 1, {"b": "c"}), Counter(2), Result("x"), Empty()], ids=repr)
def test_objects_are_copied_and_pickled(value: object) -> None:
    for copied in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert copied == value
        assert copied is not value


def test_objects_are_matched_by_position() -> None:
    match Result(Place("a", 1)):
        case Result(Place(topic, partition)):
            assert (topic, partition) == ("a", 1)
        case other:
            raise AssertionError(other)
