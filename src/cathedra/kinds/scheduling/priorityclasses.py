"""Priority classes, whose value never changes."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import scheduling_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, RequestContext, ResourceDefinition
from cathedra.kinds.strategies import DefaultedStrategy, ObjectRules, first_generation

MAX_USER_PRIORITY: Final = 1_000_000_000
PRIORITY_COLUMNS: Final = (
    NAME,
    Column("Value", type="integer", description="The priority."),
    Column("Global-Default", type="boolean", description="Whether pods without a class get it."),
    AGE,
    Column("PreemptionPolicy", description="Whether such pods may push out others."),
)


def default_priority_class(priority: scheduling_v1.PriorityClass) -> scheduling_v1.PriorityClass:
    """Return the object with its defaults: a priority that may push out lower ones."""
    return replace(priority, **absent(priority, preemption_policy="PreemptLowerPriority"))


def validate_priority_class(priority: scheduling_v1.PriorityClass) -> ErrorList:
    """Highest values and names that begin with ``system-`` are Kubernetes' own."""
    errors = ErrorList()
    if priority.metadata.name.startswith("system-"):
        if priority.metadata.name not in ("system-cluster-critical", "system-node-critical"):
            text = "priority class names with 'system-' prefix are reserved for system use only. error: "
            text += f"{priority.metadata.name} is not a known system priority class"
            errors.forbidden(FieldPath("metadata").child("name"), text)
    elif priority.value > MAX_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
        errors.forbidden("value", text)
    policy = priority.preemption_policy
    if policy is not None and policy not in ("Never", "PreemptLowerPriority"):
        errors.not_among("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
    return errors


def validate_priority_class_update(new: scheduling_v1.PriorityClass, old: scheduling_v1.PriorityClass) -> ErrorList:
    """Refuse a changed value, for pods have copied it."""
    errors = ErrorList()
    if new.value != old.value:
        errors.forbidden("value", "may not be changed in an update.")
    if new.preemption_policy != old.preemption_policy:
        errors.invalid("preemptionPolicy", new.preemption_policy, "field is immutable")
    return errors


class CountedPriority(DefaultedStrategy[scheduling_v1.PriorityClass]):
    """Priority classes are at generation 1, for their value never changes."""

    def prepare_create(self, obj: scheduling_v1.PriorityClass, context: RequestContext) -> scheduling_v1.PriorityClass:
        """Start the generation at 1."""
        return first_generation(obj)


def priority_class_definition() -> ResourceDefinition[scheduling_v1.PriorityClass]:
    """Return the definition of priorityclasses."""
    return BuiltinKind(
        scheduling_v1.PriorityClass,
        "priorityclasses",
        namespaced=False,
        strategy=CountedPriority(
            default_priority_class, ObjectRules(validate_priority_class, validate_priority_class_update)
        ),
        table=(PRIORITY_COLUMNS, priority_cells),
        short_names=("pc",),
    ).definition()


def priority_cells(priority: scheduling_v1.PriorityClass, now: float) -> list[Any]:
    """Return the cells of a PriorityClass."""
    return [
        priority.metadata.name,
        priority.value,
        priority.global_default,
        age(priority.metadata.creation_timestamp, now),
        priority.preemption_policy or "PreemptLowerPriority",
    ]
