"""Rules of pods (docs/spec/api.md §6; docs/spec/apimachinery.md §16.2), in the order in which Kubernetes reports.

A pod's spec is read by `spec`, which calls `volumes`, `claims`, `containers` (with `resources`, `handlers` and
`security`), `dns` and `scheduling`;
`changes` holds what an update or a new ephemeral container may do, `differences` shows what it did, `resizing` what a
resize may do, and `status` checks what node, scheduler and controllers report. Templates of workloads obey the same
rules as pods.
"""

from __future__ import annotations

from cathedra.kinds.core.pods.validation.changes import (
    validate_ephemeral_containers_update,
    validate_pod_update,
)
from cathedra.kinds.core.pods.validation.resizing import validate_resize
from cathedra.kinds.core.pods.validation.spec import validate_pod, validate_pod_template
from cathedra.kinds.core.pods.validation.status import validate_pod_status_update

__all__ = [
    "validate_ephemeral_containers_update",
    "validate_pod",
    "validate_pod_status_update",
    "validate_pod_template",
    "validate_pod_update",
    "validate_resize",
]
