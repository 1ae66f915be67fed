"""Dispatch of POST requests on sub-resources: binding, eviction, token.

Admission gets the posted object (a Binding, an Eviction). The change of the pod that follows is the server's own, and
no plugin is called for it.

`is_compared` distinguishes writes that depend on the named object alone. A server on a shared store learns of other
servers' writes with a delay. Such a write is compared with the state that it was made from, which detects an older
state. All other writes need the latest state before they begin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from cathedra.api.core.authentication_v1 import TokenRequest
from cathedra.api.scheme import GroupResource
from cathedra.api.status import failure
from cathedra.api.struct import KubeStruct
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionChain
from cathedra.apiserver.request import Call, CallAnswer
from cathedra.apiserver.routes import PODS
from cathedra.apiserver.subresources.binding import bind
from cathedra.apiserver.subresources.eviction import evict
from cathedra.apiserver.subresources.reviews import REVIEWS
from cathedra.apiserver.subresources.token import issue_token, with_defaults
from cathedra.apiserver.verbs.context import ServerContext

_SERVICE_ACCOUNTS: Final = GroupResource("", "serviceaccounts")


async def connect_create(server: ServerContext, call: Call, obj: Any) -> CallAnswer:
    """Carry out a POST on a sub-resource.

    Raises:
        StatusError: 404, there is no such sub-resource; or it was refused.
    """
    handler = _HANDLERS.get((call.definition.group_resource, call.subresource))
    if handler is None:
        raise failure(404, "NotFound", "the server could not find the requested resource")
    if isinstance(obj, TokenRequest):
        obj = with_defaults(obj)
    called = server.admission.called(call, "CREATE")
    if called.admitting:
        obj = await server.admission.admit(AdmissionAttributes(call, "CREATE", obj, None), called)
    if called.validating:
        await server.admission.validate(AdmissionAttributes(call, "CREATE", obj, None), called)
    # The posted object was admitted; the update of the pod that it causes must not be refused by the same plugins.
    inner = msgspec.structs.replace(server, admission=_EMPTY_CHAIN)
    return CallAnswer(call, 201, value=await handler(inner, call, obj))


async def _issue_token(server: ServerContext, call: Call, obj: TokenRequest) -> TokenRequest:
    return issue_token(server, call, obj)


_HANDLERS: Final[Mapping[tuple[GroupResource, str], Callable[[ServerContext, Call, Any], Awaitable[KubeStruct]]]] = {
    (PODS, "binding"): bind,
    (PODS, "eviction"): evict,
    (_SERVICE_ACCOUNTS, "token"): _issue_token,
}


_EMPTY_CHAIN: Final = AdmissionChain(())


# --- writes that depend on one object alone -------------------------------------------------------------------------


_BY_OTHER_OBJECTS: Final = frozenset({"eviction", "token"})
"""Sub-resources that depend on another object: a disruption budget, a service account's signing key."""


def is_compared(verb: str, resource: GroupResource, subresource: str = "") -> bool:
    """Return True if a write changes the named object, and does not depend on any other one."""
    return verb != "deletecollection" and subresource not in _BY_OTHER_OBJECTS and resource not in REVIEWS
