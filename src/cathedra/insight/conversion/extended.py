"""Extended resources as claims: which steps make the pods of an object ask by claims, and which objects they need.

A device plugin's resource is a name and a number. What else a claim may say — model, memory, sharing — was never
written down; the driver and its class are guessed from the name, and said to be guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cathedra.api.formats import extended_resource_name
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.quantity import Quantity, QuantityError

__all__ = [
    "ADD",
    "APPEND",
    "REMOVE",
    "ConversionStep",
    "PodPlan",
    "class_name_of",
    "device_class",
    "pod_plan",
    "template",
]

CLAIM: Final = "devices"
"""How a pod calls its claim."""
ADD, APPEND, REMOVE = "add", "append", "remove"
_KNOWN: Final = {
    "nvidia.com/gpu": ("gpu.nvidia.com", "device.attributes['gpu.nvidia.com'].type == 'gpu'"),
    "amd.com/gpu": ("gpu.amd.com", ""),
    "intel.com/gpu": ("gpu.intel.com", ""),
    "gpu.intel.com/i915": ("gpu.intel.com", ""),
    "gpu.intel.com/xe": ("gpu.intel.com", ""),
}
"""Resource → the driver that its vendor has for DRA, and what the class of whole devices asks besides."""
_OTHER: Final = re.compile(r"[^a-z0-9]+")


class ConversionStep(NamedTuple):
    """A change of an object: ``add`` an entry to the mapping at ``path``, ``append`` to the list under ``key``, or
    ``remove`` an entry."""

    action: str
    path: str
    key: str
    value: Any = None


class ExtendedRequest(NamedTuple):
    """A request of the claim."""

    name: str
    resource: str
    number: int


class PodPlan(NamedTuple):
    """What is to be done with one object."""

    steps: tuple[ConversionStep, ...]
    requests: tuple[ExtendedRequest, ...]
    notes: tuple[str, ...]


def pod_plan(pod: Mapping[str, Any], path: str, template_name: str, chosen: Sequence[str]) -> PodPlan | None:
    """How the pod whose spec is given, and stands at ``path``, comes to ask by a claim; None if it asks for nothing.

    ``chosen`` are the resources that are meant; all extended resources, if it is empty.
    """
    asked = list(_asked(pod, path, chosen))
    if not asked:
        return None
    several = len({(where, resource) for where, _, resource, _ in asked}) > 1
    containers = len({where for where, _, _, _ in asked})
    steps: list[ConversionStep] = []
    requests: list[ExtendedRequest] = []
    notes: list[str] = []
    claims: dict[str, list[JSONObject]] = {}
    for where, container, resource, count in asked:
        short = _OTHER.sub("-", resource.rpartition("/")[2].lower()).strip("-")[:30] or "device"
        name = f"{_OTHER.sub('-', container.lower())}-{short}"[:63].strip("-") if containers > 1 else short
        if any(one.name == name for one in requests):
            name = f"{name[:60]}-{len(requests)}"
        requests.append(ExtendedRequest(name, resource, count))
        claims.setdefault(where, []).append({"name": CLAIM, "request": name} if several else {"name": CLAIM})
        if ".initContainers[" in where:
            notes.append(f"init container {container} gets devices of its own, for as long as the pod lives")
    for where, entries in claims.items():
        resources = _at(pod, where.removeprefix(path))["resources"]
        known = isinstance(resources.get("claims"), list)
        steps.append(ConversionStep(APPEND if known else ADD, f"{where}.resources", "claims", entries))
        steps.extend(_removals(resources, f"{where}.resources", {r for place, _, r, _ in asked if place == where}))
    entry = [{"name": CLAIM, "resourceClaimTemplateName": template_name}]
    known = isinstance(pod.get("resourceClaims"), list)
    steps.append(ConversionStep(APPEND if known else ADD, path, "resourceClaims", entry))
    return PodPlan(tuple(steps), tuple(requests), tuple(notes))


def class_name_of(resource: str) -> str:
    """The device class for a resource: its vendor's, or one with the name turned round."""
    if resource in _KNOWN:
        return _KNOWN[resource][0]
    domain, _, name = resource.partition("/")
    return f"{_OTHER.sub('-', name.lower()).strip('-')}.{domain.lower()}"


def device_class(resource: str) -> tuple[JSONObject, tuple[str, ...]]:
    """A class for a resource, and what could not be known about it."""
    name = class_name_of(resource)
    _, more = _KNOWN.get(resource, ("", ""))
    expression = f"device.driver == '{name}'" + (f" && {more}" if more else "")
    notes = [f"class {name}: the driver's installation may bring one of that name; then that one is to be kept"]
    if resource not in _KNOWN:
        notes.insert(0, f"class {name}: that the driver for {resource} is called {name} is a guess")
    made: JSONObject = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    return made, tuple(notes)


def template(name: str, namespace: str, requests: Sequence[ExtendedRequest]) -> JSONObject:
    """The template with these requests."""
    asked: list[JSONObject] = [
        {
            "name": one.name,
            "exactly": {
                "deviceClassName": class_name_of(one.resource),
                **({"count": one.number} if one.number > 1 else {}),
            },
        }
        for one in requests
    ]
    metadata: JSONObject = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": {"devices": {"requests": [*asked]}}},
    }


def _asked(pod: Mapping[str, Any], path: str, chosen: Sequence[str]) -> Iterator[tuple[str, str, str, int]]:
    """The place and name of a container, a resource that it asks for, and how many."""
    for kind in ("initContainers", "containers"):
        several = pod.get(kind)
        for number, container in enumerate(several if isinstance(several, list) else ()):
            resources = container.get("resources") if isinstance(container, Mapping) else None
            if not isinstance(resources, Mapping):
                continue
            amounts: JSONObject = {}
            for section in ("requests", "limits"):
                given = resources.get(section)
                amounts |= given if isinstance(given, Mapping) else {}
            for resource, amount in amounts.items():
                if not extended_resource_name(resource) or (chosen and resource not in chosen):
                    continue
                count = _count(amount)
                if count > 0:
                    yield f"{path}.{kind}[{number}]", str(container.get("name", "")), resource, count


def _count(amount: Any) -> int:
    """How many devices a quantity is; 0 for what is none."""
    if isinstance(amount, bool) or not isinstance(amount, (int, str)):
        return 0
    try:
        return Quantity(amount).value()
    except QuantityError:
        return 0


def _removals(resources: Mapping[str, Any], path: str, gone: set[str]) -> Iterator[ConversionStep]:
    for section in ("limits", "requests"):
        given = resources.get(section)
        if not isinstance(given, Mapping) or not gone & given.keys():
            continue
        if given.keys() <= gone:
            yield ConversionStep(REMOVE, path, section)
            continue
        for resource in given:
            if resource in gone:
                yield ConversionStep(REMOVE, f"{path}.{section}", resource)


def _at(value: Any, path: str) -> Any:
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        value = value[name] if name else value[int(index)]
    return value
