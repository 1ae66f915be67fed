"""What every verb works with: the objects, access control, the time. One value, made when the server starts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.field import ErrorList
from cathedra.api.formats import dns_subdomain
from cathedra.api.status import forbidden
from cathedra.api.struct import encode
from cathedra.apiserver.admission.plugin import AdmissionChain
from cathedra.apiserver.authentication.authenticator import StaticTokens
from cathedra.apiserver.authentication.serviceaccounts import ServiceAccountTokens
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import Attributes, Authorizer, HeldRules, refusal
from cathedra.apiserver.computation import VALIDATION_SECONDS, Computations, timed_out
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.request import Call
from cathedra.apiserver.routes import NAMESPACES
from cathedra.clock import Clock
from cathedra.kinds.definition import ExpressionChecker, RequestContext
from cathedra.offload import DeadlineExceeded
from cathedra.releases import FeatureGates

__all__ = ["CallAccess", "ServerContext"]

T = TypeVar("T")
NODE_NAME: Final = "authentication.kubernetes.io/node-name"
"""Extra of a service account's user: the node whose pod shows the token."""


class ServerContext(msgspec.Struct, frozen=True):
    """The server, as far as verbs are concerned."""

    registry: Registry
    admission: AdmissionChain
    authorizer: Authorizer
    gates: FeatureGates
    clock: Clock
    random: random.Random
    tokens: ServiceAccountTokens
    static_tokens: StaticTokens
    rules: Callable[[UserInfo, str], HeldRules]
    """What a user may do in a namespace."""
    computations: Computations
    """Thread in which long computations run."""
    expressions: ExpressionChecker | None = None
    """The compiler of CEL for validation."""

    def table(self, call: Call) -> Table:
        """The objects that the call is about."""
        return self.registry.by_resource[call.definition.stored_as or call.definition.group_resource]

    async def seen(self, call: Call, entries: Sequence[StoredObject]) -> list[StoredObject]:
        """Stored states as the call sees them: in its version, where a webhook converts.

        Raises:
            StatusError: 500, the webhook failed.
        """
        conversion = call.definition.conversion
        return list(entries) if conversion is None else await conversion.seen(entries, call.api_version)

    async def seen_one(self, call: Call, entry: StoredObject) -> StoredObject:
        """One stored state as the call sees it.

        Raises:
            StatusError: 500, the webhook failed.
        """
        if call.definition.conversion is None:
            return entry
        return (await self.seen(call, [entry]))[0]

    async def stored(self, call: Call, obj: KubeObject) -> Any:
        """The object of a call as it is to be stored.

        Raises:
            StatusError: 500, the webhook failed.
        """
        conversion = call.definition.conversion
        return obj if conversion is None else await conversion.stored(obj, call.api_version)

    def strategy_context(self, call: Call) -> RequestContext:
        """What strategies may know."""
        return RequestContext(
            gates=self.gates,
            now=self.clock.now(),
            api_version=call.api_version,
            namespace_labels=partial(self.namespace_labels, call.namespace),
            user=call.user.name,
            groups=call.user.groups,
            uid=call.user.uid,
            extra=call.user.extra,
            expressions=self.expressions,
            access=None if call.trusted else CallAccess(self.authorizer, call),
        )

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace; none if it is not there."""
        found = self.registry.find(NAMESPACES, namespace) if namespace else None
        labels: Mapping[str, str] = found.metadata.labels if found is not None else {}
        return labels

    async def beside_loop(self, call: Call, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, from the thread for long computations."""
        return await self.computations.compute(lambda _: work(), call.user.name)

    async def validated(
        self, call: Call, context: RequestContext, obj: KubeObject, validate: Callable[[RequestContext], ErrorList]
    ) -> ErrorList:
        """The errors of ``obj`` by a strategy whose validation is lengthy.

        Raises:
            StatusError: 504, the validation takes too long.
        """
        allowance = self.computations.allowance(call.user.name, VALIDATION_SECONDS)
        try:
            return await allowance.complete(
                lambda limit: validate(msgspec.structs.replace(context, interrupted=limit)), size=len(encode(obj))
            )
        except DeadlineExceeded:
            raise timed_out() from None

    def authorize(self, call: Call, *, field_selector: str = "", label_selector: str = "") -> None:
        """Let the call pass.

        Raises:
            StatusError: 403, the caller may not do that.
        """
        attributes = call.attributes(field_selector=field_selector, label_selector=label_selector)
        decision = self.authorizer.authorize(attributes)
        if not decision.allowed:
            raise refusal(attributes, decision)

    def authorize_creation(self, call: Call) -> None:
        """Let an update or patch create the object that is not there.

        Raises:
            StatusError: 403, its user may not create it.
        """
        decision = self.authorizer.authorize(call.but(verb="create").attributes())
        if not decision.allowed:
            raise forbidden(call.resource, call.name, decision.reason)


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
