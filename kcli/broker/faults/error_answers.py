"""The answer to a request of any API that says nothing but an error, at the level where clients look for it.

The API's own error response is the base: it has a row for everything that was asked for. What it cannot
know is that the error was chosen, not met, so a few are put right here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.fetch import FetchResponse
from kcli.protocol.schema.declaration import response_class
from kcli.protocol.schema.fields import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.broker.api import Api
    from kcli.protocol.messages.metadata import MetadataResponse

_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


def error_answer(api: Api, version: int, *, request: object, code: ErrorCode, why: str) -> Any | None:  # noqa: ANN401 - the response
    """Return the response that says `code` to everything in a request, None where there is none to give."""
    error = KafkaError(code, why)
    response = _blank(response_class(api.key)) if api.failed is None else api.failed(request, error)
    if response is None:
        return None
    if isinstance(response, FetchResponse) and response.responses and code not in _SESSION_ERRORS:
        # An error of the whole response has clients look at no partition's.
        response.error_code = ErrorCode.NONE
    holders = list(_holders(response, version))
    if all(holder.error_code != code for holder in holders):
        # The handler would not say this error; whoever chose it wants it said.
        for holder in holders:
            holder.error_code = code
    return response


def with_topic_errors(
    response: MetadataResponse, code: ErrorCode, concerns: Callable[[str], bool]
) -> MetadataResponse:
    """Put an error on the topics of a metadata answer that `concerns` picks.

    An answer without brokers would not be believed by any client, so this is a true one but for its topics.
    """
    for topic in response.topics:
        if concerns(topic.name or ""):
            topic.error_code = code
            topic.partitions = []
    return response


def _blank(response: type[Any]) -> Any:  # noqa: ANN401 - an object of it
    return response(**{field.name: field.make_default() for field in fields_of(response)})


def _holders(value: Any, version: int) -> Iterator[Any]:  # noqa: ANN401 - any struct
    """Yield every struct in a response that has an error code; forget what the version has no field for."""
    for field in fields_of(type(value)):
        content = getattr(value, field.name)
        if version not in field.versions:
            setattr(value, field.name, field.make_default())
        elif field.name == "error_code":
            yield value
        elif field.struct is not None and content is not None:
            for each in content if field.is_array else (content,):
                yield from _holders(each, version)
