"""The dependencies of all verbs: objects, access control, time. One value, made when the server starts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.field import FieldError
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

T = TypeVar("T")
NODE_NAME: Final = "authentication.kubernetes.io/node-name"
"""An extra of the user of a service account: the node whose pod shows the token."""


class ServerContext(msgspec.Struct, frozen=True):
    """The parts of the server that verbs use."""

    registry: Registry
    admission: AdmissionChain
    authorizer: Authorizer
    gates: FeatureGates
    clock: Clock
    random: random.Random
    tokens: ServiceAccountTokens
    static_tokens: StaticTokens
    rules: Callable[[UserInfo, str], HeldRules]
    """Returns the rules that a user holds in a namespace."""
    computations: Computations
    """The thread for long computations."""
    expressions: ExpressionChecker | None = None
    """The checker of CEL expressions, for validation."""

    def table(self, call: Call) -> Table:
        """Return the table of the resource of a call."""
        return self.registry.by_resource[call.definition.table]

    def place(self, call: Call, name: str) -> tuple[Table, str]:
        """Return the table of the resource of a call, and the key of the object of a name there."""
        namespace = call.namespace
        return self.registry.by_resource[call.definition.table], f"{namespace}/{name}" if namespace else name

    def find(self, call: Call) -> StoredObject | None:
        """Return the stored state of the object of a call."""
        table, key = self.place(call, call.name)
        return table.get(key)

    async def seen(self, call: Call, entries: Sequence[StoredObject]) -> list[StoredObject]:
        """Return stored states in the version of a call, where a webhook converts.

        Raises:
            StatusError: 500, the webhook failed.
        """
        conversion = call.definition.conversion
        return list(entries) if conversion is None else await conversion.seen(entries, call.api_version)

    async def seen_one(self, call: Call, entry: StoredObject) -> StoredObject:
        """Return one stored state in the version of a call.

        Raises:
            StatusError: 500, the webhook failed.
        """
        if call.definition.conversion is None:
            return entry
        return (await self.seen(call, [entry]))[0]

    async def stored(self, call: Call, obj: KubeObject) -> Any:
        """Return the object of a call in the version that is stored.

        Raises:
            StatusError: 500, the webhook failed.
        """
        conversion = call.definition.conversion
        return obj if conversion is None else await conversion.stored(obj, call.api_version)

    def strategy_context(self, call: Call) -> RequestContext:
        """Return the context of a call for the strategy of its kind."""
        # None means that every field is permitted: the rules need not call the authorizer.
        access = None if call.trusted else CallAccess(self.authorizer, call)
        # By position: each write makes a context.
        return RequestContext(
            self.gates,
            self.clock.now(),
            call.version.api_version,
            self.namespace_labels,
            call.user,
            self.expressions,
            access,
        )

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; none if it does not exist."""
        found = self.registry.find(NAMESPACES, namespace) if namespace else None
        labels: Mapping[str, str] = found.metadata.labels if found is not None else {}
        return labels

    async def beside_loop(self, call: Call, work: Callable[[], T]) -> T:
        """Return the result of ``work``, computed in the thread for long computations."""
        return await self.computations.compute(lambda _: work(), call.user.name)

    async def validated(
        self,
        call: Call,
        context: RequestContext,
        obj: KubeObject,
        validate: Callable[[RequestContext], Sequence[FieldError]],
    ) -> Sequence[FieldError]:
        """Return the errors of ``obj`` by a strategy whose validation is long.

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
        """Authorize a call.

        Raises:
            StatusError: 403, the caller may not do that.
        """
        attributes = call.attributes(field_selector=field_selector, label_selector=label_selector)
        decision = self.authorizer.authorize(attributes)
        if not decision.allowed:
            raise refusal(attributes, decision)

    def authorize_creation(self, call: Call) -> None:
        """Authorize the creation by an update or patch of an object that does not exist.

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
        """The node to which the token of a service account is bound, or ""."""
        user = self.call.user
        if not user.name.startswith("system:serviceaccount:"):
            return ""
        nodes = user.extra.get(NODE_NAME, ())
        # The extra may come from an impersonated user. A malformed or ambiguous node grants the rights of none.
        return nodes[0] if len(nodes) == 1 and not dns_subdomain(nodes[0]) else ""

    def refusal(self, subresource: str, verb: str, *, namespace: str = "", name: str = "") -> str:
        """Return the refusal of that operation; "" if the user may carry it out."""
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
