"""Who may change which part of a claim's status: allocation and reservations, and each driver's device status (spec:
api.md, B.1; KEP-4817).

The permissions are on sub-resources that do not exist, ``resourceclaims/binding`` and ``resourceclaims/driver``. A
refusal is an error of the field, not of the request: it is found when the new status is validated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cathedra.api.field import ErrorList
from cathedra.api.formats import dns_subdomain
from cathedra.api.resource import AllocatedDeviceStatus, AllocationResult, ResourceClaim
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import Attributes, Authorizer, refusal
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs.context import ServerContext

__all__ = ["CLAIMS", "claim_status_errors"]

CLAIMS: Final = GroupResource("resource.k8s.io", "resourceclaims")
NODE_NAME: Final = "authentication.kubernetes.io/node-name"
"""Extra of a service account's user: the node whose pod shows the token."""
_GATE: Final = "DRAResourceClaimGranularStatusAuthorization"


def claim_status_errors(server: ServerContext, call: Call, new: ResourceClaim, old: ResourceClaim) -> ErrorList:
    """What the caller may not change in a claim's status; nothing for any other write."""
    errors = ErrorList()
    if call.subresource != "status" or call.resource != CLAIMS or not server.gates.get(_GATE, False):
        return errors
    if new.status.allocation != old.status.allocation or new.status.reserved_for != old.status.reserved_for:
        _check_binding(errors, server.authorizer, call)
    if new.status.allocation is not None and server.gates.get("DRAResourceClaimDeviceStatus", False):
        for driver in _drivers_changed(new.status.devices, old.status.devices):
            _check_driver(errors, server.authorizer, call, driver, new.status.allocation)
    return errors


def _check_binding(errors: ErrorList, authorizer: Authorizer, call: Call) -> None:
    asked = Attributes(call.user, call.verb, CLAIMS.group, call.version.name, CLAIMS.resource, "binding")
    refused = _refused(authorizer, asked)
    if refused is not None:
        errors.forbidden(
            "status.allocation",
            'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
            f'verb="{call.verb}" permission: {refused.status.message}',
        )


def _check_driver(
    errors: ErrorList, authorizer: Authorizer, call: Call, driver: str, allocation: AllocationResult
) -> None:
    verbs = [f"arbitrary-node:{call.verb}"]
    node = _node_of(call.user)
    if node and node == _only_node(allocation):
        verbs.insert(0, f"associated-node:{call.verb}")
    first: StatusError | None = None
    for verb in verbs:
        asked = Attributes(
            call.user,
            verb,
            CLAIMS.group,
            call.version.name,
            CLAIMS.resource,
            "driver",
            namespace=call.namespace,
            name=driver,
        )
        refused = _refused(authorizer, asked)
        if refused is None:
            return
        first = first or refused
    assert first is not None, "there is at least one verb"
    errors.forbidden(
        "status.devices",
        f'changing status.devices requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" '
        f"permission: {first.status.message}",
    )


def _refused(authorizer: Authorizer, asked: Attributes) -> StatusError | None:
    decision = authorizer.authorize(asked)
    return None if decision.allowed else refusal(asked, decision)


def _drivers_changed(new: Iterable[AllocatedDeviceStatus], old: Iterable[AllocatedDeviceStatus]) -> list[str]:
    """The drivers, sorted, of whose entries some were added, changed or removed; their order does not matter."""
    before, after = ({_key(entry): entry for entry in entries} for entries in (old, new))
    return sorted({key[0] for key in before.keys() | after.keys() if before.get(key) != after.get(key)})


def _key(entry: AllocatedDeviceStatus) -> tuple[str, str, str, str | None]:
    return entry.driver, entry.pool, entry.device, entry.share_id


def _node_of(user: UserInfo) -> str:
    """The one node that a service account's token is bound to, or ""."""
    if not user.name.startswith("system:serviceaccount:"):
        return ""
    nodes = user.extra.get(NODE_NAME, ())
    return nodes[0] if len(nodes) == 1 and not dns_subdomain(nodes[0]) else ""


def _only_node(allocation: AllocationResult) -> str:
    """The node that an allocation is on, if its selector says exactly that; else ""."""
    selector = allocation.node_selector
    if selector is None or len(selector.node_selector_terms) != 1:
        return ""
    term = selector.node_selector_terms[0]
    if term.match_expressions or len(term.match_fields) != 1:
        return ""
    field = term.match_fields[0]
    if field.key != "metadata.name" or field.operator != "In" or len(field.values) != 1:
        return ""
    return field.values[0]
