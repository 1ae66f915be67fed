"""Rules of pods, in the order in which Kubernetes reports errors.

Spec: docs/spec/api.md §6; docs/spec/apimachinery.md §16.2.

`_spec` validates a spec and calls `_volumes`, `_resources`, `_containers` and `_security`. `_changes` has the rules of
updates and of new ephemeral containers, `_resizing` those of a resize, and `_status` those of what nodes, scheduler and
controllers report. Templates of workloads obey the same rules as pods.
"""

from __future__ import annotations

from cathedra.kinds.core.pods.validation._changes import (
    spec_form,
    validate_ephemeral_containers_update,
    validate_pod_update,
)
from cathedra.kinds.core.pods.validation._resizing import validate_resize
from cathedra.kinds.core.pods.validation._spec import validate_pod, validate_pod_template
from cathedra.kinds.core.pods.validation._status import validate_pod_status_update

__all__ = [
    "spec_form",
    "validate_ephemeral_containers_update",
    "validate_pod",
    "validate_pod_status_update",
    "validate_pod_template",
    "validate_pod_update",
    "validate_resize",
]
