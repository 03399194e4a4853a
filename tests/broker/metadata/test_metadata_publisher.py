"""What nodes are told of the metadata: all of it, in order, later if they cannot hear."""

from __future__ import annotations

from dataclasses import replace

from kcli.broker.metadata.metadata_image import EMPTY_IMAGE, MetadataDelta, MetadataImage
from kcli.broker.metadata.metadata_publisher import MetadataFeeds


class Listener:
    """A node that remembers what it was told."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.image = EMPTY_IMAGE
        self.told: list[tuple[int, frozenset[str]]] = []

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        self.told.append((image.offset, delta.changed_features))


class Feeds:
    """Feeds to two nodes, of which some are deaf; every image sets a feature of its own."""

    def __init__(self) -> None:
        self.deaf: set[int] = set()
        self.failed: list[tuple[int, str]] = []
        self.feeds = MetadataFeeds(
            hears=lambda node_id: node_id not in self.deaf,
            failed=lambda node_id, error: self.failed.append((node_id, str(error))),
        )
        self.one, self.two = Listener(1), Listener(2)
        self.feeds.add(self.one)
        self.feeds.add(self.two)

    def change(self) -> None:
        image = self.feeds.latest
        offset = image.offset + 1
        features = {**image.features, f"f{offset}": 1}
        delta = MetadataDelta(changed_features=frozenset({f"f{offset}"}))
        self.feeds.deliver(replace(image, features=features, offset=offset), delta)


def test_everyone_is_told_every_change_in_order() -> None:
    feeds = Feeds()
    feeds.change()
    feeds.change()
    assert feeds.one.told == feeds.two.told == [(0, frozenset({"f0"})), (1, frozenset({"f1"}))]


def test_who_could_not_hear_gets_one_delta_with_the_next_change() -> None:
    feeds = Feeds()
    feeds.deaf = {2}
    feeds.change()
    feeds.change()
    feeds.deaf = set()
    feeds.change()
    assert feeds.one.told[-1] == (2, frozenset({"f2"}))
    assert feeds.two.told == [(2, frozenset({"f0", "f1", "f2"}))]


def test_who_hears_again_catches_up_without_a_change() -> None:
    feeds = Feeds()
    feeds.deaf = {2}
    feeds.change()
    feeds.feeds.catch_up()
    assert feeds.two.told == []
    feeds.deaf = set()
    feeds.feeds.catch_up()
    feeds.feeds.catch_up()
    assert feeds.two.told == [(0, frozenset({"f0"}))]
    assert len(feeds.one.told) == 1


def test_a_change_made_while_one_is_told_is_told_after_it_to_all() -> None:
    feeds = Feeds()
    plain = feeds.one.apply

    def apply(delta: MetadataDelta, image: MetadataImage) -> None:
        plain(delta, image)
        if image.offset == 0:
            feeds.change()

    feeds.one.apply = apply  # type: ignore[method-assign]
    feeds.change()
    assert feeds.two.told == [(0, frozenset({"f0"})), (1, frozenset({"f1"}))]
    assert feeds.one.told == feeds.two.told


def test_a_node_that_cannot_take_it_over_fails_alone() -> None:
    feeds = Feeds()

    def fail(delta: MetadataDelta, image: MetadataImage) -> None:
        raise ValueError("a bug")

    feeds.one.apply = fail  # type: ignore[method-assign]
    feeds.change()
    assert feeds.failed == [(1, "a bug")]
    assert feeds.two.told == [(0, frozenset({"f0"}))]


def test_a_node_that_was_removed_hears_nothing_more() -> None:
    feeds = Feeds()
    feeds.feeds.remove(2)
    feeds.feeds.remove(2)
    feeds.change()
    assert feeds.two.told == []
