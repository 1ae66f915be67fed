"""ResourceQuotas with their scopes, and the charge of an object that is neither pod nor claim.

Each object is charged as one of its kind, and services and volumes as a little more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.field import Constant, ErrorList, FieldPath
from cathedra.api.quantity import Quantity
from cathedra.api.scheme import GroupResource
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.core.resourcenames import check_amount, is_standard_quota_resource, quota_resource_problems
from cathedra.kinds.definition import Column, RequestContext, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules, SpecStrategy, StatusStrategy
from cathedra.releases import FeatureGates, behaviours

QUOTA_COLUMNS: Final = (
    NAME,
    Column("Request", description="Requests and counts: used/allowed."),
    Column("Limit", description="Limits: used/allowed."),
    AGE,
)
_OWN_NAMES: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
"""Core resources that may also be limited by their plain name."""
_OF_PODS: Final = frozenset({"pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
_OF_VOLUMES: Final = frozenset({"persistentvolumeclaims", "requests.storage"})
_SCOPES: Final[Mapping[str, frozenset[str]]] = {
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _OF_PODS,
    "Terminating": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "CrossNamespacePodAffinity": _OF_PODS,
    "VolumeAttributesClass": _OF_VOLUMES,
}
"""Scope → the resources that can be limited in it."""
_WITH_VALUES: Final = frozenset({"PriorityClass", "VolumeAttributesClass"})
_EXCLUSIVE: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_MUST_EXIST: Final = (
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
Amounts = Mapping[str, Quantity]
_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")


def validate_quota(quota: core_v1.ResourceQuota, *stored: Amounts) -> ErrorList:
    """Validate names and amounts of resources, and scopes that have a meaning for them (ValidateResourceQuota)."""
    errors, spec = ErrorList(), quota.spec
    _check_amounts(errors, _SPEC.child("hard"), spec.hard, *stored)
    scopes = spec.scopes
    shown = list(scopes)  # one list for all errors that show it
    # A scope that is repeated is judged once, so that the work does not grow with scopes times resources.
    for scope in dict.fromkeys(scopes):
        if scope not in _SCOPES:
            errors.invalid(_SPEC.child("scopes"), shown, "unsupported scope")
        for _ in _outside(scope, spec.hard):
            errors.invalid(_SPEC.child("scopes"), shown, "unsupported scope applied to resource")
    for pair in _EXCLUSIVE:
        if pair <= set(scopes):
            errors.invalid(_SPEC.child("scopes"), shown, "conflicting scopes")
    if spec.scope_selector is not None:
        _check_selector(errors, spec)
    return errors


def _check_amounts(errors: ErrorList, path: FieldPath, amounts: Amounts, *stored: Amounts) -> None:
    """Check names, and amounts that none of ``stored`` has."""
    for name, amount in sorted(amounts.items()):
        for problem in quota_resource_problems(name):
            errors.invalid(path.key(name), name, problem)
        if all(known.get(name) != amount for known in stored):
            check_amount(errors, path.key(name), name, amount)


def _outside(scope: str, hard: Mapping[str, Quantity]) -> list[str]:
    """Return the resources that have no meaning in a scope. Those with a domain are not judged."""
    known = _SCOPES.get(scope)
    if known is None:
        return []
    # Extended resources may be counted in every scope, because pods of every class can request them.
    return [name for name in sorted(hard) if is_standard_quota_resource(name) and name not in known]


def _check_selector(errors: ErrorList, spec: core_v1.ResourceQuotaSpec) -> None:
    selector = spec.scope_selector
    path = _SPEC.child("scopeSelector", "matchExpressions")
    requirements = selector.match_expressions if selector is not None else ()
    outside = {scope: len(_outside(scope, spec.hard)) for scope in _SCOPES} if requirements else {}
    for requirement in requirements:
        scope, operator, values = requirement.scope_name, requirement.operator, requirement.values
        if scope not in _SCOPES:
            errors.invalid(path.child("scopeName"), Constant(scope), "unsupported scope")
        # ``pop``: a scope that several requirements name reports its resources once. Without it the Status would grow
        # with requirements times resources.
        for _ in range(outside.pop(scope, 0)):
            errors.invalid(path, selector, "unsupported scope applied to resource")
        if scope in _SCOPES and scope not in _WITH_VALUES and operator != "Exists":
            errors.invalid(path.child("operator"), Constant(operator), _MUST_EXIST)
        if operator in ("In", "NotIn"):
            if not values:
                why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.required(path.child("values"), why)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.invalid(path.child("values"), list(values), why)
        else:
            errors.invalid(path.child("operator"), Constant(operator), "not a valid selector operator")
    for pair in _EXCLUSIVE:
        if pair <= {requirement.scope_name for requirement in requirements}:
            errors.invalid(path, list(spec.scopes) or None, "conflicting scopes")


def validate_quota_update(new: core_v1.ResourceQuota, old: core_v1.ResourceQuota, gates: FeatureGates) -> ErrorList:
    """Validate a changed quota as `validate_quota` does, and require that its scopes stay."""
    errors = validate_quota(new, *_kept(gates, old.spec.hard))
    # The recorded usage was counted for the old scopes. With others it would be wrong until the controller recounts,
    # and admission would compare new pods with it.
    if set(new.spec.scopes) != set(old.spec.scopes):
        errors.invalid(_SPEC.child("scopes"), list(new.spec.scopes) or None, "field is immutable")
    return errors


def validate_quota_status(new: core_v1.ResourceQuota, old: core_v1.ResourceQuota, gates: FeatureGates) -> ErrorList:
    """Validate names and amounts of the resources in the status."""
    errors = ErrorList()
    # The controller copies spec.hard to status.hard: an amount that the spec may keep must not stop it.
    kept = _kept(gates, old.status.hard, old.spec.hard)
    _check_amounts(errors, _STATUS.child("hard"), new.status.hard, *kept)
    _check_amounts(errors, _STATUS.child("used"), new.status.used, *_kept(gates, old.status.used))
    return errors


def _kept(gates: FeatureGates, *stored: Amounts) -> tuple[Amounts, ...]:
    """Return the amounts that an update may keep although they are invalid."""
    return stored if gates.has(behaviours.STORED_QUOTA_AMOUNTS_UNVALIDATED) else ()


class QuotaStrategy(SpecStrategy[core_v1.ResourceQuota]):
    """A quota keeps amounts that an older release accepted."""

    def validate_update(
        self, new: core_v1.ResourceQuota, old: core_v1.ResourceQuota, context: RequestContext
    ) -> ErrorList:
        """Check the rules of a change, which depend on the release."""
        return validate_quota_update(new, old, context.gates)


class QuotaStatusStrategy(StatusStrategy[core_v1.ResourceQuota]):
    """The status of a quota, which its controller fills from the spec."""

    def validate_update(
        self, new: core_v1.ResourceQuota, old: core_v1.ResourceQuota, context: RequestContext
    ) -> ErrorList:
        """Check the rules of a changed status, which depend on the release."""
        return validate_quota_status(new, old, context.gates)


def quota_definition() -> ResourceDefinition[core_v1.ResourceQuota]:
    """Return the definition of resourcequotas."""
    return BuiltinKind(
        core_v1.ResourceQuota,
        "resourcequotas",
        returns_deleted_object=True,
        namespaced=True,
        strategy=QuotaStrategy(rules=ObjectRules(validate_quota)),
        status=QuotaStatusStrategy(),
        table=(QUOTA_COLUMNS, quota_cells),
        short_names=("quota",),
    ).definition()


def quota_cells(quota: core_v1.ResourceQuota, now: float) -> list[Any]:
    """Return the cells of a ResourceQuota."""
    used = quota.status.used
    entries = {name: f"{name}: {used.get(name, 0)}/{hard}" for name, hard in sorted(quota.status.hard.items())}
    requests = ", ".join(text for name, text in entries.items() if not name.startswith("limits"))
    limits = ", ".join(text for name, text in entries.items() if name.startswith("limits"))
    return [quota.metadata.name, requests, limits, age(quota.metadata.creation_timestamp, now)]


def count_name(resource: GroupResource) -> str:
    """``count/jobs.batch``: the name by which a quota limits the number of any resource's objects."""
    return f"count/{resource.resource}.{resource.group}" if resource.group else f"count/{resource.resource}"


def object_usage(resource: GroupResource, obj: KubeObject) -> dict[str, Quantity]:
    """Return the charge of an object."""
    usage = {count_name(resource): Quantity.of_value(1)}
    if resource.group or resource.resource not in _OWN_NAMES:
        return usage
    usage[resource.resource] = Quantity.of_value(1)
    if resource.resource == "services":
        usage.update(_service(obj))
    elif resource.resource == "persistentvolumeclaims":
        usage.update(_volume_claim(obj))
    return usage


def _service(service: Any) -> dict[str, Quantity]:
    spec = service.spec
    ports = len(spec.ports)
    if spec.type == "NodePort":
        # A port of the node is used by each port of the service, so a service with several is charged for each.
        return {"services.nodeports": Quantity.of_value(ports)}
    if spec.type == "LoadBalancer":
        # Absent means true: node ports are allocated for load balancers unless that is switched off.
        with_ports = ports if spec.allocate_load_balancer_node_ports is not False else 0
        return {"services.loadbalancers": Quantity.of_value(1), "services.nodeports": Quantity.of_value(with_ports)}
    return {}


def _volume_claim(claim: Any) -> dict[str, Quantity]:
    spec = claim.spec
    usage = {}
    storage = spec.resources.requests.get("storage")
    prefix = f"{spec.storage_class_name}.storageclass.storage.k8s.io/" if spec.storage_class_name else ""
    if storage is not None:
        usage["requests.storage"] = storage
    if prefix:
        usage[f"{prefix}persistentvolumeclaims"] = Quantity.of_value(1)
        if storage is not None:
            usage[f"{prefix}requests.storage"] = storage
    return usage
