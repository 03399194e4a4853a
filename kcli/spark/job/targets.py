"""`open_target`: what a `--to` names, as a target."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from kcli.errors import KcliError, UsageError
from kcli.spark.job.local_target import LocalTarget
from kcli.spark.job.object_target import ObjectTarget

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from kcli.spark.job.target import Target


def open_target(uri: str) -> Target:
    """Return the target of a path, a `file:` URI, or another URI that pyarrow has a file system for."""
    if not uri:
        raise UsageError("the target is empty")
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", uri)
    if scheme is None:
        return LocalTarget(uri)
    try:
        parts = urlsplit(uri)
    except ValueError:
        # Nothing of it is repeated: what cannot be taken apart may hold a password anywhere.
        raise UsageError(f"not a target that can be written to: no `{scheme[1]}` address") from None
    if scheme[1].lower() == "file":
        if parts.netloc not in ("", "localhost"):
            raise UsageError(f"a file on another host: `{uri}`", hint="write file:///path")
        return LocalTarget(unquote(parts.path))
    from pyarrow.fs import FileSystem

    shown = _without_credentials(parts)
    try:
        filesystem, root = FileSystem.from_uri(uri)
    except ValueError as error:
        # Arrow's own words may repeat the URI, and the password in it.
        raise UsageError(f"not a target that can be written to: `{shown}`") from error
    except OSError as error:
        # They do not if there is nothing in it that is not shown.
        reason = str(error).partition("\n")[0] if shown == uri else type(error).__name__
        raise KcliError(f"cannot open `{shown}`: {reason}") from error
    return ObjectTarget(filesystem, root, uri=shown)


def _without_credentials(parts: SplitResult) -> str:
    """Return a URI as it may be shown: no user, no password, no options, which may hold keys."""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
