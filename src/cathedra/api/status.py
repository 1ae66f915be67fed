"""Failures in Kubernetes' own form: a Status with reason, code, details and causes.

`StatusError` is what the API server answers and what the client raises; the same object on both sides of the wire
(docs/spec/apimachinery.md §11).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cathedra.api.core.meta_v1 import Status, StatusCause, StatusDetails
from cathedra.api.field import MAX_TEXT, FieldError, shortened_text
from cathedra.api.goquote import go_quote
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import from_dict, to_dict

MAX_CAUSES: Final = 500
"""Field errors that a Status shows before it counts the rest."""


class StatusError(Exception):
    """An API call failed. ``status`` has the reason in Kubernetes' own terms."""

    status: Status

    def __init__(self, status: Status) -> None:
        self.status = status
        super().__init__(status.message)

    def __reduce__(self) -> tuple[type[StatusError], tuple[Status]]:
        """Create the error again from its status, so that it can be pickled between processes."""
        return StatusError, (self.status,)

    @staticmethod
    def from_json(body: JSONObject) -> StatusError:
        """Return the error of the body of an answer."""
        return StatusError(from_dict(Status, {k: v for k, v in body.items() if v is not None}))

    @property
    def reason(self) -> str:
        """One word, as ``NotFound``."""
        return self.status.reason

    @property
    def code(self) -> int:
        """The HTTP status code."""
        return self.status.code

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """Return the errors by field; empty if the status has none."""
        return self.status.details.causes if self.status.details else ()

    def to_json(self) -> JSONObject:
        """Return the body of the answer."""
        body: JSONObject = {"kind": "Status", "apiVersion": "v1"} | to_dict(self.status)
        return body

    @property
    def is_not_found(self) -> bool:
        """True if the object is not there."""
        return self.reason == "NotFound"

    @property
    def is_conflict(self) -> bool:
        """True if another write came in between."""
        return self.reason == "Conflict"

    @property
    def is_already_exists(self) -> bool:
        """True if an object of that name is there already."""
        return self.reason == "AlreadyExists"

    @property
    def is_namespace_terminating(self) -> bool:
        """True if nothing can be created any more because the namespace is going away."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)

    @property
    def is_expired(self) -> bool:
        """True if the resource version is too old to start from: list again."""
        return self.code == 410


def failure(code: int, reason: str, message: str, details: StatusDetails | None = None) -> StatusError:
    """Return a failure with all its parts."""
    return StatusError(Status(status="Failure", message=message, reason=reason, code=code, details=details))


def _details(resource: GroupResource, name: str, causes: Iterable[StatusCause] = (), retry: int = 0) -> StatusDetails:
    return StatusDetails(
        name=name, group=resource.group, kind=resource.resource, causes=tuple(causes), retry_after_seconds=retry
    )


def not_found(resource: GroupResource, name: str) -> StatusError:
    """Return the error 404: no such object."""
    return failure(404, "NotFound", f"{resource} {go_quote(name)} not found", _details(resource, name))


def already_exists(resource: GroupResource, name: str) -> StatusError:
    """Return the error 409: an object of that name is there."""
    return failure(409, "AlreadyExists", f"{resource} {go_quote(name)} already exists", _details(resource, name))


def conflict(resource: GroupResource, name: str, why: str) -> StatusError:
    """Return the error 409: the object is not in the state that the caller expected."""
    message = f"Operation cannot be fulfilled on {resource} {go_quote(name)}: {why}"
    return failure(409, "Conflict", message, _details(resource, name))


def forbidden(resource: GroupResource, name: str, why: str) -> StatusError:
    """Return the error 403: not allowed, and why."""
    message = f"{resource} {go_quote(name)} is forbidden: {why}" if name else f"{resource} is forbidden: {why}"
    return failure(403, "Forbidden", message, _details(resource, name))


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """Return the error 422: the causes of a failed validation; ``kind`` is the kind, not the resource.

    The answer must not grow faster than the request: at most `MAX_CAUSES` errors are shown, with `MAX_TEXT` characters
    in all. Texts are not made of the others, which are counted.
    """
    # Texts are made one by one until the room is used up: making all of them first would be what the limit prevents.
    causes: list[StatusCause] = []
    room = MAX_TEXT
    for error in errors[:MAX_CAUSES]:
        field, message = shortened_text(str(error.field), room), shortened_text(error.message, room)
        causes.append(StatusCause(reason=error.type.reason, message=message, field=field))
        room -= len(field) + len(message)
        if room <= 0:
            break
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    if len(errors) > len(causes):
        texts.append(f"and {len(errors) - len(causes)} more")
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    shown = f"{kind}.{group}" if group else kind
    details = StatusDetails(name=name, group=group, kind=kind, causes=tuple(causes))
    return failure(422, "Invalid", f"{shown} {go_quote(name)} is invalid: {text}", details)


def bad_request(message: str) -> StatusError:
    """Return the error 400: the request makes no sense."""
    return failure(400, "BadRequest", message)


def unauthorized(message: str = "Unauthorized") -> StatusError:
    """Return the error 401: the user is unknown."""
    return failure(401, "Unauthorized", message)


def expired(message: str) -> StatusError:
    """Return the error 410: the resource version is too old."""
    return failure(410, "Expired", message)


def timeout(message: str, retry_after: int = 0) -> StatusError:
    """Return the error 504: the server gave up waiting."""
    details = StatusDetails(retry_after_seconds=retry_after) if retry_after else None
    return failure(504, "Timeout", message, details)


def too_many_requests(message: str, retry_after: int) -> StatusError:
    """Return the error 429: retry after ``retry_after`` seconds."""
    return failure(429, "TooManyRequests", message, StatusDetails(retry_after_seconds=retry_after))


def internal_error(message: str) -> StatusError:
    """Return a 500: an error of the server itself."""
    causes = (StatusCause(message=message),)
    return failure(500, "InternalError", f"Internal error occurred: {message}", StatusDetails(causes=causes))
