"""Layers: in any order of coming, connections feed the outermost and the others stand behind it."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, cast

import pytest

from kcli.broker.network.request_engine import EngineLayers, Layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.network.request_engine import Engine, RequestEngine


def named(name: str) -> Callable[[Engine], Engine]:
    """Return what makes a layer of its name and that of the engine behind it."""
    return lambda behind: cast("Engine", f"{name} > {behind}")


@pytest.mark.parametrize("order", list(permutations(Layer)))
def test_the_order_of_layers_does_not_depend_on_when_they_came(order: tuple[Layer, ...]) -> None:
    fed: list[object] = []
    layers = EngineLayers(cast("RequestEngine", "engine"), fed.append)
    for layer in order:
        layers.put(layer, named(layer.name))
    assert fed[-1] == "TIMES > QUOTAS > FAULTS > engine"
    for layer in order:
        layers.put(layer, None)
        layers.put(layer, None)
    assert fed[-1] == "engine"


def test_a_layer_that_is_put_again_takes_the_place_of_the_former() -> None:
    fed: list[object] = []
    layers = EngineLayers(cast("RequestEngine", "engine"), fed.append)
    layers.put(Layer.TIMES, named("times"))
    layers.put(Layer.FAULTS, named("a fault"))
    layers.put(Layer.FAULTS, named("two faults"))
    assert fed[-1] == "times > two faults > engine"
