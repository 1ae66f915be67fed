"""Pod templates of workloads: labels that the workload takes over, and columns about the template's containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from cathedra.api.core import core_v1, meta_v1
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import NAME
from cathedra.kinds.core.pods.disabled_fields import enabled_pod_template
from cathedra.kinds.definition import Column, ResourceDefinition

T = TypeVar("T", bound=KubeObject)
CONTAINERS: Final = Column("Containers", priority=1, description="Names of the containers.")
IMAGES: Final = Column("Images", priority=1, description="Images of the containers.")
SELECTOR: Final = Column("Selector", priority=1, description="The pods that belong to it.")
POD_TEMPLATE_COLUMNS: Final = (
    NAME,
    Column("Containers", description="Names of the containers."),
    Column("Images", description="Images of the containers."),
    Column("Pod Labels", description="Labels of the pods."),
)


def with_template_labels(obj: T, template: core_v1.PodTemplateSpec) -> T:
    """Give an object without labels those of its template."""
    metadata = obj.metadata
    if metadata.labels or not template.metadata.labels:
        return obj
    return replace(obj, metadata=replace(metadata, labels=dict(template.metadata.labels)))


def pod_template_cells(obj: core_v1.PodTemplate, now: float) -> list[Any]:
    """Return the cells of a PodTemplate."""
    template = obj.template
    return [obj.metadata.name, *container_cells(template), labels_text(template.metadata.labels)]


def pod_template_definition() -> ResourceDefinition[core_v1.PodTemplate]:
    """Return the definition of podtemplates."""
    return BuiltinKind(
        core_v1.PodTemplate,
        "podtemplates",
        namespaced=True,
        drop_disabled=enabled_pod_template,
        returns_deleted_object=True,
        table=(POD_TEMPLATE_COLUMNS, pod_template_cells),
    ).definition()


def labels_text(labels: Mapping[str, str]) -> str:
    """Return labels as kubectl prints them; ``<none>`` where there are none."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"


def container_cells(template: core_v1.PodTemplateSpec) -> list[Any]:
    """Return names and images of the containers."""
    containers = template.spec.containers if template.spec else ()
    return [",".join(c.name for c in containers), ",".join(c.image for c in containers)]


def selector_text(selector: meta_v1.LabelSelector | None) -> str:
    """Return a label selector as kubectl prints it; ``<none>`` where there is none."""
    if selector is None:
        return "<none>"
    signs = {"In": "in", "NotIn": "notin"}
    terms = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    for expression in selector.match_expressions:
        if expression.operator in signs:
            terms.append(f"{expression.key} {signs[expression.operator]} ({','.join(sorted(expression.values))})")
        else:
            terms.append(expression.key if expression.operator == "Exists" else f"!{expression.key}")
    return ",".join(terms) or "<none>"
