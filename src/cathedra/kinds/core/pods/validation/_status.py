"""Rules of what node, scheduler and controllers report about a pod (docs/spec/api.md §6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check
from cathedra.api.quantity import Quantity
from cathedra.kinds.core.pods.validation._spec import NO_ADDRESS, is_address
from cathedra.kinds.core.resourcenames import is_native
from cathedra.releases import FeatureGates, behaviours

_STATUS: Final = FieldPath("status")
_HEALTH: Final = ("Healthy", "Unhealthy", "Unknown")
_MAX_MESSAGE: Final = 1024
_FAMILIES: Final = 2
_CLAIM: Final = "claim:"
_CLAIM_STATUSES: Final = _STATUS.child("resourceClaimStatuses")


def validate_pod_status_update(new: core_v1.Pod, old: core_v1.Pod, gates: FeatureGates) -> ErrorList:
    """Return the errors of a new status."""
    errors = ErrorList()
    status = new.status
    # The class decides on cgroups and eviction. It is derived from the spec once, so a kubelet that reports another one
    # has computed it from another spec.
    if status.qos_class != old.status.qos_class:
        errors.invalid(_STATUS.child("qosClass"), status.qos_class, "field is immutable")
    # Statuses that did not exist before cannot have ended, so the first report of a node skips the comparison.
    if before := old.status.container_statuses:
        _transitions(errors, _STATUS.child("containerStatuses"), status.container_statuses, before, new.spec)
    if before := old.status.init_container_statuses:
        _transitions(errors, _STATUS.child("initContainerStatuses"), status.init_container_statuses, before, new.spec)
    if status.pod_ips:
        _addresses(errors, status)
    if status.resource_claim_statuses:
        _claims(errors, new, gates)
    if status.extended_resource_claim_status is not None:
        _extended(errors, new, status.extended_resource_claim_status)
    if status.node_allocatable_resource_claim_statuses:
        _node_allocatable(errors, new, gates)
    if status.container_statuses or status.init_container_statuses:
        _all_health(errors, new, gates)
    for position, container in enumerate(status.ephemeral_container_statuses):
        if container.allocated_resources_status:
            where = _STATUS.child("ephemeralContainerStatuses").index(position).child("allocatedResourcesStatus")
            errors.forbidden(where, "allocated resources status is not supported for ephemeral containers")
    return errors


def _addresses(errors: ErrorList, status: core_v1.PodStatus) -> None:
    """Check that a pod has one address of each family at most."""
    path, given = _STATUS.child("podIPs"), [one.ip for one in status.pod_ips]
    wrong = False
    for position, address in enumerate(given):
        if not is_address(address):
            wrong = True
            errors.invalid(path.index(position), address, NO_ADDRESS)
    if len(given) > 1 and not wrong:
        families = {":" in address for address in given}
        if len(given) > _FAMILIES or len(families) < _FAMILIES:
            errors.invalid(path, given, "may specify no more than one IP for each IP family")
        if given[0] in given[1:]:
            errors.duplicate(path.index(1), status.pod_ips[1])


def _all_health(errors: ErrorList, new: core_v1.Pod, gates: FeatureGates) -> None:
    status = new.status
    _health(errors, _STATUS.child("containerStatuses"), status.container_statuses, new.spec.containers, new, gates)
    _health(
        errors,
        _STATUS.child("initContainerStatuses"),
        status.init_container_statuses,
        new.spec.init_containers,
        new,
        gates,
    )


def _transitions(
    errors: ErrorList,
    path: FieldPath,
    new: Sequence[core_v1.ContainerStatus],
    old: Sequence[core_v1.ContainerStatus],
    spec: core_v1.PodSpec,
) -> None:
    """Require that a container that has ended finally stays ended."""
    # A container that is restarted leaves its terminated state, so the rule holds for the other policies only.
    if spec.restart_policy == "Always":
        return
    # Containers with a policy of their own are exempt from the pod's policy and may run again.
    sidecars = {c.name for c in (*spec.init_containers, *spec.containers) if c.restart_policy is not None}
    after = {status.name: status for status in new}
    for position, before in enumerate(old):
        ended = before.state.terminated
        if ended is None or before.name in sidecars or (ended.exit_code != 0 and spec.restart_policy == "OnFailure"):
            continue
        found = after.get(before.name)
        if found is not None and found.state.terminated is None:
            errors.forbidden(path.index(position).child("state"), "may not be transitioned to non-terminated state")


def _claims(errors: ErrorList, pod: core_v1.Pod, gates: FeatureGates) -> None:
    known = {claim.name for claim in pod.spec.resource_claims}
    seen: set[str] = set()
    for position, status in enumerate(pod.status.resource_claim_statuses):
        if status.name not in known:
            where = _CLAIM_STATUSES.index(position).child("name")
            errors.invalid(where, status.name, "must match the name of an entry in `spec.resourceClaims`")
        if status.resource_claim_name is not None and formats.dns_subdomain(status.resource_claim_name):
            # Up to 1.35 the wrong field was named.
            field = "resourceClaimName" if gates.has(behaviours.CLAIM_NAME_ERRORS_AT_FIELD) else "name"
            where = _CLAIM_STATUSES.index(position).child(field)
            check(errors, where, status.resource_claim_name, formats.dns_subdomain)
        if status.name in seen:
            errors.duplicate(_CLAIM_STATUSES.index(position).child("name"), status.name)
        seen.add(status.name)


def _extended(errors: ErrorList, pod: core_v1.Pod, status: core_v1.PodExtendedResourceClaimStatus) -> None:
    path = _STATUS.child("extendedResourceClaimStatus")
    mappings = path.child("requestMappings")
    if not status.request_mappings:
        errors.required(mappings, "at least one request mapping is required")
    containers = {container.name: container for container in (*pod.spec.init_containers, *pod.spec.containers)}
    seen: set[tuple[str, str, str]] = set()
    for position, mapping in enumerate(status.request_mappings):
        where = mappings.index(position)
        container = containers.get(mapping.container_name)
        # Statuses of containers that the spec does not have are left to the kubelet, as in Kubernetes.
        if container is None:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.invalid(where.child("containerName"), mapping.container_name, text)
        elif mapping.resource_name not in container.resources.requests:
            text = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests "
                "or spec.containers.resources.requests"
            )
            errors.invalid(where.child("resourceName"), mapping.resource_name, text)
        check(errors, path.child("requestName"), mapping.request_name, formats.dns_label)
        key = (mapping.container_name, mapping.resource_name, mapping.request_name)
        if key in seen:
            for name, value in zip(("containerName", "resourceName", "requestName"), key, strict=True):
                errors.duplicate(where.child(name), value)
        seen.add(key)
    if not status.resource_claim_name:
        errors.required(path.child("resourceClaimName"))
    else:
        check(errors, path.child("resourceClaimName"), status.resource_claim_name, formats.dns_subdomain)


def _node_allocatable(errors: ErrorList, pod: core_v1.Pod, gates: FeatureGates) -> None:
    path = _STATUS.child("nodeAllocatableResourceClaimStatuses")
    known = {claim.resource_claim_name for claim in pod.spec.resource_claims if claim.resource_claim_name is not None}
    # Claims made from templates have generated names, which stand in the status alone.
    known |= {s.resource_claim_name for s in pod.status.resource_claim_statuses if s.resource_claim_name is not None}
    extended = pod.status.extended_resource_claim_status
    if extended is not None and gates.has(behaviours.EXTENDED_CLAIMS_IN_STATUS):
        known.add(extended.resource_claim_name)
    for position, status in enumerate(pod.status.node_allocatable_resource_claim_statuses):
        where = path.index(position)
        if not status.resource_claim_name:
            errors.required(where.child("resourceClaimName"), "must not be empty")
        if status.resource_claim_name not in known:
            errors.invalid(
                where.child("resourceClaimName"), status.resource_claim_name, "no mapping found in pod reference"
            )
        # From 1.37 on a claim that no container uses may take from the node for the pod as a whole.
        if not status.containers and not gates.has(behaviours.CLAIMS_TAKE_FOR_PODS):
            errors.required(where.child("containers"), "must not be empty")
        if gates.has(behaviours.CLAIMS_TAKE_FOR_PODS):
            _taken(errors, where, status)
        else:
            _resources(errors, where.child("resources"), status.resources)


def _resources(errors: ErrorList, path: FieldPath, resources: dict[str, Quantity]) -> None:
    """Validate the resources that a claim takes from the node, in the form of release 1.36."""
    if not resources:
        errors.required(path, "must not be empty")
    for name, amount in sorted(resources.items()):
        _amounts(errors, path.key(name), path.key(name), name, (("", amount),))


def _taken(errors: ErrorList, path: FieldPath, status: core_v1.NodeAllocatableResourceClaimStatus) -> None:
    """Validate the form of release 1.37: what is mapped from devices, and what they cost besides."""
    if not status.mapping and not status.overhead:
        errors.required(path, "at least one of `mapping` or `overhead` is required")
    for position, mapped in enumerate(status.mapping):
        where = path.child("mapping").index(position)
        _amounts(errors, where.child("name"), where, mapped.name, (("quantity", mapped.quantity),))
    formats.unique(errors, path.child("mapping"), [mapped.name for mapped in status.mapping])
    for position, cost in enumerate(status.overhead):
        where = path.child("overhead").index(position)
        amounts = (("perPod", cost.per_pod), ("perContainer", cost.per_container))
        _amounts(errors, where.child("name"), where, cost.name, amounts)
    formats.unique(errors, path.child("overhead"), [cost.name for cost in status.overhead])


def _amounts(
    errors: ErrorList,
    name_path: FieldPath,
    path: FieldPath,
    name: str,
    amounts: Iterable[tuple[str, Quantity | None]],
) -> None:
    if not is_native(name):
        errors.invalid(name_path, name, "must be a node allocatable resource name")
    for field, amount in amounts:
        if amount is not None and amount.sign() < 0:
            errors.invalid(path.child(field) if field else path, str(amount), "must be non-negative")


def _health(
    errors: ErrorList,
    path: FieldPath,
    statuses: Sequence[core_v1.ContainerStatus],
    containers: Sequence[core_v1.Container],
    pod: core_v1.Pod,
    gates: FeatureGates,
) -> None:
    if not statuses:
        return
    known = {container.name: container for container in containers}
    extended = _extended_names(pod) if gates.has(behaviours.EXTENDED_CLAIMS_IN_STATUS) else {}
    names_of: dict[str, set[str]] = {}
    for position, status in enumerate(statuses):
        container = known.get(status.name)
        if container is None:
            continue
        names = names_of.get(container.name)
        if names is None:  # once for each container, of which there may be many statuses
            names = {*_claim_names(container), *extended.get(container.name, ())}
            names_of[container.name] = names
        where = path.index(position).child("allocatedResourcesStatus")
        for number, resource in enumerate(status.allocated_resources_status):
            _resource_name(errors, where.index(number).child("name"), resource.name, container, names)
            _devices(errors, where.index(number).child("resources"), resource.resources)


def _claim_names(container: core_v1.Container) -> Iterator[str]:
    for claim in container.resources.claims:
        yield f"{_CLAIM}{claim.name}/{claim.request}" if claim.request else f"{_CLAIM}{claim.name}"


def _extended_names(pod: core_v1.Pod) -> dict[str, set[str]]:
    """Return the claim that the scheduler made for extended resources, and its requests, by container."""
    status = pod.status.extended_resource_claim_status
    if status is None:
        return {}
    claim = f"{_CLAIM}{status.resource_claim_name}"
    names: dict[str, set[str]] = {}
    for mapping in status.request_mappings:
        names.setdefault(mapping.container_name, {claim}).add(f"{claim}/{mapping.request_name}")
    return names


def _resource_name(
    errors: ErrorList, path: FieldPath, name: str, container: core_v1.Container, claims: Set[str]
) -> None:
    if name.startswith(_CLAIM):
        if name not in claims:
            text = (
                "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
                "'claim:<claimName>' if request is empty"
            )
            errors.invalid(path, name, text)
    elif name not in container.resources.requests:
        errors.invalid(path, name, "must match one of the container's resource requests")


def _devices(errors: ErrorList, path: FieldPath, devices: Sequence[core_v1.ResourceHealth]) -> None:
    seen: set[str] = set()
    for position, device in enumerate(devices):
        where = path.index(position)
        if device.resource_id in seen:
            errors.duplicate(where.child("resourceID"), device.resource_id)
        seen.add(device.resource_id)
        if device.health not in _HEALTH:
            errors.not_supported(where.child("health"), device.health, _HEALTH)
        if device.message is None:
            continue
        if not device.message:
            errors.required(where.child("message"), "must be non-empty if specified")
        elif formats.longer_than(device.message, _MAX_MESSAGE):
            errors.too_long(where.child("message"), _MAX_MESSAGE)
