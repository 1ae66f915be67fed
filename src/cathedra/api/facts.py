"""The wire facts of the built-in types: names, Go types, protobuf numbers, list and patch semantics.

``core/kubernetes-types.json`` holds them as of one moment, ``core/classic-types.json`` those of resource.k8s.io until
1.30; what other releases have besides is added here. Generator, decoder, protobuf codec, apply and OpenAPI all read the
same facts. They are loaded on first use only.
"""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any, Final

Fields = dict[str, dict[str, Any]]

GROUP_NAMES: Final = {
    "admission": "admission.k8s.io",
    "admissionregistration": "admissionregistration.k8s.io",
    "apidiscovery": "apidiscovery.k8s.io",
    "apiextensions": "apiextensions.k8s.io",
    "apiregistration": "apiregistration.k8s.io",
    "authentication": "authentication.k8s.io",
    "authorization": "authorization.k8s.io",
    "certificates": "certificates.k8s.io",
    "coordination": "coordination.k8s.io",
    "core": "",
    "discovery": "discovery.k8s.io",
    "events": "events.k8s.io",
    "flowcontrol": "flowcontrol.apiserver.k8s.io",
    "meta": "meta.k8s.io",
    "networking": "networking.k8s.io",
    "node": "node.k8s.io",
    "rbac": "rbac.authorization.k8s.io",
    "resource": "resource.k8s.io",
    "scheduling": "scheduling.k8s.io",
    "storage": "storage.k8s.io",
}
"""Package of the facts → API group, where they differ."""

_TEXT: Final = {"pbtype": "bytes", "type": "string"}
_DERIVED: Final = {
    "featureGate": "DRADerivedAttributes",
    "listType": "atomic",
    "omitempty": True,
    "optional": True,
    "pb": 8,
    "pbtype": "bytes",
    "repeated": True,
    "type": "[]DeviceDerivedAttribute",
}
_GROUPS: Final = {
    "featureGate": "DRADeviceCompatibilityGroups",
    "listType": "atomic",
    "omitempty": True,
    "optional": True,
    "pb": 3,
    "pbtype": "bytes",
    "repeated": True,
    "type": "[]string",
}
_MAPPINGS: Final = {
    "featureGate": "DRANodeAllocatableResources",
    "omitempty": True,
    "optional": True,
    "pb": 13,
    "pbtype": "bytes",
    "repeated": True,
    "type": "map[v1.ResourceName]NodeAllocatableResourceMapping",
}
_VALUE: Final = {"omitempty": True, "optional": True, "pb": 1, "pbtype": "bytes", "type": "*resource.Quantity"}
_SHARED_CAPACITY: Final = {
    "featureGate": "DRASharedConsumableCapacity",
    "omitempty": True,
    "optional": True,
    "pbtype": "bytes",
}
# Kubernetes splits the type in two from 1.38 on: SharedCounter with a policy, and ConsumeCounter with a reference.
_COUNTER: Final = {
    "value": _VALUE,
    "requestPolicy": {**_SHARED_CAPACITY, "pb": 2, "type": "*CapacityRequestPolicy"},
    "valueFrom": {**_SHARED_CAPACITY, "pb": 3, "type": "*CounterValueFrom"},
}
_CONSUMED: Final = {
    **_SHARED_CAPACITY,
    "listMapKey": "counterSet",
    "listType": "map",
    "pb": 12,
    "repeated": True,
    "type": "[]CounterSetConsumption",
}
_OLD_SELECTOR: Final = {
    "deviceClassName": {"omitempty": True, "optional": True, "pb": 1, **_TEXT, "type": "*string"},
    "selectors": {
        "listType": "atomic",
        "omitempty": True,
        "optional": True,
        "pb": 5,
        "pbtype": "bytes",
        "repeated": True,
        "type": "[]DeviceSelector",
    },
}
"""Fields that select devices besides their names, which taint rules had before they came to beta."""
_NEW_TYPES: Final[dict[str, Any]] = {
    "DeviceDerivedAttribute": {
        "fields": {
            "name": {"pb": 1, "required": True, **_TEXT, "type": "FullyQualifiedName"},
            "expression": {"pb": 2, "required": True, **_TEXT},
        }
    },
    "CounterValueFrom": {"fields": {"capacityName": {"pb": 1, "required": True, **_TEXT, "type": "QualifiedName"}}},
    "CounterSetConsumption": {
        "fields": {
            "counterSet": {"pb": 1, "required": True, **_TEXT},
            "counters": {
                "omitempty": True,
                "pb": 2,
                "pbtype": "bytes",
                "repeated": True,
                "required": True,
                "type": "map[string]resource.Quantity",
            },
        }
    },
    "NodeAllocatableResourceMapping": {
        "fields": {
            "capacityKey": {"omitempty": True, "optional": True, "pb": 1, **_TEXT, "type": "*QualifiedName"},
            "allocationMultiplier": {
                "omitempty": True,
                "optional": True,
                "pb": 2,
                "pbtype": "bytes",
                "type": "*resource.Quantity",
            },
        }
    },
}
_NEW_FIELDS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "resource/v1": {
        "ExactDeviceRequest": {"derivedAttributes": _DERIVED},
        "DeviceSubRequest": {"derivedAttributes": _DERIVED},
        "Counter": _COUNTER,
        "DeviceCounterConsumption": {"compatibilityGroups": _GROUPS},
        "DeviceRequestAllocationResult": {"consumedCounters": _CONSUMED},
        "Device": {"nodeAllocatableResourceMappings": _MAPPINGS},
        "DeviceTaintSelector": _OLD_SELECTOR,
    },
    "resource/v1alpha3": {"DeviceTaintSelector": _OLD_SELECTOR},
    "resource/v1beta2": {
        "ExactDeviceRequest": {"derivedAttributes": _DERIVED},
        "DeviceSubRequest": {"derivedAttributes": _DERIVED},
        "Counter": _COUNTER,
        "DeviceCounterConsumption": {"compatibilityGroups": _GROUPS},
        "DeviceRequestAllocationResult": {"consumedCounters": _CONSUMED},
        "Device": {"nodeAllocatableResourceMappings": _MAPPINGS},
    },
    "resource/v1beta1": {
        "DeviceRequest": {"derivedAttributes": {**_DERIVED, "pb": 10}},
        "DeviceSubRequest": {"derivedAttributes": {**_DERIVED, "pb": 9}},
        "Counter": _COUNTER,
        "DeviceCounterConsumption": {"compatibilityGroups": _GROUPS},
        "DeviceRequestAllocationResult": {"consumedCounters": _CONSUMED},
        "BasicDevice": {"nodeAllocatableResourceMappings": {**_MAPPINGS, "pb": 12}},
    },
    "core/v1": {
        "NodeAllocatableResourceClaimStatus": {
            "resources": {
                "omitempty": True,
                "optional": True,
                "pb": 3,
                "pbtype": "bytes",
                "repeated": True,
                "type": "ResourceList",
            }
        },
        "NodeSystemInfo": {
            "runningInUserNamespace": {
                "omitempty": True,
                "optional": True,
                "pb": 12,
                "pbtype": "varint",
                "type": "*bool",
            }
        },
        "PodSpec": {
            "workloadRef": {
                "omitempty": True,
                "optional": True,
                "pb": 42,
                "pbtype": "bytes",
                "type": "*WorkloadReference",
            }
        },
        "PodResourceClaim": {"source": {"omitempty": True, "pb": 2, "pbtype": "bytes", "type": "*ClaimSource"}},
    },
}

_SCHEDULING_1ALPHA2: Final = (
    "BasicSchedulingPolicy",
    "GangSchedulingPolicy",
    "PodGroup",
    "PodGroupList",
    "PodGroupResourceClaim",
    "PodGroupResourceClaimStatus",
    "PodGroupSchedulingConstraints",
    "PodGroupSchedulingPolicy",
    "PodGroupSpec",
    "PodGroupStatus",
    "PodGroupTemplate",
    "TopologyConstraint",
    "TypedLocalObjectReference",
    "Workload",
    "WorkloadList",
    "WorkloadSpec",
)
"""Types of scheduling.k8s.io/v1alpha2 (release 1.36) that have the shape of v1alpha3, but for what follows."""
_SCHEDULING_1ALPHA2_GONE: Final = {
    "PodGroupSpec": ("parentCompositePodGroupName", "preemptionPolicy", "workloadRef"),
    "PodGroupTemplate": ("preemptionPolicy",),
    "WorkloadSpec": ("compositePodGroupTemplates",),
}
_SCHEDULING_1ALPHA2_NUMBERS: Final = {
    "PodGroupSpec": (
        "podGroupTemplateRef",
        "schedulingPolicy",
        "schedulingConstraints",
        "resourceClaims",
        "disruptionMode",
        "priorityClassName",
        "priority",
    ),
}
_SCHEDULING_1ALPHA2_NEW: Final[dict[str, Any]] = {
    "DisruptionMode": {"alias": "string"},
    "PodGroupTemplateReference": {
        "fields": {
            "workload": {
                "omitempty": True,
                "optional": True,
                "pb": 1,
                "pbtype": "bytes",
                "type": "*WorkloadPodGroupTemplateReference",
            }
        }
    },
    "WorkloadPodGroupTemplateReference": {
        "fields": {
            "workloadName": {"pb": 1, "required": True, **_TEXT},
            "podGroupTemplateName": {"pb": 2, "required": True, **_TEXT},
        }
    },
}


def _scheduling_v1alpha2(newer: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    types = {name: copy.deepcopy(newer[name]) for name in _SCHEDULING_1ALPHA2}
    for name, gone in _SCHEDULING_1ALPHA2_GONE.items():
        for field in gone:
            del types[name]["fields"][field]
    reference = {"optional": True, "pb": 1, "pbtype": "bytes", "type": "*PodGroupTemplateReference"}
    types["PodGroupSpec"]["fields"]["podGroupTemplateRef"] = reference
    for name, fields in _SCHEDULING_1ALPHA2_NUMBERS.items():
        for number, field in enumerate(fields, 1):
            types[name]["fields"][field]["pb"] = number
    # The mode is a text there.
    types["PodGroupSpec"]["fields"]["disruptionMode"]["default"] = '"Pod"'
    return types | _SCHEDULING_1ALPHA2_NEW


_RESOURCE_1ALPHA3_131: Final[dict[str, dict[str, Any]]] = {
    "ResourceClaimSpec": {"controller": {"omitempty": True, "optional": True, "pb": 2, **_TEXT}},
    "ResourceClaimStatus": {
        "deallocationRequested": {"omitempty": True, "optional": True, "pb": 3, "pbtype": "varint", "type": "bool"}
    },
    "AllocationResult": {"controller": {"omitempty": True, "optional": True, "pb": 4, **_TEXT}},
    "DeviceClassSpec": {
        "suitableNodes": {"omitempty": True, "optional": True, "pb": 3, "pbtype": "bytes", "type": "*v1.NodeSelector"}
    },
}
"""Fields that 1.31 has for claims that a controller in the control plane allocates."""
_CONTEXT: Final = (
    "PodSchedulingContext",
    "PodSchedulingContextList",
    "PodSchedulingContextSpec",
    "PodSchedulingContextStatus",
    "ResourceClaimSchedulingStatus",
)
"""Types of v1alpha2 that 1.31 had in v1alpha3 too."""


def _resource_v1alpha3(
    beta: dict[str, dict[str, Any]], classic: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the device types of v1alpha3 as in 1.31 to 1.33, where capacities are bare quantities."""
    types = copy.deepcopy(beta) | {name: classic[name] for name in _CONTEXT}
    types["BasicDevice"]["fields"]["capacity"]["type"] = "map[QualifiedName]resource.Quantity"
    for name, fields in _RESOURCE_1ALPHA3_131.items():
        types[name]["fields"] |= fields
    return types


@cache
def load() -> dict[str, dict[str, dict[str, Any]]]:
    """Return all facts: ``group/version`` (the group's first word) → type → its fields, or the type behind an alias."""
    facts: dict[str, dict[str, dict[str, Any]]] = _read("kubernetes-types.json")
    for package, types in _read("classic-types.json").items():
        facts.setdefault(package, {}).update(types)
    for package, types in _NEW_FIELDS.items():
        for name, fields in types.items():
            facts[package][name]["fields"] |= fields
        if package.startswith("resource/"):
            facts[package] |= _NEW_TYPES
    facts["core/v1"]["WorkloadReference"] = {
        "fields": {
            "name": {"pb": 1, **_TEXT},
            "podGroup": {"pb": 2, **_TEXT},
            "podGroupReplicaKey": {"omitempty": True, "optional": True, "pb": 3, **_TEXT},
        }
    }
    facts["scheduling/v1alpha2"] = _scheduling_v1alpha2(facts["scheduling/v1alpha3"])
    older = _resource_v1alpha3(facts["resource/v1beta1"], facts["resource/v1alpha2"])
    facts["resource/v1alpha3"] = older | facts["resource/v1alpha3"]
    for name, names in {
        "GroupVersionKind": ("group", "version", "kind"),
        "GroupVersionResource": ("group", "version", "resource"),
    }.items():
        # Not among the facts because they carry no markers; plain structs of three texts.
        facts["meta/v1"][name] = {"fields": {field: {"type": "string", "pb": i} for i, field in enumerate(names, 1)}}
    return facts


def _read(name: str) -> Any:
    return json.loads((Path(__file__).parent / "core" / name).read_bytes())


def group_version(package: str) -> str:
    """Return the apiVersion of a package of the facts: ``resource/v1`` → ``resource.k8s.io/v1``, ``core/v1`` →
    ``v1``."""
    group, version = package.split("/")
    name = GROUP_NAMES.get(group, group)
    return f"{name}/{version}" if name else version


def fields_of(package: str, name: str) -> Fields:
    """Return the fields of a type by JSON name, inlined ones included, TypeMeta too.

    Raises:
        KeyError: there is no such type, or it has no fields of its own.
    """
    return load()[package][name]["fields"]  # type: ignore[no-any-return]  # plain JSON
