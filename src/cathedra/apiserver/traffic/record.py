"""One request and what became of it, in the words of metrics and audit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.requestinfo import Target, parse_path

__all__ = ["RequestRecord"]

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_CONNECTED: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})


@dataclass(slots=True)
class RequestRecord:
    """Made when a request comes, filled while it is answered."""

    method: str
    path: str
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
    created_name: str = ""
    """The name of what was created, which the path does not have."""
    annotations: dict[str, str] = field(default_factory=dict)
    """What authorization and admission say of it."""

    @property
    def target(self) -> Target | None:
        """The resource that the path names, if any."""
        return parse_path(self.path)

    @property
    def watching(self) -> bool:
        """Whether it follows changes."""
        return self.method == "GET" and (b"watch=true" in self.query or b"watch=1" in self.query)

    @property
    def connecting(self) -> bool:
        """Whether it is passed on to a node or a pod."""
        target = self.target
        return target is not None and target.subresource in _CONNECTED

    @property
    def long_running(self) -> bool:
        """Whether its duration is the client's wish, not the server's work."""
        return self.watching or self.connecting

    @property
    def verb(self) -> str:
        """In the words of authorization: get, list, watch, create …; the method in lower case outside resources."""
        target = self.target
        if target is None:
            return self.method.lower()
        if self.method in {"GET", "HEAD"}:
            if target.name and not target.watch:
                return "get"
            return "watch" if target.watch or self.watching else "list"
        if self.method == "DELETE" and not target.name:
            return "deletecollection"
        return _VERBS.get(self.method, self.method.lower())

    def labels(self) -> tuple[str, ...]:
        """Verb, group, version, resource, sub-resource and scope, as metrics have them."""
        target = self.target
        if target is None:
            return self.method, "", "", "", "", ""
        verb = self.verb
        if self.connecting:
            shown = "CONNECT"
        elif verb in {"create", "update", "patch", "delete"}:
            shown = "APPLY" if "apply-patch" in self.content_type else self.method
        else:
            shown = verb.upper()
        scope = "resource" if target.name else "namespace" if target.namespace else "cluster"
        return shown, target.group, target.version, target.resource, target.subresource, scope

    def object_ref(self) -> dict[str, Any]:
        """The object it is about, as audit events have it."""
        target = self.target
        if target is None:
            return {}
        found = {
            "resource": target.resource,
            "namespace": target.namespace,
            "name": target.name or self.created_name,
            "apiGroup": target.group,
            "apiVersion": target.version,
            "subresource": target.subresource,
        }
        return {key: value for key, value in found.items() if value}
