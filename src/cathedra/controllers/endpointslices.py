"""The endpoint slice controller: maintains the slices of every service with a selector.

Endpoints follow k8s.io/endpointslice (utils.go). The trigger time of a slice is the time of the oldest change since the
last sync: of a pod that became ready or unready, or of the service itself. If nothing changed, there is none
(k8s.io/endpointslice/util, trigger_time_tracker.go).
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from cathedra.api.core.core_v1 import Node, ObjectReference, Pod, Service
from cathedra.api.core.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.formats import dns_subdomain
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.client.objects import ObjectKey, key_of, with_metadata
from cathedra.client.resources import ENDPOINTSLICES, NODES, PODS, SERVICES
from cathedra.client.store import BY_NAMESPACE, by_namespace
from cathedra.client.workqueue import RetryLater, WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.expectations import Expectations
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.owners import controller_reference
from cathedra.semantics.pods import is_ready
from cathedra.semantics.services import has_hostname_in, is_endpoint, selects_pod, target_port

_WORKERS: Final = 5
_AFTER_SLICES: Final = 1.0
"""Seconds between a change of a slice and the sync of its service, so that several changes are handled by one sync."""
_BY_SERVICE: Final = "service"
_TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"


class EndpointSliceController:
    """Keeps the slices of services with selectors."""

    name = "endpointslice-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._recorder = context.recorder("endpoint-slice-controller")
        self._queue: WorkQueue[ObjectKey] = context.queue()
        self._services = context.informers.of(SERVICES)
        self._pods = context.informers.of(PODS)
        self._nodes = context.informers.of(NODES)
        self._slices = context.informers.of(ENDPOINTSLICES)
        self._expectations: Expectations[ObjectKey] = Expectations(self._slices, context.clock)
        self._times = TriggerTimes()
        self._services.store.add_index(BY_NAMESPACE, by_namespace)
        self._pods.store.add_index(BY_NAMESPACE, by_namespace)
        self._slices.store.add_index(_BY_SERVICE, _name_of_service)
        self._services.add_handler(
            on_add=self._enqueue, on_update=lambda _, new: self._enqueue(new), on_delete=self._enqueue
        )
        self._pods.add_handler(on_add=self._pod_changed, on_update=self._pod_updated, on_delete=self._pod_changed)
        self._slices.add_handler(
            on_add=self._slice_changed, on_update=self._slice_updated, on_delete=self._slice_changed
        )

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        for informer in (self._services, self._pods, self._nodes, self._slices):
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(run_workers(self._queue, self._reconcile, workers=_WORKERS))

    # What happened.

    def _enqueue(self, service: Service) -> None:
        self._queue.add(key_of(service))

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        before, after = old.status, pod.status
        if not (before.pod_ip or after.pod_ip or before.pod_ips or after.pod_ips):
            return  # no endpoint, before and after
        if _seen(old) == _seen(pod):
            return
        if old.metadata.labels != pod.metadata.labels:
            self._pod_changed(old)
        self._pod_changed(pod)

    def _pod_changed(self, pod: Pod) -> None:
        for service in self._services.store.by_index(BY_NAMESPACE, pod.metadata.namespace):
            if selects_pod(service, pod):
                self._enqueue(service)

    def _slice_updated(self, old: EndpointSlice, new: EndpointSlice) -> None:
        self._slice_changed(old)
        self._slice_changed(new)

    def _slice_changed(self, one: EndpointSlice) -> None:
        for key in _service_of(one):
            self._queue.add_after(key, _AFTER_SLICES)

    # What is done.

    async def _reconcile(self, key: ObjectKey) -> float | None:
        service = self._services.store.get(*key)
        if service is None:
            self._expectations.forget(key)
            self._times.forget(key)
            return None
        if not service.spec.selector or service.spec.type == "ExternalName":
            return None
        if not self._expectations.met(key):
            # The event of the last write is still to come, and brings the service here again.
            return 1.0
        try:
            await self._sync(key, service)
        except (StatusError, NodeMissing) as error:
            told = f"Error updating Endpoint Slices for Service {key.namespace}/{key.name}: {error}"
            self._recorder.record(service, "Warning", "FailedToUpdateEndpointSlices", told)
            raise RetryLater(told) from error
        return None

    async def _sync(self, key: ObjectKey, service: Service) -> None:
        in_namespace = self._pods.store.by_index(BY_NAMESPACE, key.namespace)
        pods = sorted((pod for pod in in_namespace if selects_pod(service, pod)), key=lambda pod: pod.metadata.name)
        managed = self._slices.store.by_index(_BY_SERVICE, f"{key.namespace}/{key.name}")
        existing = [one for one in managed if one.metadata.deletion_timestamp is None]
        since = self._times.changed(key, service, pods)
        kinds = address_types(service)
        lost = [pod for pod in pods if self._lost_its_node(service, pod)]
        for kind in kinds:
            wanted = self._wanted(service, [pod for pod in pods if pod not in lost], kind)
            of_kind = [one for one in existing if one.address_type == kind]
            await self._write(key, service, distribute(service, kind, wanted, of_kind), since)
        others = [one for one in existing if one.address_type not in kinds]
        await self._write(key, service, Changes(deleted=others), since)
        if lost:
            raise NodeMissing(service, lost)

    def _lost_its_node(self, service: Service, pod: Pod) -> bool:
        """Return True if the pod is left out because its node does not exist."""
        if service.spec.publish_not_ready_addresses or not is_endpoint(pod):
            return False
        return self._nodes.store.get("", pod.spec.node_name) is None

    def _wanted(self, service: Service, pods: Sequence[Pod], kind: str) -> Mapping[Ports, Sequence[Endpoint]]:
        wanted: dict[Ports, list[Endpoint]] = {}
        for pod in filter(is_endpoint, pods):
            group = wanted.setdefault(ports_of(service, pod), [])
            endpoint = endpoint_of(pod, self._nodes.store.get("", pod.spec.node_name), service, kind)
            if endpoint is not None:
                group.append(endpoint)
        return wanted

    async def _write(self, key: ObjectKey, service: Service, changes: Changes, since: Time | None) -> None:
        slices = self._client.resource(ENDPOINTSLICES, key.namespace)
        # A service that is being deleted gets no new slices: the garbage collector takes those that there are.
        for one in changes.created if service.metadata.deletion_timestamp is None else ():
            try:
                self._expectations.expect(key, await slices.create(_dated(one, since)))
            except StatusError as error:
                if error.is_namespace_terminating:
                    return
                raise
        for one in changes.updated:
            self._expectations.expect(key, await slices.update(_dated(one, since)))
        for one in changes.deleted:
            try:
                self._expectations.expect(key, await slices.delete(one.metadata.name, uid=one.metadata.uid))
            except StatusError as error:
                if not error.is_not_found:
                    raise


class NodeMissing(LookupError):
    """Pods were left out because their nodes do not exist; the service is synced again."""

    def __init__(self, service: Service, pods: Sequence[Pod]) -> None:
        self.pods = tuple(pods)
        where = f"{service.metadata.namespace}/{service.metadata.name}"
        told = [
            f"skipping Pod {pod.metadata.name} for Service {where}: Node {pod.spec.node_name} Not Found" for pod in pods
        ]
        super().__init__(told[0] if len(told) == 1 else f"[{', '.join(told)}]")


def _service_of(one: EndpointSlice) -> Iterator[ObjectKey]:
    """Yield the key of a slice's service if this controller manages the slice."""
    labels = one.metadata.labels
    if labels.get(MANAGED_BY) == MANAGER and labels.get(SERVICE_NAME):
        yield ObjectKey(one.metadata.namespace, labels[SERVICE_NAME])


def _name_of_service(one: EndpointSlice) -> Iterator[str]:
    return (f"{key.namespace}/{key.name}" for key in _service_of(one))


def _dated(one: EndpointSlice, since: Time | None) -> EndpointSlice:
    annotations = {key: value for key, value in one.metadata.annotations.items() if key != _TRIGGER_TIME}
    if since is not None:
        annotations[_TRIGGER_TIME] = str(since)
    return with_metadata(one, annotations=annotations)


def _seen(pod: Pod) -> tuple[object, ...]:
    """Return the parts of a pod that its endpoint depends on."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    return (
        metadata.labels,
        metadata.deletion_timestamp is None,
        (spec.node_name, spec.hostname, spec.subdomain),
        (status.pod_ip, status.pod_ips),
        is_endpoint(pod),
        is_ready(pod),
    )


_ZONE = "topology.kubernetes.io/zone"


def address_types(service: Service) -> tuple[str, ...]:
    """Return the kinds of addresses that the service has, one for each of its families.

    Kubernetes' API server gives every service its families. Here a service may be without: then it has the family of
    its address, or that of a cluster with one kind of addresses.
    """
    spec = service.spec
    known = tuple(family for family in spec.ip_families if family in ("IPv4", "IPv6"))
    return known or ("IPv6" if ":" in spec.cluster_ip else "IPv4",)


def ports_of(service: Service, pod: Pod) -> tuple[EndpointPort, ...]:
    """Return the ports of the pod behind those of the service; ports that the pod does not have are left out."""
    found: list[EndpointPort] = []
    for port in service.spec.ports:
        number = target_port(pod, port)
        if number is not None:
            found.append(
                EndpointPort(
                    name=port.name, port=number, protocol=port.protocol or "TCP", app_protocol=port.app_protocol
                )
            )
    return tuple(found)


def endpoint_of(pod: Pod, node: Node | None, service: Service, address_type: str) -> Endpoint | None:
    """Return the pod as an endpoint; None if it has no address of that type."""
    addresses = tuple(_addresses(pod, address_type))
    if not addresses:
        return None
    serving = is_ready(pod)
    terminating = pod.metadata.deletion_timestamp is not None
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    metadata = pod.metadata
    return Endpoint(
        addresses=addresses,
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        hostname=pod.spec.hostname if has_hostname_in(service, pod) else None,
        target_ref=ObjectReference(kind="Pod", namespace=metadata.namespace, name=metadata.name, uid=metadata.uid),
        node_name=pod.spec.node_name or None,
        zone=(node.metadata.labels.get(_ZONE) if node is not None else None) or None,
    )


def _addresses(pod: Pod, address_type: str) -> Iterator[str]:
    for text in [one.ip for one in pod.status.pod_ips] or [pod.status.pod_ip]:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            continue
        if f"IPv{address.version}" == address_type:
            yield str(address)


_NEVER = Time(0)


class _SeenTimes(msgspec.Struct):
    """The times that were seen last."""

    service: Time = _NEVER
    pods: dict[str, Time] = msgspec.field(default_factory=dict)


class TriggerTimes:
    """Remembers, by service, the times that were seen."""

    def __init__(self) -> None:
        self._known: dict[ObjectKey, _SeenTimes] = {}

    def changed(self, key: ObjectKey, service: Service, pods: Iterable[Pod]) -> Time | None:
        """Return the oldest time that is new since the last look."""
        before = self._known.get(key, _SeenTimes())
        now = _SeenTimes(service.metadata.creation_timestamp or _NEVER)
        new: list[Time] = []
        for pod in pods:
            ready = find_condition(pod.status.conditions, "Ready")
            if ready is None or ready.last_transition_time is None:
                continue
            now.pods[pod.metadata.name] = ready.last_transition_time
            if ready.last_transition_time > before.pods.get(pod.metadata.name, _NEVER):
                new.append(ready.last_transition_time)
        if now.service > before.service:
            new.append(now.service)
        self._known[key] = now
        return min(new, default=None)

    def forget(self, key: ObjectKey) -> None:
        """Note that the service is gone."""
        self._known.pop(key, None)


# Spreads a service's endpoints over slices, with as few changes as possible (k8s.io/endpointslice, reconciler.go).
#
# An endpoint stays in the slice where it is. What is new fills slices that change anyway, then the slice that it makes
# fullest, then new slices. Endpoints with other ports are in slices of their own.

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
    """Return the slice with endpoints moved to it from ``missing``, as many as it has room for."""
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
