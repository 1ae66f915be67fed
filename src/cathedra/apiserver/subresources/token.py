"""Token: a credential of a service account for a limited time, optionally bound to a pod, a secret or a node
(docs/spec/apimachinery.md §12)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestStatus
from cathedra.api.core.core_v1 import ServiceAccount
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.field import ErrorList
from cathedra.api.scheme import GroupResource
from cathedra.api.status import bad_request, conflict, invalid, not_found
from cathedra.api.struct import Time, replace
from cathedra.apiserver.authentication.serviceaccounts import ISSUER, SERVICE_ACCOUNTS, Bound
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs.context import ServerContext

DEFAULT_SECONDS: Final = 3600
_LEAST_SECONDS: Final = 600
_MOST_SECONDS: Final = 1 << 32
_KINDS: Final = {("v1", "Pod"): "pod", ("v1", "Secret"): "secret", ("v1", "Node"): "node"}


def with_defaults(request: TokenRequest) -> TokenRequest:
    """Return the request with its defaults: a lifetime of an hour, and the API as audience."""
    spec = request.spec
    seconds = DEFAULT_SECONDS if spec.expiration_seconds is None else spec.expiration_seconds
    return replace(request, spec=replace(spec, expiration_seconds=seconds, audiences=spec.audiences or (ISSUER,)))


def issue_token(server: ServerContext, call: Call, request: TokenRequest) -> TokenRequest:
    """Return the request with its token.

    Raises:
        StatusError: 404, there is no such account or bound object; 409, the bound object is another one of that name;
            422, the lifetime is too short or too long.
    """
    seconds = request.spec.expiration_seconds or 0
    errors = ErrorList()
    if seconds < _LEAST_SECONDS:
        errors.invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > _MOST_SECONDS:
        errors.invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    if errors:
        raise invalid("authentication.k8s.io", "TokenRequest", request.metadata.name, errors)
    account: ServiceAccount | None = server.registry.find(SERVICE_ACCOUNTS, f"{call.namespace}/{call.name}")
    if account is None:
        raise not_found(SERVICE_ACCOUNTS, call.name)
    bound = _bound(server, call, request.spec.bound_object_ref)
    metadata = ObjectMeta(name=call.name, namespace=call.namespace, creation_timestamp=Time(server.clock.now()))
    answered = replace(request, metadata=metadata)
    if call.dry_run:
        return answered
    token, expires = server.tokens.issue(account, request.spec.audiences, seconds, bound)
    return replace(answered, status=TokenRequestStatus(token=token, expiration_timestamp=Time(expires)))


def _bound(server: ServerContext, call: Call, wanted: BoundObjectReference | None) -> Bound | None:
    if wanted is None:
        return None
    kind = _KINDS.get((wanted.api_version, wanted.kind))
    if kind is None:
        raise bad_request(f"cannot bind token to object of type {wanted.api_version}, Kind={wanted.kind}")
    resource = GroupResource("", f"{kind}s")
    key = wanted.name if kind == "node" else f"{call.namespace}/{wanted.name}"
    found: Any = server.registry.find(resource, key)
    if found is None:
        raise not_found(resource, wanted.name)
    # Otherwise an account's rights would last as long as any pod.
    if kind == "pod" and (found.spec.service_account_name or "default") != call.name:
        raise bad_request(
            f'cannot bind token for serviceaccount "{call.name}" to pod running with different serviceaccount name.'
        )
    if wanted.uid and wanted.uid != found.metadata.uid:
        raise conflict(
            resource,
            wanted.name,
            f"the UID in the bound object reference ({wanted.uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated",
        )
    node = _node(server, found.spec.node_name) if kind == "pod" else {}
    return Bound(kind, wanted.name, found.metadata.uid, node)


def _node(server: ServerContext, name: str) -> dict[str, str]:
    if not name:
        return {}
    found: Any = server.registry.find(GroupResource("", "nodes"), name)
    return {"name": name, "uid": found.metadata.uid} if found is not None else {"name": name}
