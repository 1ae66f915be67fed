"""Differences between successive releases of Kubernetes, by name; `cathedra.releases.classic` has 1.26 to 1.31.

Code reads a behaviour from the gates that it receives: ``gates.has(behaviours.TAINT_EFFECT_NONE)``. A rule that a
release changes is declared here, with its releases and its source, and used where the rule is. Differences that a
feature gate switches are not here but in `cathedra.releases.history`.
"""

from __future__ import annotations

from typing import Final

from cathedra.releases.table import Behaviour

__all__: list[str] = []  # Constants are read as ``behaviours.NAME``, so that a use shows where it is declared.

_VALIDATION: Final = "pkg/apis/resource/validation/validation.go"
_PODS: Final = "pkg/apis/core/validation/validation.go"
_SCHEDULER: Final = "pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go"

# --- requests and answers of the API server

CREATION_TIMESTAMP_OMITTED: Final = Behaviour(
    "An absent metadata.creationTimestamp is left out of JSON; before, it was written as null.",
    since="1.34",
    source="staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go",
)
EMULATION_SHOWN: Final = Behaviour(
    "/version shows the emulated and the minimal compatible version beside that of the program.",
    since="1.33",
    source="KEP-4330; staging/src/k8s.io/apimachinery/pkg/version/types.go",
)
UNRECOGNIZED_FORMATS_WARN: Final = Behaviour(
    "A CustomResourceDefinition with a format that is not validated is answered with a warning.",
    since="1.34",
    source="KEP-5073; staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go",
)
DECLARED_TAGS_ENFORCED: Final = Behaviour(
    "Validation tags of kinds that also have written rules are enforced; before, they were only compared with these.",
    since="1.37",
    source="KEP-5073",
)

ANSWERS_HAVE_REVISION: Final = Behaviour(
    "The Status that answers a deletion, a binding or an eviction has the resourceVersion of the write.",
    since="1.38",
    source="kubernetes/kubernetes#138724, #142327, #142197",
)
UNKNOWN_PATHS_ANSWER_STATUS: Final = Behaviour(
    "Unknown paths and groups are answered with a Status; before, with plain text.",
    since="1.38",
    source="kubernetes/kubernetes#138219",
)

BAD_REVISION_IS_BAD_REQUEST: Final = Behaviour(
    "A GET with a resourceVersion that is no number is a bad request; before, an error of the server.",
    since="1.38",
    source="kubernetes/kubernetes#142591",
)

TOO_FEW_ITEMS_NAMED: Final = Behaviour(
    "Custom objects with too few items are refused as such; before, as an invalid value.",
    since="1.38",
    source="kubernetes/kubernetes#141641",
)

LARGE_QUANTITIES_KEPT: Final = Behaviour(
    "A quantity beyond the largest suffix is written with an exponent; before, ``1000E`` was stored as ``1``.",
    since="1.38",
    source="kubernetes/kubernetes#140459",
)
CLAIM_METRICS_LABELLED: Final = Behaviour(
    "Metrics count claims and their creation by outcome, admin access and source; before, in all and failed ones.",
    since="1.33",
    source="pkg/controller/resourceclaim/metrics/metrics.go",
)
CLAIM_METRICS_OF_ALL_COMPONENTS: Final = Behaviour(
    "Metrics of claims begin with dynamic_resource_allocation; before, with the name of a controller.",
    since="1.37",
    source="kubernetes/kubernetes#138542",
)

# --- ResourceSlices

DEVICES_NEED_BASIC: Final = Behaviour(
    "A device without the field basic is refused: a device could only be basic.", until="1.32", source=_VALIDATION
)
DEVICE_KEY_ERRORS_AT_VALUE: Final = Behaviour(
    "Errors in the name of an attribute or capacity are reported at the path of its value.",
    since="1.32",
    until="1.35",
    source=_VALIDATION,
)
STORED_TAINTS_UNVALIDATED: Final = Behaviour(
    "Taints of a device that an update leaves as they are stored are not validated again.",
    since="1.35",
    source=_VALIDATION,
)
STORED_CAPACITY_UNVALIDATED: Final = Behaviour(
    "Capacities of a device that an update leaves as they are stored are not validated again.",
    since="1.37",
    source=_VALIDATION,
)
SIXTEEN_TAINTS_A_DEVICE: Final = Behaviour(
    "A device may have 16 taints; before, 4.", since="1.35", source="staging/src/k8s.io/api/resource/v1/types.go"
)
ATTRIBUTE_WITHOUT_VALUE_INVALID: Final = Behaviour(
    "An attribute without a value is an invalid value; before, a missing one.", since="1.35", source=_VALIDATION
)
CAPACITY_RANGE_STRICT: Final = Behaviour(
    "Errors of a default amount are reported at it; negative steps and amounts beyond 64 bits are refused.",
    since="1.37",
    source=_VALIDATION,
)
COUNTER_LISTS_LIMITED: Final = Behaviour(
    "The lists of counter sets and of consumptions have limits; before, the sum of all counters had one.",
    since="1.35",
    source=_VALIDATION,
)
COUNTER_NAME_ERRORS_AT_MAP: Final = Behaviour(
    "Errors in the name of a counter are reported at the path of the map; before, at that of the value.",
    since="1.36",
    source=_VALIDATION,
)
COUNTERS_IN_OWN_SLICES: Final = Behaviour(
    "Shared counters are published in slices without devices, and devices may consume counters of other slices.",
    since="1.35",
    source="KEP-4815",
)
RICH_SLICES_SMALLER: Final = Behaviour(
    "A slice with a device that has taints or consumes counters holds 64 devices; others hold 128.",
    since="1.35",
    source="staging/src/k8s.io/api/resource/v1/types.go",
)
SLICES_SELECTED_BY_POOL: Final = Behaviour(
    "ResourceSlices have the field selector spec.pool.name.",
    since="1.37",
    source="pkg/registry/resource/resourceslice/strategy.go",
)

# --- names in resource.k8s.io

EMPTY_NAMES_INVALID: Final = Behaviour(
    "An empty name is an invalid value; before, a missing one.", since="1.35", source=_VALIDATION
)
NAMES_WITH_TWO_SLASHES_REFUSED: Final = Behaviour(
    "A qualified name with more than one slash is refused.", since="1.38", source="kubernetes/kubernetes#141644"
)
IDENTIFIERS_INVALID: Final = Behaviour(
    "A malformed identifier is an invalid value; before, one of the wrong type.", since="1.34", source=_VALIDATION
)
EMPTY_FULL_NAMES_REPORTED_ONCE: Final = Behaviour(
    "An empty fully qualified name is reported as an empty name alone.", since="1.32", until="1.34", source=_VALIDATION
)
MISSING_DOMAIN_INVALID: Final = Behaviour(
    "A fully qualified name without a domain is an invalid value; before, its domain was missing.",
    since="1.32",
    source=_VALIDATION,
)

# --- lists in resource.k8s.io

TOO_MANY_ENDS_VALIDATION: Final = Behaviour(
    "A list with too many items is reported without validating its items.", since="1.35", source=_VALIDATION
)
TOO_MANY_ITEMS: Final = Behaviour(
    "A list with too many items is reported as such; before, as a value that is too long.",
    since="1.32",
    source=_VALIDATION,
)
ERRORS_AT_INDEX: Final = Behaviour(
    "A duplicate is reported at its index; before, at its key field.", since="1.35", source=_VALIDATION
)
ERRORS_IN_V1_FORM: Final = Behaviour(
    "Paths of errors are those of v1; before, those of v1beta1, with flat requests and devices inside basic.",
    since="1.33",
    source=_VALIDATION,
)

# --- ResourceClaims

TAINT_EFFECT_NONE: Final = Behaviour(
    "Taints and tolerations may have the effect None.", since="1.35", source="KEP-5055"
)
TOLERATIONS_DROPPED_WITHOUT_GATE: Final = Behaviour(
    "Tolerations of requests are dropped if the gate DRADeviceTaints is off.",
    since="1.35",
    source="pkg/registry/resource/resourceclaim/strategy.go",
)
STORED_SPEC_UNVALIDATED: Final = Behaviour(
    "The spec of a stored claim is not validated again in updates.", since="1.35", source=_VALIDATION
)
STORED_ALLOCATION_UNVALIDATED: Final = Behaviour(
    "A stored allocation is not validated again in updates.", since="1.32", source=_VALIDATION
)
CONSUMERS_256: Final = Behaviour(
    "256 consumers may share a claim; before, 32.",
    since="1.32",
    source="staging/src/k8s.io/api/resource/v1/types.go",
)
INTERFACE_ADDRESSES_CANONICAL: Final = Behaviour(
    "Addresses in a device's network data must be canonical interface addresses.", since="1.33", source=_VALIDATION
)
RESULT_TOLERATIONS_VALIDATED: Final = Behaviour(
    "The tolerations of an allocation result are validated.", since="1.37", source=_VALIDATION
)
ADMIN_ACCESS_NEEDS_LABEL: Final = Behaviour(
    "Admin access needs a label on the namespace; before, only policies could restrict it.",
    since="1.33",
    source="KEP-5018",
)
ADMIN_LABEL_OF_GROUP: Final = Behaviour(
    "The label for admin access has the prefix resource.kubernetes.io; before, resource.k8s.io.",
    since="1.34",
    source="KEP-5018",
)
DISTINCT_BESIDE_MATCH_VALIDATED: Final = Behaviour(
    "The distinctAttribute of a constraint is validated if it has a matchAttribute too.",
    since="1.37",
    source=_VALIDATION,
)
PARAMETERS_LIMITED: Final = Behaviour("Opaque parameters are limited to 10 KiB.", since="1.32", source=_VALIDATION)
SELECTORS_LIMITED: Final = Behaviour(
    "The length and the cost of a CEL selector are limited.", since="1.32", source=_VALIDATION
)
ADMIN_ACCESS_WITHOUT_GATE: Final = Behaviour(
    "Claims may request admin access without a feature gate.", until="1.31", source="KEP-5018"
)

# --- other kinds of resource.k8s.io

TAINT_RULES_MERGED: Final = Behaviour(
    "DeviceTaintRules are merged into slices before anything else reads these, under the gate DRADeviceTaints.",
    since="1.33",
    until="1.34",
    source="KEP-5055",
)
TAINT_RULES_HAVE_STATUS: Final = Behaviour(
    "A DeviceTaintRule has a status and its sub-resource.", since="1.35", source="KEP-5055"
)
POOL_STATUS_COMPLETE: Final = Behaviour(
    "ResourcePoolStatusRequests report unavailable devices, partitions and shares; errors start with their kind.",
    since="1.37",
    source="KEP-5677",
)

TAINT_RULES_NEED_SELECTOR: Final = Behaviour(
    "A DeviceTaintRule without a selector taints no device; before, the scheduler took it to taint every device.",
    since="1.38",
    source="kubernetes/kubernetes#141648",
)
EMPTY_TAINT_SELECTOR_WARNS: Final = Behaviour(
    "A DeviceTaintRule with an empty selector, which taints every device, is answered with a warning.",
    since="1.38",
    source="kubernetes/kubernetes#141831",
)
DEVICE_SELECTORS_HAVE_ONE_TERM: Final = Behaviour(
    "The node selector of a device has exactly one term, as that of a slice.",
    since="1.38",
    source="kubernetes/kubernetes#141213",
)

# --- pods

CLAIM_NAME_ERRORS_AT_FIELD: Final = Behaviour(
    "A malformed resourceClaimName in a pod's status is reported at that field; before, at name.",
    since="1.36",
    source=_PODS,
)
EXTENDED_CLAIMS_IN_STATUS: Final = Behaviour(
    "The claim of a pod's extended resources may be named in the status of containers and of node-allocatable claims.",
    since="1.37",
    source=_PODS,
)
CLAIMS_TAKE_FOR_PODS: Final = Behaviour(
    "A claim that no container uses may take resources of the node for the pod as a whole.",
    since="1.37",
    source="KEP-5517",
)
POD_LEVEL_RESIZE: Final = Behaviour(
    "The resources of a pod as a whole can be resized, and its status has them.", since="1.36", source="KEP-5419"
)
RESIZE_KEEPS_CLAIMS: Final = Behaviour(
    "Pods with node-allocatable claims can be resized.", since="1.37", source="KEP-5517"
)

EMPTY_RUNTIME_CLASS_IS_NONE: Final = Behaviour(
    "A pod with an empty runtimeClassName has no runtime class; before, a class of that name was missing.",
    since="1.38",
    source="kubernetes/kubernetes#140108",
)

# --- other core kinds

CLEARED_RANGES_NAMED: Final = Behaviour(
    "An update that clears a node's podCIDRs is refused as such; before, as any other change.",
    since="1.38",
    source="kubernetes/kubernetes#141260",
)

ATTACH_REQUIRED_NAMED: Final = Behaviour(
    "Errors name the field spec.attachRequired of a CSIDriver; before, spec.attachedRequired, which does not exist.",
    since="1.38",
    source="kubernetes/kubernetes#141597",
)
STORED_QUOTA_AMOUNTS_UNVALIDATED: Final = Behaviour(
    "Amounts of a ResourceQuota that an update leaves as they are stored are not validated again.",
    since="1.38",
    source="kubernetes/kubernetes#142190",
)

KEPT_AMOUNTS_UNLIMITED: Final = Behaviour(
    "Amounts that an update of a volume claim or the resize of a pod keeps are not compared with a LimitRange.",
    since="1.38",
    source="kubernetes/kubernetes#142170, #142171",
)

METADATA_REQUIRES_FIELDS: Final = Behaviour(
    "Missing fields of owners and conditions are Required, with the position of the owner; before, Invalid.",
    since="1.37",
    source="k8s.io/apimachinery, pkg/api/validation/objectmeta.go and pkg/apis/meta/v1/validation/validation.go",
)

# --- groups of pods

GROUP_COUNTS_CHANGE: Final = Behaviour(
    "The minGroupCount of a CompositePodGroup can be changed; before, its policy was immutable.",
    since="1.38",
    source="kubernetes/kubernetes#141023",
)

GROUPS_SHARE_PRIORITY: Final = Behaviour(
    "Groups whose priority or preemptionPolicy differs from that of their root are not scheduled.",
    since="1.38",
    source="kubernetes/kubernetes#141930",
)
COMPOSITE_GROUPS_PROTECTED: Final = Behaviour(
    "A CompositePodGroup has a finalizer while groups below it exist.",
    since="1.38",
    source="kubernetes/kubernetes#141021",
)
COMPOSITE_GROUPS_HAVE_CONDITIONS: Final = Behaviour(
    "The scheduler writes the condition of a CompositePodGroup.",
    since="1.38",
    source="kubernetes/kubernetes#140670",
)

# --- allocator and scheduler

ALLOCATOR_MENDED: Final = Behaviour(
    "The allocator answers as 1.37 does: the faults listed in docs/spec/allocation.md, section 14, are mended.",
    since="1.37",
    source="staging/src/k8s.io/dynamic-resource-allocation/structured/internal/experimental/allocator_experimental.go",
)
NODE_RESOURCES_BY_DEVICE: Final = Behaviour(
    "Devices state the resources of the node that they take; before, by mappings of their capacities.",
    since="1.37",
    source="KEP-5517",
)

CLAIM_DELETIONS_REQUEUE: Final = Behaviour(
    "The deletion of a claim requeues pods that wait for it.", since="1.37", source=_SCHEDULER
)
EMPTY_SPREAD_SELECTORS_COUNT: Final = Behaviour(
    "A topology spread constraint with an empty selector counts every pod of the namespace; before, none.",
    since="1.38",
    source="kubernetes/kubernetes#141340",
)
EMPTY_BUDGETS_PROTECT: Final = Behaviour(
    "Preemption respects a PodDisruptionBudget with an empty selector.",
    since="1.38",
    source="kubernetes/kubernetes#141785",
)
CAPACITY_NAMES_QUALIFIED: Final = Behaviour(
    "A request for a capacity may name it with or without the driver.",
    since="1.38",
    source="kubernetes/kubernetes#142202",
)
BROKEN_POOLS_ARE_NODE_LOCAL: Final = Behaviour(
    "An incomplete or invalid pool makes All fail on the nodes that it reaches; before, it ended the attempt.",
    since="1.38",
    source="kubernetes/kubernetes#141898",
)
GANGS_WITH_WORKLOADS: Final = Behaviour(
    "GenericWorkload switches gangs too; before, the gate GangScheduling did.",
    since="1.37",
    source="kubernetes/kubernetes#139520",
)
GROUPS_SCHEDULED_AS_UNITS: Final = Behaviour(
    "A PodGroup waits in the queue as one entry, PlacementFeasible decides whether enough of it fits, its condition is "
    "PodGroupInitiallyScheduled, and room is made for the group as a whole; before, pods waited one by one, Permit "
    "decided, and the condition was PodGroupScheduled.",
    since="1.37",
    source="kubernetes/kubernetes#138567, #138643; KEP-4671, KEP-5710",
)
FILTER_TIMEOUT_IS_ERROR: Final = Behaviour(
    "A filter that exceeds its time ends the pod's attempt; before, it only excluded the node.",
    since="1.37",
    source=_SCHEDULER,
)
POST_FILTER_IS_SILENT: Final = Behaviour(
    "A post filter that frees no claim adds no text to the event.", since="1.37", source=_SCHEDULER
)

# --- controllers

JOB_SCHEDULING_DECLARED: Final = Behaviour(
    "A job's spec.scheduling states how its pods are scheduled together; before, a gang was inferred from the job.",
    since="1.37",
    source="KEP-5547; pkg/controller/job/job_scheduling_manager.go",
)
GROUP_CLAIMS_BLOCKED_WITHOUT_GATE: Final = Behaviour(
    "Pods of a PodGroup get no claims while a gate for shared claims is off; before, each pod got its own.",
    since="1.37",
    source="pkg/controller/resourceclaim/controller.go",
)
EVERY_TAINT_EFFECT_EVICTS: Final = Behaviour(
    "The eviction controller compares tolerations with taints of every effect.",
    since="1.37",
    source="pkg/controller/devicetainteviction/device_taint_eviction.go",
)

EXTENDED_CLAIMS_EVICTED: Final = Behaviour(
    "A NoExecute taint evicts pods that hold the device for extended resources.",
    since="1.38",
    source="kubernetes/kubernetes#142289",
)

# --- node

KUBELET_WIPES_SLICES: Final = Behaviour(
    "The kubelet deletes slices of drivers that are gone; before, it published slices itself.",
    since="1.31",
    source="pkg/kubelet/cm/dra/plugin/registration.go",
)
IN_PLACE_RESIZE: Final = Behaviour("The kubelet resizes running containers.", since="1.33", source="KEP-1287")
SHORT_CONTAINER_EVENTS: Final = Behaviour(
    "Events of containers leave the name to the field that they are about.",
    since="1.35",
    source="pkg/kubelet/kuberuntime/kuberuntime_container.go",
)
DRA_SERVICE_V1: Final = Behaviour(
    "The kubelet calls the DRA service v1 of drivers.", since="1.34", source="pkg/kubelet/cm/dra/plugin/registration.go"
)
DRA_SERVICE_V1BETA1: Final = Behaviour(
    "The kubelet calls the DRA service v1beta1 of drivers.",
    since="1.32",
    source="pkg/kubelet/cm/dra/plugin/registration.go",
)
METADATA_VERSIONS_ASCENDING: Final = Behaviour(
    "Device metadata files list their versions from the oldest; before, from the newest.",
    since="1.37",
    source="KEP-5304",
)
