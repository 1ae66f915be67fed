"""One request and what became of it, for metrics and audit."""

from __future__ import annotations

from typing import Final

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.requestinfo import RequestInfo

__all__ = ["RequestRecord"]

_WRITES: Final = frozenset({"create", "update", "patch", "delete"})
_SHOWN: Final = {"get": "GET", "list": "LIST", "watch": "WATCH", "deletecollection": "DELETECOLLECTION"}
_METHODS: Final = {"HEAD": "GET"} | {method: method for method in ("GET", "POST", "PUT", "PATCH", "DELETE")}
_OTHER: Final = "other"
"""What Kubernetes shows for every other method: clients can make up as many as they like."""


class RequestRecord(msgspec.Struct):
    """Made when a request arrives, completed while it is answered.

    What was asked is in ``info``; everything else is about the user and the answer.
    """

    info: RequestInfo
    query: bytes
    audit_id: str
    began: float
    """Seconds of the monotonic clock."""
    user: UserInfo | None = None
    impersonated: UserInfo | None = None
    status: int = 0
    user_agent: str = ""
    source: str = ""
    content_type: str = ""
    request_body: bytes = b""
    response_body: bytes = b""
    allowed: bool | None = None
    """What authorization decided; None before it did."""
    created_name: str = ""
    """The name of what was created, which the path does not have."""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    """What authorization and admission add to the audit event."""
    counted_as: tuple[str, ...] = ()
    """The labels, where they are known already."""

    def labels(self) -> tuple[str, ...]:
        """Verb, group, version, resource, sub-resource and scope, as metrics have them.

        The verb is one of a few. The rest is what the request names, whether that is served or not.
        """
        if self.counted_as:
            return self.counted_as
        info = self.info
        if not info.is_resource:
            shown = _METHODS.get(info.method, _OTHER)
        elif info.connecting:
            shown = "CONNECT"
        elif info.verb in _WRITES:
            shown = "APPLY" if "apply-patch" in self.content_type else info.method
        else:
            shown = _SHOWN.get(info.verb, _OTHER)
        return shown, *info.resource_labels

    def object_ref(self) -> JSONObject:
        """The object it is about, as audit events have it."""
        info = self.info
        if not info.is_resource:
            return {}
        found = {
            "resource": info.resource,
            "namespace": info.namespace,
            "name": info.name or self.created_name,
            "apiGroup": info.group,
            "apiVersion": info.version,
            "subresource": info.subresource,
        }
        return {key: value for key, value in found.items() if value}
