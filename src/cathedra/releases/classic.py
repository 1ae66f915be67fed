"""Differences between releases 1.26 to 1.31, in which drivers allocate, by name."""

from __future__ import annotations

from typing import Final

from cathedra.releases.table import Behaviour

__all__: list[str] = []  # Constants are read as ``classic.NAME``, as those of `cathedra.releases.behaviours`.

_CONTROLLER: Final = "pkg/controller/resourceclaim/controller.go"
_SCHEDULER: Final = "pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go"
_KUBELET: Final = "pkg/kubelet/cm/dra/plugin/client.go"

# --- models of allocation

DRIVERS_ALLOCATE: Final = Behaviour(
    "Controllers of drivers allocate claims, by negotiation with the scheduler.", until="1.31", source="KEP-3063"
)
RESOURCE_CLASSES: Final = Behaviour(
    "The group has ResourceClass, and no version with devices.", until="1.30", source="KEP-3063"
)
SCHEDULING_CONTEXTS: Final = Behaviour(
    "The group has PodSchedulingContext.", since="1.27", until="1.31", source="KEP-3063"
)
CLAIMS_NAME_CONTROLLER: Final = Behaviour(
    "A claim names the controller that allocates it.", since="1.31", until="1.31", source="KEP-3063"
)
STRUCTURED_MODEL: Final = Behaviour(
    "Classes may have structured parameters, with which the scheduler allocates.",
    since="1.30",
    until="1.30",
    source="KEP-4381",
)

# --- API server

V1ALPHA1: Final = Behaviour("The group is served as v1alpha1, with PodScheduling.", until="1.26", source="KEP-3063")
SEVERAL_RESOURCE_HANDLES: Final = Behaviour(
    "An allocation has several resource handles, and cannot be replaced.", since="1.27", source="KEP-3063"
)
STATUS_KEEPS_METADATA: Final = Behaviour(
    "An update of the status leaves metadata as they are.",
    since="1.30",
    source="pkg/registry/resource/resourceclaim/strategy.go",
)

# --- controllers and scheduler

GENERATED_CLAIM_NAMES: Final = Behaviour(
    "The name of a claim from a template is generated; before, pod and entry gave it.", since="1.28", source=_CONTROLLER
)
CONTROLLER_DEALLOCATES: Final = Behaviour(
    "The claim controller reserves claims of placed pods, and takes them back from finished ones.",
    since="1.28",
    source=_CONTROLLER,
)
CONTROLLER_WRITES_CONTEXTS: Final = Behaviour(
    "The claim controller writes the scheduling contexts of placed pods.",
    since="1.28",
    until="1.31",
    source="plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go",
)
CLAIMS_CHECKED_BEFORE_QUEUE: Final = Behaviour(
    "A pod whose claims are missing does not enter the scheduling queue.", since="1.28", source=_SCHEDULER
)
MISSING_CLASS_UNSCHEDULABLE: Final = Behaviour(
    "A missing resource class makes a pod unschedulable; before, it was an error.", since="1.30", source=_SCHEDULER
)
SELECTION_WITHDRAWN: Final = Behaviour(
    "The scheduler withdraws the selected node before it requests a deallocation, and reports the latter.",
    since="1.30",
    source=_SCHEDULER,
)
WAITING_NAMES_STEP: Final = Behaviour(
    "The status of a pod that waits for a driver names the step.", until="1.28", source=_SCHEDULER
)
CLAIM_MISSING_IN_ASSUME_CACHE: Final = Behaviour(
    "A missing claim is reported as «could not find claim».", since="1.30", until="1.30", source=_SCHEDULER
)
CLAIM_MISSING_BY_KIND: Final = Behaviour(
    "A missing claim is reported as «could not find ResourceClaim».", since="1.31", until="1.31", source=_SCHEDULER
)

# --- kubelet

SERVICE_V1ALPHA3: Final = Behaviour(
    "The kubelet calls the services v1alpha3 and v1alpha2 of drivers.", since="1.28", source=_KUBELET
)
SERVICE_V1ALPHA2: Final = Behaviour(
    "The kubelet calls the service v1alpha2 of drivers; before, v1alpha1.", since="1.27", source=_KUBELET
)
KUBELET_PUBLISHES_SLICES: Final = Behaviour(
    "The kubelet publishes slices from what drivers list.", since="1.30", until="1.30", source="KEP-4381"
)
REGISTRATION_ERRORS_NAME_STEP: Final = Behaviour(
    "Errors of a registration name its step.", until="1.30", source="pkg/kubelet/cm/dra/plugin/registration.go"
)
