"""SchemaRegistry: schemas from a registry with Confluent's HTTP interface.

`KCLI_SCHEMA_REGISTRY_AUTH=USER:PASSWORD` gives the credentials wherever tasks run: the address is stored in
plans and appears in errors.
"""

from __future__ import annotations

import base64
import json
import os
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from kcli.errors import KcliError, UsageError

REGISTRY = "registry:"
ENVIRONMENT_VARIABLE = "KCLI_SCHEMA_REGISTRY_AUTH"
_TIMEOUT_SECONDS = 10.0
_NOT_FOUND = 404


class UnknownSchema(KcliError):
    """The registry has no such schema."""


class SchemaRegistry:
    """A registry, which is asked for a schema when it is first needed."""

    def __init__(self, address: str) -> None:
        if "@" in address:
            raise UsageError(
                "user and password do not belong into the address of a schema registry",
                hint=f"they are read from the environment: {ENVIRONMENT_VARIABLE}=USER:PASSWORD",
            )
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"not the address of a schema registry: {address}", hint="as in: registry:http://HOST:8081"
            )
        self.address = address.rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        user = os.environ.get(ENVIRONMENT_VARIABLE)
        if user:
            self._headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()

    def schema(self, number: int) -> str:
        """Return the Avro schema with an id; raises `UnknownSchema`, and `KcliError` without a response."""
        return self._avro(f"schemas/ids/{number}", f"schema {number}")

    def latest(self, subject: str) -> str:
        """Return the latest Avro schema of a subject; raises `KcliError`."""
        return self._avro(f"subjects/{quote(subject, safe='')}/versions/latest", f"subject `{subject}`")

    def _avro(self, path: str, what: str) -> str:
        answer = self._get(path, what)
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise KcliError(f"{what} of the registry at {self.address} is not Avro: {kind}")
        if answer.get("references"):
            raise KcliError(f"{what} of the registry at {self.address} refers to other schemas")
        return str(answer["schema"])

    def _get(self, path: str, what: str) -> dict[str, Any]:
        # Only http and https get here.
        request = Request(f"{self.address}/{path}", headers=self._headers)
        try:
            with urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
                answer: dict[str, Any] = json.load(response)
        except HTTPError as error:
            error.close()
            if error.code == _NOT_FOUND:
                raise UnknownSchema(f"the registry at {self.address} has no {what}") from error
            raise KcliError(f"the registry at {self.address} answers {error.code} {error.reason}") from error
        except (URLError, OSError) as error:
            raise KcliError(
                f"cannot reach the schema registry at {self.address}: {getattr(error, 'reason', error)}"
            ) from error
        except ValueError as error:
            raise KcliError(f"the registry at {self.address} does not answer in JSON") from error
        if not isinstance(answer, dict) or "schema" not in answer:
            raise KcliError(f"the registry at {self.address} gives no schema for {what}")
        return answer
