"""Claims for programs that use a Kubernetes client: manifests are built, read, counted and tried as plain dicts.

Every function returns dicts that the official client, kr8s and lightkube accept, and reads the objects that these
clients return. Requests are built in the form of v1; the objects that hold them are returned in the version that is
given. `fits` and `how_many` are those of `cathedra.allocation`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from cathedra.allocation import Cluster, InvalidInput, fits, how_many
from cathedra.allocation.claimsets import read_claim_set
from cathedra.allocation.reading import Input, plain_objects, typed_object
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import ResourceClaim, ResourceClaimTemplate
from cathedra.api.struct import to_dict
from cathedra.kinds.resource.claims.conversion import CLAIM_SHAPES, TEMPLATE_SHAPES
from cathedra.kinds.resource.claims.defaults import default_claim
from cathedra.kinds.resource.claims.usage import classes_by_request, devices_by_class
from cathedra.kinds.resource.classes import CLASS_SHAPES
from cathedra.kinds.resource.slices.conversion import SLICE_SHAPES
from cathedra.kinds.resource.versions import GROUP, Shapes

__all__ = [
    "VERSIONS",
    "AllocatedDevice",
    "Cluster",
    "InvalidInput",
    "allocated",
    "allocated_devices",
    "first_available",
    "fits",
    "how_many",
    "in_version",
    "pod_spec_with",
    "preferred_version",
    "request",
    "requested",
    "resource_claim",
    "resource_claim_template",
    "resource_slice",
]


def request(
    name: str,
    device_class: str,
    count: int | Literal["All"] = 1,
    *,
    selectors: Sequence[str] = (),
    capacity: Mapping[str, str] | None = None,
    tolerations: Sequence[Mapping[str, Any]] = (),
) -> Manifest:
    """Return a request for ``count`` devices of a class, or for all of a node.

    ``selectors`` are CEL expressions. ``capacity`` are amounts of devices that are shared. ``tolerations`` have the
    fields of the API.
    """
    mode: Manifest = {"allocationMode": "All"} if count == "All" else {"allocationMode": "ExactCount", "count": count}
    exactly: Manifest = {"deviceClassName": device_class, **mode}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": one}} for one in selectors]
    if capacity:
        exactly["capacity"] = {"requests": dict(capacity)}
    if tolerations:
        exactly["tolerations"] = [dict(one) for one in tolerations]
    return {"name": name, "exactly": exactly}


def first_available(name: str, *alternatives: Mapping[str, Any]) -> Manifest:
    """Return a request for the first of several alternatives that can be allocated. Each is made by `request`.

    Raises:
        InvalidInput: an alternative has alternatives itself.
    """
    for one in alternatives:
        if "exactly" not in one:
            raise InvalidInput(f"request {name!r}: alternative {one.get('name')!r} has no field exactly")
    return {"name": name, "firstAvailable": [{"name": one["name"], **one["exactly"]} for one in alternatives]}


def resource_claim(
    name: str,
    *requests: Mapping[str, Any],
    namespace: str = "",
    match_attributes: Sequence[str] = (),
    config: Sequence[Mapping[str, Any]] = (),
    version: str = "v1",
) -> Manifest:
    """Return a ResourceClaim.

    The devices of all requests have equal values of ``match_attributes``. ``config`` has the fields of the API. CEL
    expressions are not compiled here; `fits` does that on the devices of a cluster.

    Raises:
        InvalidInput: the API server would refuse its spec, or there is no such version.
    """
    spec = _spec(requests, match_attributes, config)
    return _valid({"kind": "ResourceClaim", "metadata": _metadata(name, namespace), "spec": spec}, version)


def resource_claim_template(
    name: str,
    *requests: Mapping[str, Any],
    namespace: str = "",
    match_attributes: Sequence[str] = (),
    config: Sequence[Mapping[str, Any]] = (),
    version: str = "v1",
) -> Manifest:
    """Return a ResourceClaimTemplate, of which each pod that uses it gets a claim of its own.

    Raises:
        InvalidInput: as for `resource_claim`.
    """
    spec = {"spec": _spec(requests, match_attributes, config)}
    return _valid({"kind": "ResourceClaimTemplate", "metadata": _metadata(name, namespace), "spec": spec}, version)


def resource_slice(
    driver: str, node: str, devices: Mapping[str, Mapping[str, bool | int | str]], *, version: str = "v1"
) -> Manifest:
    """Return the ResourceSlice that publishes all devices of a driver on a node, for tests and planning.

    ``devices`` maps names to attributes.

    Raises:
        InvalidInput: a value has a wrong type, or there is no such version.
    """
    published = [
        {"name": name, "attributes": {key: {_type_of(value): value} for key, value in attributes.items()}}
        for name, attributes in devices.items()
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": published}
    return in_version({"kind": "ResourceSlice", "metadata": {"name": f"{node}-{driver}"}, "spec": spec}, version)


def pod_spec_with(
    spec: Mapping[str, Any], *claims: Mapping[str, Any], containers: Collection[str] = ()
) -> dict[str, Any]:
    """Return a copy of a pod's ``spec`` that uses claims and templates: in all containers, or those that are named.

    Raises:
        InvalidInput: a claim has another kind, its name is used for something else, or a container does not exist.
    """
    entries = {str(one.get("name")): one for one in spec.get("resourceClaims") or ()}
    added = [_entry(one) for one in claims]
    for one in added:
        if entries.setdefault(one["name"], one) != one:
            raise InvalidInput(f"spec.resourceClaims has another entry {one['name']!r} already")
    present = {str(one.get("name")) for one in spec.get("containers") or ()}
    if missing := sorted(set(containers) - present):
        raise InvalidInput(f"the pod has no container {missing[0]!r}; it has {', '.join(sorted(present))}")
    using = [
        _container_with(one, added) if not containers or one.get("name") in containers else one
        for one in spec.get("containers") or ()
    ]
    return {**spec, "resourceClaims": list(entries.values()), "containers": using}


def _spec(
    requests: Sequence[Mapping[str, Any]], match_attributes: Sequence[str], config: Sequence[Mapping[str, Any]]
) -> Manifest:
    devices: Manifest = {"requests": [dict(one) for one in requests]}
    if match_attributes:
        devices["constraints"] = [{"matchAttribute": one} for one in match_attributes]
    if config:
        devices["config"] = [dict(one) for one in config]
    return {"devices": devices}


def _metadata(name: str, namespace: str) -> Manifest:
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def _valid(built: Manifest, version: str) -> Manifest:
    # The allocator validates what it is given. A claim that it accepts here is one that it can be given later.
    read_claim_set(built, {}, {})
    return in_version(built, version)


def _type_of(value: bool | int | str) -> str:
    # Every bool is an int.
    return "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"


def _entry(claim: Mapping[str, Any]) -> Manifest:
    name = claim.get("metadata", {}).get("name")
    fields = {"ResourceClaim": "resourceClaimName", "ResourceClaimTemplate": "resourceClaimTemplateName"}
    field = fields.get(claim.get("kind", ""))
    if field is None or not name:
        raise InvalidInput(
            f"a pod uses claims and templates with a name, not {claim.get('kind')} {name or 'without one'}"
        )
    # The name of an entry is a DNS label, in which dots are invalid.
    return {"name": name.replace(".", "-"), field: name}


def _container_with(container: Mapping[str, Any], entries: Sequence[Manifest]) -> Manifest:
    resources = container.get("resources") or {}
    listed = list(resources.get("claims") or ())
    known = {one.get("name") for one in listed}
    listed += [{"name": one["name"]} for one in entries if one["name"] not in known]
    return {**container, "resources": {**resources, "claims": listed}}


Manifest: TypeAlias = dict[str, Any]
"""An object as plain values, ready for a client."""
VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""Versions to which objects can be converted, the newest first."""
_SHAPES: Final[Mapping[type[KubeObject], Shapes]] = {
    shapes.hub: shapes for shapes in (CLAIM_SHAPES, TEMPLATE_SHAPES, CLASS_SHAPES, SLICE_SHAPES)
}


def preferred_version(group_versions: Iterable[str]) -> str | None:
    """Return the newest version that a cluster serves; None if it serves none, and has no claims.

    ``group_versions`` are names as ``resource.k8s.io/v1``, of all groups or of this one, as discovery lists them.
    """
    served = frozenset(group_versions)
    return next((version for version in VERSIONS if f"{GROUP}/{version}" in served), None)


def in_version(given: Input, version: str) -> Manifest:
    """Return a claim, template, slice or class in ``version``, of whatever version and client it is.

    Raises:
        InvalidInput: there is no such version, ``given`` is not one object of these kinds, or it has a field that is
            not known, which the conversion would drop.
    """
    if version not in VERSIONS:
        raise InvalidInput(f"version {version!r} of {GROUP} is not known; known are {', '.join(VERSIONS)}")
    objects = list(plain_objects(given))
    if len(objects) != 1:
        raise InvalidInput(f"expected one object, got {len(objects)}")
    typed = typed_object(objects[0], strict=True)
    shapes = _SHAPES.get(type(typed)) if typed is not None else None
    if shapes is None:
        raise InvalidInput(f"expected an object of {', '.join(kind.__name__ for kind in _SHAPES)}")
    older = {one.name: one for one in shapes.older}
    made = to_dict(older[version].from_hub(typed) if version in older else typed)
    if not made.get("status"):
        made.pop("status", None)
    return {"apiVersion": f"{GROUP}/{version}", "kind": shapes.hub.__name__, **made}


class AllocatedDevice(NamedTuple):
    """A device that is allocated to a claim."""

    driver: str
    pool: str
    device: str
    request: str
    """Name of the request that it satisfies, or ``request/alternative``."""
    device_class: str
    """Class of the request; "" if the claim no longer has the request."""
    admin_access: bool
    """True if the claim has the device beside those that use it."""


def requested(claims: Input) -> dict[str, int]:
    """Return the number of devices of each class that claims and templates request at most, as quota counts them.

    A request for all devices counts 32. Of alternatives, the largest number of each class counts.

    Raises:
        InvalidInput: something is neither claim nor template.
    """
    total: Counter[str] = Counter()
    for claim in _claims(claims):
        total.update(devices_by_class(default_claim(claim)))
    return dict(total)


def allocated(claims: Input) -> dict[str, int]:
    """Return the number of devices of each class that claims hold. Devices with admin access do not count.

    A device that several claims share counts for each of them.

    Raises:
        InvalidInput: something is neither claim nor template.
    """
    return dict(Counter(one.device_class for one in allocated_devices(claims) if not one.admin_access))


def allocated_devices(claims: Input) -> list[AllocatedDevice]:
    """Return the devices that are allocated to claims, in the order of their status; none for templates.

    Raises:
        InvalidInput: something is neither claim nor template.
    """
    return [device for claim in _claims(claims) for device in _devices(claim)]


def _claims(given: Input) -> Iterator[ResourceClaim]:
    for one in plain_objects(given):
        # A newer server may return fields that are not known. They do not change the counts.
        typed = typed_object(one, strict=False)
        if isinstance(typed, ResourceClaimTemplate):
            yield ResourceClaim(metadata=typed.metadata, spec=typed.spec.spec)
        elif isinstance(typed, ResourceClaim):
            yield typed
        else:
            raise InvalidInput("expected claims and templates only; a pod's claims are objects of their own")


def _devices(claim: ResourceClaim) -> Iterator[AllocatedDevice]:
    if claim.status.allocation is None:
        return
    classes = classes_by_request(claim)
    for one in claim.status.allocation.devices.results:
        device_class = classes.get(one.request, "")
        yield AllocatedDevice(one.driver, one.pool, one.device, one.request, device_class, bool(one.admin_access))
