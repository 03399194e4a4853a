"""Single requests that franz-go encodes and sends, and the answers as it decodes them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.support.toolchain import go_program

TIMEOUT_SECONDS = 60


def franz_request(bootstrap: str, key: int, version: int, /, **fields: object) -> dict[str, Any]:
    """Send a request with franz-go's names of its fields; return the fields of the answer."""
    done = subprocess.run(
        [go_program("franz-raw"), bootstrap, str(key), str(version), json.dumps(fields)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout, object_hook=_without_tags)
    return answer


def _without_tags(fields: dict[str, Any]) -> dict[str, Any]:
    # franz-go keeps tags that it does not know to itself: in JSON they are always empty.
    return {name: value for name, value in fields.items() if name != "UnknownTags"}
