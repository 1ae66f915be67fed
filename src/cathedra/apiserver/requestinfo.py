"""The operation of a request, parsed once from method, path and query (docs/spec/apimachinery.md §1).

Authorization, routing, admission, metrics, audit and flow control read the same `RequestInfo`. None of them parses
the URL again, so they cannot take one request for two different ones.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import force_setattr

from cathedra.remembering import remembered

_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
_VERBS: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
STREAMED: Final = frozenset(
    ("", resource, subresource)
    for resource, subresources in {
        "pods": ("attach", "exec", "log", "portforward", "proxy"),
        "nodes": ("proxy",),
        "services": ("proxy",),
    }.items()
    for subresource in subresources
)
"""Sub-resources whose requests are passed on to a node or a pod."""
_CACHED_LENGTH: Final = 512
"""Longer paths are not cached: clients could fill the cache with megabytes."""


class RequestInfo(msgspec.Struct, frozen=True):
    """A request on a resource, or on a path that names none (``is_resource`` is then false)."""

    method: str
    """The HTTP method, in upper case."""
    path: str
    verb: str
    """A verb of authorization: get, list, watch, create, update, patch, delete, deletecollection. "" for a method
    that means none of them on a resource; outside resources, the method in lower case."""
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    """The plural of the resource."""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """The path behind the sub-resource, as in ``proxy/metrics``."""
    below_namespace: bool = False
    """True if ``namespaces/NAME/`` stands before the resource."""
    watch_path: bool = False
    """True if the path has the old form ``/watch/``."""
    connecting: bool = False
    """True if it is passed on to a node or a pod. This and the following fields are derived from the others once,
    because each request needs them ten times."""
    long_running: bool = False
    """True if the client decides how long it takes: such a request holds no seat and has no deadline."""
    reads: bool = False
    """True if its method changes nothing."""
    scope: str = ""
    """``resource``, ``namespace`` or ``cluster``, as metrics have it; "" outside resources."""
    resource_labels: tuple[str, ...] = ()
    """Group, version, resource, sub-resource and scope, as metrics have them."""

    def __post_init__(self) -> None:
        connecting = bool(self.subresource) and (self.group, self.resource, self.subresource) in STREAMED
        force_setattr(self, "connecting", connecting)
        force_setattr(self, "long_running", connecting or self.verb == "watch")
        force_setattr(self, "reads", self.method in {"GET", "HEAD"})
        if self.is_resource:
            force_setattr(self, "scope", "resource" if self.name else "namespace" if self.namespace else "cluster")
        resource_labels = (self.group, self.version, self.resource, self.subresource, self.scope)
        force_setattr(self, "resource_labels", resource_labels)

    def addresses(self, *, namespaced: bool) -> bool:
        """Return True if the path has the parts that the objects of the resource have, and no more. Behind ``proxy``
        anything may follow."""
        further = self.rest and not (self.connecting and self.subresource == "proxy")
        if further or (self.watch_path and self.subresource):
            return False
        if not namespaced:
            return not self.below_namespace
        return bool(self.namespace) if self.below_namespace else not self.name


def request_info(method: str, path: str, *, watch: bool = False) -> RequestInfo:
    """Return the operation of a request. ``watch`` is that parameter of its query."""
    if len(path) > _CACHED_LENGTH:
        return _parsed(method, path, watch)
    return _cached(method, path, watch)


def _parsed(method: str, path: str, watch: bool) -> RequestInfo:
    parts = path.strip("/").split("/")
    if len(parts) >= 3 and parts[0] == "api":
        group, version, parts = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(method, path, method.lower())
    watch_path = parts[0] == "watch" and len(parts) > 1
    if watch_path:
        parts = parts[1:]
    namespace, below = "", False
    # ``/api/v1/namespaces/NAME`` is the namespace itself, and has that name and that namespace
    # (``RequestInfoFactory.NewRequestInfo`` of apiserver).
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts, below = parts[2:], True
    name = parts[1] if len(parts) > 1 else ""
    return RequestInfo(
        method=method,
        path=path,
        verb="watch" if watch_path else _verb(method, name, watch),
        is_resource=True,
        group=group,
        version=version,
        namespace=namespace,
        resource=parts[0],
        name=name,
        subresource=parts[2] if len(parts) > 2 else "",
        rest="/".join(parts[3:]),
        below_namespace=below,
        watch_path=watch_path,
    )


_cached = remembered("apiserver.requestinfo.parsed", size=8192)(_parsed)


def _verb(method: str, name: str, watch: bool) -> str:
    verb = _VERBS.get(method, "")
    if name:
        return verb
    if verb == "get":
        return "watch" if watch else "list"
    return "deletecollection" if verb == "delete" else verb
