"""Spreads a service's endpoints over slices, with as few changes as possible (k8s.io/endpointslice, reconciler.go).

An endpoint stays in the slice where it is. What is new fills slices that change anyway, then the slice that it makes
fullest, then new slices. Endpoints with other ports are in slices of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from cathedra.api.core.core_v1 import Service
from cathedra.api.core.discovery_v1 import Endpoint, EndpointPort, EndpointSlice
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.formats import dns_subdomain
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.semantics.owners import controller_reference

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
LONGEST: Final = 100
"""Maximum number of endpoints in a slice."""

_HEADLESS: Final = "service.kubernetes.io/headless"
_RESERVED: Final = frozenset({SERVICE_NAME, MANAGED_BY, _HEADLESS})

Ports: TypeAlias = tuple[EndpointPort, ...]
_Identity: TypeAlias = tuple[object, ...]


class Changes(msgspec.Struct, frozen=True):
    """Slices to create, update and delete."""

    created: Sequence[EndpointSlice] = ()
    updated: Sequence[EndpointSlice] = ()
    deleted: Sequence[EndpointSlice] = ()


class _Draft(msgspec.Struct):
    """The changes of one group, while they are worked out."""

    created: list[EndpointSlice] = msgspec.field(default_factory=list)
    updated: dict[str, EndpointSlice] = msgspec.field(default_factory=dict)
    deleted: list[EndpointSlice] = msgspec.field(default_factory=list)
    unchanged: dict[str, EndpointSlice] = msgspec.field(default_factory=dict)


def distribute(
    service: Service,
    address_type: str,
    wanted: Mapping[Ports, Sequence[Endpoint]],
    existing: Iterable[EndpointSlice],
) -> Changes:
    """Return the writes after which the ``existing`` slices of one address type have the ``wanted``
    endpoints by ports.
    """
    existing = tuple(existing)
    by_ports: dict[frozenset[EndpointPort], list[EndpointSlice]] = {}
    created: list[EndpointSlice] = []
    updated: list[EndpointSlice] = []
    deleted: list[EndpointSlice] = []
    for one in existing:
        if _is_owned(one, service):
            by_ports.setdefault(frozenset(one.ports), []).append(one)
        else:
            deleted.append(one)
    for ports, endpoints in wanted.items():
        empty = _new_slice(service, address_type, ports)
        draft = _of_group(service, empty, endpoints, by_ports.pop(frozenset(ports), []))
        created += draft.created
        updated += draft.updated.values()
        deleted += draft.deleted
    # Ports that the service no longer has.
    deleted += [one for slices in by_ports.values() for one in slices]
    # A service without endpoints keeps one empty slice, so that clients know that it was processed.
    if len(deleted) == len(existing) and not created:
        placeholder = _new_slice(service, address_type, ())
        if len(deleted) == 1 and _is_like(deleted[0], placeholder):
            deleted = []
        else:
            created.append(placeholder)
    return _reused(service, Changes(created, updated, deleted))


def _of_group(
    service: Service, empty: EndpointSlice, endpoints: Sequence[Endpoint], existing: Sequence[EndpointSlice]
) -> _Draft:
    draft = _Draft()
    missing = {_identity(endpoint): endpoint for endpoint in endpoints}
    for one in existing:
        _keep(draft, one, missing, _labels(service))
    # Fullest first: fewer slices remain. These are written anyway, so filling them costs no further write.
    for one in sorted(draft.updated.values(), key=lambda piece: -len(piece.endpoints)):
        draft.updated[one.metadata.name] = _filled(one, missing)
    while missing:
        fullest = _fullest(draft.unchanged.values(), len(missing))
        if fullest is None:
            draft.created.append(_filled(empty, missing))
            continue
        name = fullest.metadata.name
        del draft.unchanged[name]
        draft.updated[name] = _filled(fullest, missing)
    return draft


def _keep(draft: _Draft, one: EndpointSlice, missing: dict[_Identity, Endpoint], labels: Mapping[str, str]) -> None:
    """Remove from ``missing`` the endpoints that the slice has, and note the slice's changes."""
    found = [(known, missing.pop(_identity(known), None)) for known in one.endpoints]
    kept = tuple(endpoint for _, endpoint in found if endpoint is not None)
    name = one.metadata.name
    if len(kept) == len(found) and all(
        endpoint is not None and _says_the_same(known, endpoint) for known, endpoint in found
    ):
        if _own_labels(one.metadata.labels) == _own_labels(labels):
            draft.unchanged[name] = one
        else:
            draft.updated[name] = with_metadata(one, labels=dict(labels))
    elif kept:
        draft.updated[name] = with_metadata(replace(one, endpoints=kept), labels=dict(labels))
    else:
        draft.deleted.append(one)


def _filled(one: EndpointSlice, missing: dict[_Identity, Endpoint]) -> EndpointSlice:
    """The slice with as much of what is missing as it takes."""
    room = LONGEST - len(one.endpoints)
    taken = tuple(missing.pop(identity) for identity in list(missing)[: max(room, 0)])
    return replace(one, endpoints=(*one.endpoints, *taken)) if taken else one


def _fullest(slices: Iterable[EndpointSlice], more: int) -> EndpointSlice | None:
    """Return the slice that has the least room left after ``more`` endpoints, among those with room for all of them."""
    # More than a slice: a new one is filled completely first.
    if more >= LONGEST:
        return None
    roomy = [one for one in slices if len(one.endpoints) + more <= LONGEST]
    return max(roomy, key=lambda one: len(one.endpoints), default=None)


def _reused(service: Service, changes: Changes) -> Changes:
    """Slices that would be deleted become those that would be created."""
    created, updated, deleted = list(changes.created), list(changes.updated), []
    for one in changes.deleted:
        if created and _is_owned(one, service):
            # One update in place of a deletion and a creation: watchers see no gap.
            new = created.pop()
            metadata = replace(one.metadata, labels=new.metadata.labels)
            updated.append(replace(new, metadata=metadata))
        else:
            deleted.append(one)
    return Changes(created, updated, deleted)


def _new_slice(service: Service, address_type: str, ports: Ports) -> EndpointSlice:
    prefix = f"{service.metadata.name}-"
    metadata = ObjectMeta(
        # The suffix may make the name too long or invalid.
        generate_name=service.metadata.name if dns_subdomain(f"{prefix}x") else prefix,
        namespace=service.metadata.namespace,
        labels=_labels(service),
        owner_references=(controller_reference(service),),
    )
    return EndpointSlice(metadata=metadata, address_type=address_type, ports=ports)


def _labels(service: Service) -> dict[str, str]:
    headless = {_HEADLESS: ""} if service.spec.cluster_ip in ("", "None") else {}
    own = _own_labels(service.metadata.labels)
    return {**own, **headless, SERVICE_NAME: service.metadata.name, MANAGED_BY: MANAGER}


def _own_labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key not in _RESERVED}


def _is_owned(one: EndpointSlice, service: Service) -> bool:
    return any(owner.uid == service.metadata.uid and owner.kind == "Service" for owner in one.metadata.owner_references)


def _is_like(one: EndpointSlice, placeholder: EndpointSlice) -> bool:
    return not one.endpoints and not one.ports and one.metadata.labels == placeholder.metadata.labels


def _identity(endpoint: Endpoint) -> _Identity:
    """Return the fields that identify an endpoint."""
    pod = endpoint.target_ref
    return (tuple(sorted(endpoint.addresses)), endpoint.hostname, *((pod.namespace, pod.name) if pod else ()))


def _says_the_same(one: Endpoint, other: Endpoint) -> bool:
    return (one.conditions, one.node_name, one.zone, one.target_ref) == (
        other.conditions,
        other.node_name,
        other.zone,
        other.target_ref,
    )
