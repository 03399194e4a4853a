"""EngineLayers: what stands between a node's connections and its `RequestEngine`.

Faults, quotas and measurements each put an engine of their own before it, but only as long as they have
something to do: without them a request costs nothing more.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.request_engine import Engine, RequestEngine


class Layer(IntEnum):
    """What may stand before the engine; the lower stand nearer to it."""

    FAULTS = 0
    QUOTAS = 1
    TIMES = 2


class EngineLayers:
    """The layers of one node; `use` is told what connections feed from now on."""

    def __init__(self, engine: RequestEngine, use: Callable[[Engine], None]) -> None:
        self._engine = engine
        self._use = use
        self._layers: dict[Layer, Callable[[Engine], Engine]] = {}
        self.outermost: Engine = engine
        """What connections feed."""

    def put(self, layer: Layer, make: Callable[[Engine], Engine] | None) -> None:
        """Have what `make` returns for the engine behind it be a layer; None takes the layer away.

        It is made anew whenever a layer comes or goes, so what it remembers has to lie elsewhere.
        """
        if make is None:
            self._layers.pop(layer, None)
        else:
            self._layers[layer] = make
        engine: Engine = self._engine
        for each in sorted(self._layers):
            engine = self._layers[each](engine)
        self.outermost = engine
        self._use(engine)
