"""The objects of the workloads, with the names and contents that they have in scheduler_perf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from benchmarks.scheduler.workloads import Shape, Workload
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.api.struct import from_dict, replace

__all__ = [
    "CLASS",
    "DRIVER",
    "MARK",
    "NAMESPACE",
    "allocated",
    "claim",
    "device_classes",
    "node",
    "pod",
    "slices",
    "taint_rule",
    "templates",
]

NAMESPACE: Final = "bench"
CLASS: Final = "test-class"
DRIVER: Final = "test-driver.cdi.k8s.io"
MARK: Final = "node-with-dra"
_EMPTY_CLASS: Final = "no-devices"
_TAINT: Final = "example.com/taint"
_EXTENDED: Final = 25
_SLICE: Final = "dra.example.com/slice"
_ROOT: Final = "resource.kubernetes.io/pciRoot"


def device_classes(shape: Shape) -> Iterator[DeviceClass]:
    """The class of all devices of the driver, or as many as there are extended resources; and one without devices."""
    yield _class(CLASS, DRIVER)
    if shape is Shape.FIRST_AVAILABLE:
        yield _class(_EMPTY_CLASS, "no-such-driver.cdi.k8s.io")
    if shape is Shape.EXTENDED:
        for index in range(_EXTENDED):
            yield _class(f"{CLASS}-{index}", DRIVER, extendedResourceName=_extended(index))


def taint_rule() -> DeviceTaintRule:
    """Taints all devices of the driver."""
    taint = {"key": _TAINT, "value": "yes", "effect": "NoSchedule"}
    return from_dict(
        DeviceTaintRule,
        {"metadata": {"name": "taint-all-devices"}, "spec": {"deviceSelector": {"driver": DRIVER}, "taint": taint}},
    )


def node(name: str) -> Node:
    """A node without an agent."""
    room = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, MARK: "true"}}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return from_dict(
        Node, {"metadata": metadata, "status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
    )


def templates(workload: Workload) -> Iterator[ResourceClaimTemplate]:
    """The templates of the pods' claims. With more than one, each has parameters of its own for the driver."""
    for number in range(workload.templates):
        metadata, spec = {"name": _template(number), "namespace": NAMESPACE}, _spec(workload.shape)
        if number:
            parameters = {"driver": DRIVER, "parameters": {"number": number}}
            spec["devices"]["config"] = [{"opaque": parameters}]
        yield from_dict(ResourceClaimTemplate, {"metadata": metadata, "spec": {"spec": spec}})


def claim(name: str) -> ResourceClaim:
    """A claim that stands for itself."""
    metadata = {"name": name, "namespace": NAMESPACE}
    return from_dict(ResourceClaim, {"metadata": metadata, "spec": _spec(Shape.BASIC)})


def allocated(made: ResourceClaim, workload: Workload, index: int) -> ResourceClaim:
    """The claim with a device: one of every node, then the next one of every node, as a scheduler would have spread
    them; or one of every pool."""
    if workload.shape is Shape.PARTITIONS:
        pool, device, term = _pool(index), "device-2-counters-1", _MARKED
    else:
        pool, device = f"node-{index % workload.nodes}", f"basic-device-{index // workload.nodes}"
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pool]}]}
    result = {"request": "req-0", "driver": DRIVER, "pool": pool, "device": device}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    # A claim without a user would be deallocated.
    user = {"resource": "pods", "name": "user", "uid": f"uid-{made.metadata.name}"}
    status = from_dict(ResourceClaim, {"status": {"allocation": allocation, "reservedFor": [user]}}).status
    return replace(made, status=status)


def pod(workload: Workload, index: int) -> Pod:
    """A pod that is measured: as in scheduler_perf, a template's, with a name of its own."""
    resource = index % _EXTENDED if workload.shape is Shape.EXTENDED else 0
    claim = index // workload.pods_per_claim if workload.pods_per_claim else 0
    made = _pod(workload, resource, claim, index % workload.templates)
    return replace(made, metadata=ObjectMeta(name=f"pod-{index}", namespace=NAMESPACE))


def _template(number: int) -> str:
    return f"template-{number}" if number else "template"


@lru_cache(maxsize=1024)
def _pod(workload: Workload, resource: int, claim: int, template: int) -> Pod:
    """Pods of this kind, whose names do not matter."""
    container: dict[str, Any] = {"name": "pause", "image": "pause"}
    if template:
        container["env"] = [{"name": "TEMPLATE", "value": str(template)}]
    spec: dict[str, Any] = {"containers": [container], "schedulerName": "default-scheduler"}
    if workload.shape is Shape.NONE:
        container["resources"] = {"requests": {"cpu": "100m", "memory": "500Mi"}}
    elif workload.shape is Shape.EXTENDED:
        container["resources"] = {"limits": {_extended(resource): "1"}}
    else:
        container["resources"] = {"claims": [{"name": "resource"}]}
        spec["resourceClaims"] = [{"name": "resource", **_source(workload, claim, template)}]
    return from_dict(Pod, {"spec": spec})


def slices(workload: Workload) -> Iterator[ResourceSlice]:
    """All slices: one per node, or of pools that every node reaches."""
    if workload.shape in {Shape.PARTITIONS, Shape.CONSUMABLE}:
        for index in range(workload.devices):
            yield from _pool_slices(workload.shape, index)
        return
    if workload.shape is Shape.NONE:
        return
    roots = 2 if workload.shape in {Shape.MATCH, Shape.MATCH_TWO} else workload.devices
    devices = [_basic_device(index, index % roots) for index in range(workload.devices)]
    for index in range(workload.nodes):
        name = f"node-{index}"
        yield _slice(f"{name}-slice", name, {"nodeName": name, "devices": devices})


def _source(workload: Workload, claim: int, template: int) -> dict[str, str]:
    if workload.pods_per_claim:
        return {"resourceClaimName": f"claim-{claim}"}
    return {"resourceClaimTemplateName": _template(template)}


def _request(index: int, **more: Any) -> dict[str, Any]:
    return {"name": f"req-{index}", "exactly": {"deviceClassName": CLASS, **more}}


def _spec(shape: Shape) -> dict[str, Any]:
    if shape is Shape.MATCH:
        return _matching(5)
    if shape is Shape.MATCH_TWO:
        return _matching(2)
    if shape is Shape.PARTITIONS:
        constraint = {"requests": ["req-0"], "matchAttribute": _SLICE}
        return {"devices": {"requests": [_request(0, count=2)], "constraints": [constraint]}}
    if shape is Shape.CONSUMABLE:
        share = {"capacity": {"requests": {"memory": "10Gi"}}}
        return {"devices": {"requests": [_request(0, **share), _request(1, **share)]}}
    if shape is Shape.FIRST_AVAILABLE:
        either = [{"name": "none", "deviceClassName": _EMPTY_CLASS}, {"name": "some", "deviceClassName": CLASS}]
        return {"devices": {"requests": [{"name": "req-0", "firstAvailable": either}]}}
    return {"devices": {"requests": [_request(0, **_ASKED.get(shape, {}))]}}


def _matching(count: int) -> dict[str, Any]:
    constraint = {"requests": [f"req-{index}" for index in range(count)], "matchAttribute": _ROOT}
    return {"devices": {"requests": [_request(index) for index in range(count)], "constraints": [constraint]}}


def _class(name: str, driver: str, **more: Any) -> DeviceClass:
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return from_dict(DeviceClass, {"metadata": {"name": name}, "spec": {"selectors": [selector], **more}})


def _extended(index: int) -> str:
    return f"example.com/gpu-{index}"


_SELECTOR: Final = (
    f'device.attributes["{DRIVER}"].driverVersion.major() >= 1 && '
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("1Gi")) >= 0'
)
_ASKED: Final[Mapping[Shape, dict[str, Any]]] = {
    Shape.SELECTOR: {"selectors": [{"cel": {"expression": _SELECTOR}}]},
    Shape.TOLERATION: {"tolerations": [{"key": _TAINT, "operator": "Exists"}]},
}
_MARKED: Final = {"matchExpressions": [{"key": MARK, "operator": "In", "values": ["true"]}]}
_EVERYWHERE: Final = {"nodeSelector": {"nodeSelectorTerms": [_MARKED]}}


def _pool(index: int) -> str:
    return f"resourceslice-{index}"


def _slice(name: str, pool: str, content: dict[str, Any], *, of: int = 1) -> ResourceSlice:
    owner = {"name": pool, "generation": 1, "resourceSliceCount": of}
    return from_dict(ResourceSlice, {"metadata": {"name": name}, "spec": {"driver": DRIVER, "pool": owner, **content}})


def _pool_slices(shape: Shape, index: int) -> Iterator[ResourceSlice]:
    pool = _pool(index)
    counters = 4 if shape is Shape.PARTITIONS else 2
    shared = {"name": "counter-set", "counters": {f"counter{one}": {"value": "1"} for one in range(1, counters + 1)}}
    yield _slice(f"resourceslice-countersets-{index}", pool, {**_EVERYWHERE, "sharedCounters": [shared]}, of=2)
    pairs = [
        _partition(index, f"device-2-counters-{one}", (2 * one - 1, 2 * one)) for one in range(1, counters // 2 + 1)
    ]
    if shape is Shape.PARTITIONS:
        singles = [_partition(index, f"device-1-counter-{one}", (one,)) for one in range(1, counters + 1)]
        devices = [*pairs, *singles]
    else:
        whole = {"name": "shareable-device", "attributes": {"preallocate": {"bool": False}, _SLICE: {"int": index}}}
        devices = [_shareable(device) for device in (whole, *pairs)]
    yield _slice(f"resourceslice-devices-{index}", pool, {**_EVERYWHERE, "devices": devices}, of=2)


def _shareable(device: dict[str, Any]) -> dict[str, Any]:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi"}}
    memory = {"memory": {"value": "80Gi", "requestPolicy": policy}}
    return {**device, "allowMultipleAllocations": True, "capacity": {**device.get("capacity", {}), **memory}}


def _partition(index: int, name: str, counters: tuple[int, ...]) -> dict[str, Any]:
    used = {f"counter{one}": {"value": "1"} for one in counters}
    return {
        "name": name,
        "attributes": {"preallocate": {"bool": name == "device-2-counters-1"}, _SLICE: {"int": index}},
        "capacity": {"counters": {"value": str(len(counters))}},
        "consumesCounters": [{"counterSet": "counter-set", "counters": used}],
    }


def _basic_device(index: int, root: int) -> dict[str, Any]:
    return {
        "name": f"basic-device-{index}",
        "attributes": {
            "model": {"string": "A100"},
            "family": {"string": "GPU"},
            "driverVersion": {"version": "1.2.3"},
            _ROOT: {"string": str(root)},
        },
        "capacity": {"memory": {"value": "1Gi"}},
    }
