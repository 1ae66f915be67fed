"""`RequestRecord`: everything that the pipeline knows of one request, whatever transport it came by."""

from __future__ import annotations

from typing import Final

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.apiserver.authentication.user import ANONYMOUS, UserInfo
from cathedra.apiserver.pipeline.flowcontrol import Classification, Seat
from cathedra.apiserver.requestinfo import RequestInfo

_WRITES: Final = frozenset({"create", "update", "patch", "delete"})
_SHOWN: Final = {"get": "GET", "list": "LIST", "watch": "WATCH", "deletecollection": "DELETECOLLECTION"}
_METHODS: Final = {"HEAD": "GET"} | {method: method for method in ("GET", "POST", "PUT", "PATCH", "DELETE")}
_OTHER: Final = "other"
"""The label of every other method, as in Kubernetes: clients can invent any number of them."""
_UNCLASSIFIED: Final = Classification(None)
_NO_SEAT: Final = Seat()


class RequestRecord(msgspec.Struct):
    """One request, and the results of the steps that it has taken.

    The transport sets what it reads (the first part), the steps of the pipeline the rest.
    """

    info: RequestInfo
    query: bytes
    audit_id: str
    began: float
    """Seconds of the monotonic clock."""
    user_agent: str = ""
    source: str = ""
    """The address of the client, if it has one."""
    content_type: str = ""
    request_body: bytes = b""
    """As far as it was read; for audit."""
    timeout: str = ""
    """The ``timeout`` parameter, as a Go duration."""
    field_selector: str = ""
    label_selector: str = ""
    """Selectors of a list, watch or deletion of a collection; the authorizer may depend on them."""
    resource_version: str = ""
    """The revision that a read names."""
    upgrades: bool = False
    """True if the request leaves HTTP: it cannot be carried out twice."""

    user: UserInfo | None = None
    """The authenticated user; None before authentication."""
    impersonated: UserInfo | None = None
    acting: UserInfo = ANONYMOUS
    """The user on whose behalf it is carried out: ``impersonated``, or else ``user``."""
    classification: Classification = _UNCLASSIFIED
    """Its flow and priority level."""
    seat: Seat = _NO_SEAT
    """The seat of a watch, which is released when its first events are sent."""
    trusted: bool = False
    """True if the authorizer allows ``acting`` everything, so that it need not be called."""
    allowed: bool | None = None
    """The decision of authorization; None before it."""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    """Annotations of the audit event, from authorization and admission."""
    warnings: list[str] = msgspec.field(default_factory=list)
    """Texts for ``Warning`` headers, in order; appended while the request is carried out."""
    created_name: str = ""
    """The name of a created object, which the path does not have."""
    status: int = 0
    """The status of the answer; 0 before it has begun."""
    response_body: bytes = b""
    response_size: int = 0
    """Bytes of a list that was sent in one piece."""
    counted_as: tuple[str, ...] = ()
    """The labels under which a long-running request began."""

    def labels(self) -> tuple[str, ...]:
        """Return verb, group, version, resource, sub-resource and scope, as metrics have them.

        The verb is one of a few. The rest is what the request names, whether that is served or not.
        """
        # A long-running request ends under the labels that it began with: its resource may be gone by then.
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
        """Return the object of the request, as audit events have it."""
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
