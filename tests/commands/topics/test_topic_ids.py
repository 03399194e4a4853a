"""The texts of topic ids."""

from __future__ import annotations

import pytest

from kcli.commands.topics.names import parse_topic_id
from kcli.errors import UsageError
from kcli.protocol.uuids import uuid_to_text


@pytest.mark.parametrize("value", [bytes(16), bytes(range(16)), b"\xff" * 16, b"\xfb" * 16])
@pytest.mark.parametrize("padding", ["", "=="])
def test_an_id(value: bytes, padding: str) -> None:
    assert parse_topic_id(uuid_to_text(value) + padding) == value


@pytest.mark.parametrize(
    "text",
    ["", "foo", "AAAA", "A" * 21, "A" * 23, "A" * 21 + "+", "A" * 21 + "é", "A" * 22 + "=", "A" * 22 + "\n"],
)
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_topic_id(text)
    assert caught.value.message == f"`--topic-id` needs a topic's id: {text or chr(39) * 2}"
    assert caught.value.exit_code == 2
    assert caught.value.hint == "22 letters, digits, - and _, as `kcli topics describe TOPIC` shows it"
