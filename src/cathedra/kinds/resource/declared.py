"""The tags of resource.k8s.io, and their errors (docs/spec/api.md §3.1; k8s.io/api 1.37, resource/*/types.go).

v1 and v1beta2 have the same tags; v1beta1 has them on its own form, with flat requests and devices in ``basic``. The
spec of a claim template is opaque to them.
"""

from __future__ import annotations

import re
from typing import Any, Final

from cathedra.api.field import ErrorList
from cathedra.kinds.declarative import (
    FieldTags,
    TypeTags,
    extended_resource_name,
    forbidden,
    fully_qualified_name,
    label_key,
    long_name,
    long_name_caseless,
    max_bytes,
    max_length,
    one_of,
    pool_name,
    short_name,
    uuid,
    with_tags,
)
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.resource.versions import Shapes
from cathedra.releases import FeatureGates, behaviours


class KindTags:
    """The tags of a kind: ``hub`` for the form of v1, ``flat`` for that of v1beta1."""

    def __init__(self, hub: TypeTags, flat: TypeTags) -> None:
        self.hub, self.flat = hub, flat


_EFFECT: Final = one_of("NoExecute", "NoSchedule", "None")
_OPERATIONS: Final = FieldTags(
    unique=(), checks=(one_of("*", "NodePrepareResources", "NodeUnprepareResources"),), stable=True
)
_REFERENCES: Final = FieldTags(max_items=32, unique=())
_SELECTORS: Final = FieldTags(max_items=32)
_CONDITIONS: Final = FieldTags(max_items=4)
_MODE: Final = FieldTags(checks=(one_of("All", "ExactCount"),))
_DRIVER: Final = FieldTags(required=True, checks=(long_name_caseless, max_length(63)))
_SHARE: Final = FieldTags(checks=(uuid,))
_ATTRIBUTE_NAME: Final = FieldTags(checks=(fully_qualified_name,))
_TAINT: Final = TypeTags({"effect": FieldTags(required=True, checks=(_EFFECT,))})
_TOLERATIONS: Final = FieldTags(
    of=TypeTags(
        {
            "key": FieldTags(checks=(label_key,)),
            "operator": FieldTags(checks=(one_of("Equal", "Exists"),)),
            "effect": FieldTags(checks=(_EFFECT,)),
        }
    )
)
_OPAQUE: Final = FieldTags(of=TypeTags({"driver": _DRIVER}))

# --- claims

_ALTERNATIVES: Final = FieldTags(
    max_items=8,
    unique=("name",),
    of=TypeTags(
        {
            "deviceClassName": FieldTags(required=True, checks=(long_name,)),
            "selectors": _SELECTORS,
            "allocationMode": _MODE,
            "tolerations": _TOLERATIONS,
        }
    ),
)
_EXACTLY: Final = TypeTags({"selectors": _SELECTORS, "allocationMode": _MODE, "tolerations": _TOLERATIONS})
_REQUEST: Final = TypeTags({"exactly": FieldTags(of=_EXACTLY), "firstAvailable": _ALTERNATIVES})
_FLAT_REQUEST: Final = TypeTags(
    {
        "selectors": _SELECTORS,
        "allocationMode": _MODE,
        "firstAvailable": _ALTERNATIVES,
        "tolerations": _TOLERATIONS,
    }
)
_CONSTRAINT: Final = TypeTags(
    {"requests": _REFERENCES, "matchAttribute": _ATTRIBUTE_NAME, "distinctAttribute": _ATTRIBUTE_NAME}
)
_RESULT: Final = TypeTags(
    {
        "driver": _DRIVER,
        "pool": FieldTags(required=True, checks=(pool_name,)),
        "tolerations": _TOLERATIONS,
        "bindingConditions": _CONDITIONS,
        "bindingFailureConditions": _CONDITIONS,
        "shareID": _SHARE,
        "skipNodeOperations": _OPERATIONS,
    }
)
_SOURCE: Final = FieldTags(required=True, checks=(one_of("FromClaim", "FromClass"),))
_ALLOCATION: Final = TypeTags(
    {
        "devices": FieldTags(
            of=TypeTags(
                {
                    "results": FieldTags(max_items=32, of=_RESULT),
                    "config": FieldTags(
                        max_items=64,
                        of=TypeTags({"source": _SOURCE, "requests": _REFERENCES, "opaque": _OPAQUE}),
                    ),
                }
            )
        )
    }
)
_NETWORK: Final = TypeTags(
    {
        "interfaceName": FieldTags(checks=(max_bytes(256),)),
        "ips": FieldTags(max_items=16, unique=()),
        "hardwareAddress": FieldTags(checks=(max_bytes(128),)),
    }
)
_STATUS: Final = TypeTags(
    {
        "allocation": FieldTags(unmodified=True, of=_ALLOCATION),
        "reservedFor": FieldTags(max_items=256, unique=("uid",)),
        "devices": FieldTags(
            unique=("driver", "device", "pool", "shareID"),
            of=TypeTags({"shareID": _SHARE, "networkData": FieldTags(of=_NETWORK)}),
        ),
    }
)


def _claim(request: TypeTags) -> TypeTags:
    devices = TypeTags(
        {
            "requests": FieldTags(max_items=32, unique=("name",), of=request),
            "constraints": FieldTags(max_items=32, of=_CONSTRAINT),
            "config": FieldTags(max_items=32, of=TypeTags({"requests": _REFERENCES, "opaque": _OPAQUE})),
        }
    )
    spec = FieldTags(immutable=True, of=TypeTags({"devices": FieldTags(of=devices)}))
    return TypeTags({"spec": spec, "status": FieldTags(of=_STATUS)})


CLAIM_TAGS: Final = KindTags(_claim(_REQUEST), _claim(_FLAT_REQUEST))
"""Of ResourceClaim, for the claim and its status."""

# --- classes

_CLASS: Final = TypeTags(
    {
        "metadata": FieldTags(of=TypeTags({"name": FieldTags(checks=(long_name,))})),
        "spec": FieldTags(
            of=TypeTags(
                {
                    "selectors": _SELECTORS,
                    "config": FieldTags(max_items=32, of=TypeTags({"opaque": _OPAQUE})),
                    "extendedResourceName": FieldTags(checks=(extended_resource_name,)),
                }
            )
        ),
    }
)
CLASS_TAGS: Final = KindTags(_CLASS, _CLASS)
"""Validation tags of DeviceClass in Kubernetes' sources."""

# --- slices

_NAME: Final = FieldTags(required=True, checks=(short_name,))
_COUNTERS: Final = FieldTags(required=True, keys=(short_name,))
_VALUE: Final = TypeTags(union=("int", "bool", "string", "version", "ints", "bools", "strings", "versions"))
_NODE_RESOURCE: Final = TypeTags(
    {"mapping": FieldTags(of=TypeTags(union=("capacityKey", "deviceMultiplier"), stable=True))}
)
_DEVICE: Final = TypeTags(
    {
        "attributes": FieldTags(of=_VALUE),
        "consumesCounters": FieldTags(
            max_items=2, unique=("counterSet",), of=TypeTags({"counterSet": _NAME, "counters": _COUNTERS})
        ),
        "taints": FieldTags(of=_TAINT),
        "bindingConditions": _CONDITIONS,
        "bindingFailureConditions": _CONDITIONS,
        "nodeAllocatableResources": FieldTags(of=_NODE_RESOURCE),
    }
)


def _slice(device: TypeTags, partition_type: FieldTags) -> TypeTags:
    sets = FieldTags(max_items=8, unique=("name",), of=TypeTags({"name": _NAME, "counters": _COUNTERS}))
    spec = TypeTags(
        {
            "devices": FieldTags(of=device),
            "sharedCounters": sets,
            "partitionTypeAttribute": partition_type,
            "skipNodeOperations": _OPERATIONS,
        }
    )
    return TypeTags({"spec": FieldTags(of=spec)})


def _slice_tags(partition_type: FieldTags) -> KindTags:
    flat = TypeTags({"basic": FieldTags(of=_DEVICE)})
    return KindTags(_slice(_DEVICE, partition_type), _slice(flat, partition_type))


_SLICE: Final = _slice_tags(FieldTags(checks=(fully_qualified_name,), stable=True))
_SLICE_WITHOUT_TYPE: Final = _slice_tags(FieldTags(checks=(forbidden,), stable=True))


def slice_tags(gates: FeatureGates) -> KindTags:
    """Return the tags of ResourceSlice."""
    return _SLICE if gates["DRAPartitionableDevicesType"] else _SLICE_WITHOUT_TYPE


# --- taint rules

_RULE: Final = TypeTags({"spec": FieldTags(of=TypeTags({"taint": FieldTags(of=_TAINT)}))})
TAINT_RULE_TAGS: Final = KindTags(_RULE, _RULE)
"""Validation tags of DeviceTaintRule in Kubernetes' sources."""

_FLAT_FIELD: Final = re.compile(
    r"spec\.devices\.requests\[(\d+)\]\."
    r"(deviceClassName|selectors|allocationMode|count|adminAccess|tolerations|derivedAttributes)"
)
_BASIC: Final = re.compile(r"spec\.devices\[(\d+)\]\.basic\.")


def _in_hub_form(path: str) -> str:
    """Return a path of v1beta1 in the form that the rules of the kind use."""
    return _BASIC.sub(r"spec.devices[\1].", _FLAT_FIELD.sub(r"spec.devices.requests[\1].exactly.\2", path))


def with_declared(
    found: ErrorList, tags: KindTags, shapes: Shapes | None, new: Any, old: Any, context: RequestContext
) -> ErrorList:
    """Merge the errors that a kind's rules ``found`` in an object with those of the request version's tags."""
    gates = context.gates
    if (
        shapes is None
        or not gates.has(behaviours.DECLARED_TAGS_ENFORCED)
        or not context.api_version.endswith("/v1beta1")
    ):
        return with_tags(found, tags.hub, new, old, gates)
    seen = shapes.v1beta1.from_hub
    stored = seen(old) if old is not None else None
    return with_tags(found, tags.flat, seen(new), stored, gates, _in_hub_form)
