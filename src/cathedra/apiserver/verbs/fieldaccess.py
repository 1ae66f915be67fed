"""Permissions of a request's user that decide on single fields, for validation."""

from __future__ import annotations

from typing import Final

import msgspec

from cathedra.api.formats import dns_subdomain
from cathedra.apiserver.authorization.authorizer import Attributes, Authorizer, refusal
from cathedra.apiserver.request import Call

__all__ = ["CallAccess"]

NODE_NAME: Final = "authentication.kubernetes.io/node-name"
"""Extra of a service account's user: the node whose pod shows the token."""


class CallAccess(msgspec.Struct, frozen=True):
    """A `cathedra.kinds.definition.FieldAccess` bound to one call."""

    authorizer: Authorizer
    call: Call

    @property
    def verb(self) -> str:
        """The verb of the call."""
        return self.call.verb

    @property
    def node(self) -> str:
        """The one node that a service account's token is bound to, or ""."""
        user = self.call.user
        if not user.name.startswith("system:serviceaccount:"):
            return ""
        nodes = user.extra.get(NODE_NAME, ())
        return nodes[0] if len(nodes) == 1 and not dns_subdomain(nodes[0]) else ""

    def refusal(self, subresource: str, verb: str, *, namespace: str = "", name: str = "") -> str:
        """Why the user may not do that; "" if it may."""
        call = self.call
        attributes = Attributes(
            call.user,
            verb,
            call.definition.group,
            call.version.name,
            call.definition.plural,
            subresource,
            namespace=namespace,
            name=name,
        )
        decision = self.authorizer.authorize(attributes)
        return "" if decision.allowed else refusal(attributes, decision).status.message
