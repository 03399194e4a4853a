"""What nodes are told of the metadata: all of it, in order, later if they cannot hear."""

from __future__ import annotations

from dataclasses import replace

from kcli.broker.metadata.metadata_image import EMPTY_IMAGE, MetadataDelta, MetadataImage
from kcli.broker.metadata.metadata_publisher import MetadataPublisher


class Listener:
    """A node that remembers what it was told."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.image = EMPTY_IMAGE
        self.told: list[tuple[int, frozenset[str]]] = []

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        self.told.append((image.offset, delta.changed_features))


class Told:
    """A publisher to two nodes, of which some are deaf; every image sets a feature of its own."""

    def __init__(self) -> None:
        self.deaf: set[int] = set()
        self.failed: list[tuple[int, str]] = []
        self.publisher = MetadataPublisher(
            is_reachable=lambda node_id: node_id not in self.deaf,
            failed=lambda node_id, error: self.failed.append((node_id, str(error))),
        )
        self.one, self.two = Listener(1), Listener(2)
        self.publisher.add(self.one)
        self.publisher.add(self.two)

    def change(self) -> None:
        image = self.publisher.latest
        offset = image.offset + 1
        features = {**image.features, f"f{offset}": 1}
        delta = MetadataDelta(changed_features=frozenset({f"f{offset}"}))
        self.publisher.publish(replace(image, features=features, offset=offset), delta)


def test_everyone_is_told_every_change_in_order() -> None:
    told = Told()
    told.change()
    told.change()
    assert told.one.told == told.two.told == [(0, frozenset({"f0"})), (1, frozenset({"f1"}))]


def test_who_could_not_hear_gets_one_delta_with_the_next_change() -> None:
    told = Told()
    told.deaf = {2}
    told.change()
    told.change()
    told.deaf = set()
    told.change()
    assert told.one.told[-1] == (2, frozenset({"f2"}))
    assert told.two.told == [(2, frozenset({"f0", "f1", "f2"}))]


def test_who_hears_again_catches_up_without_a_change() -> None:
    told = Told()
    told.deaf = {2}
    told.change()
    told.publisher.catch_up()
    assert told.two.told == []
    told.deaf = set()
    told.publisher.catch_up()
    told.publisher.catch_up()
    assert told.two.told == [(0, frozenset({"f0"}))]
    assert len(told.one.told) == 1


def test_a_change_made_while_one_is_told_is_told_after_it_to_all() -> None:
    told = Told()
    plain = told.one.apply

    def apply(delta: MetadataDelta, image: MetadataImage) -> None:
        plain(delta, image)
        if image.offset == 0:
            told.change()

    told.one.apply = apply  # type: ignore[method-assign]
    told.change()
    assert told.two.told == [(0, frozenset({"f0"})), (1, frozenset({"f1"}))]
    assert told.one.told == told.two.told


def test_a_node_that_cannot_take_it_over_fails_alone() -> None:
    told = Told()

    def fail(delta: MetadataDelta, image: MetadataImage) -> None:
        raise ValueError("a bug")

    told.one.apply = fail  # type: ignore[method-assign]
    told.change()
    assert told.failed == [(1, "a bug")]
    assert told.two.told == [(0, frozenset({"f0"}))]


def test_a_node_that_was_removed_hears_nothing_more() -> None:
    told = Told()
    told.publisher.remove(2)
    told.publisher.remove(2)
    told.change()
    assert told.two.told == []
