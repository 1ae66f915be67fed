"""Definitions of resource.k8s.io: which release serves which kind in which versions (spec: api.md, section 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cathedra.api import resource
from cathedra.api.conversion import resource_v1beta1 as convert
from cathedra.api.core import resource_v1alpha3, resource_v1beta1
from cathedra.api.definition import ResourceDefinition, VersionDefinition
from cathedra.api.definitions.claims import ClaimStatusStrategy, ClaimStrategy, TemplateStrategy
from cathedra.api.definitions.slices import (
    ClassStrategy,
    PoolStatusRequestStatusStrategy,
    PoolStatusRequestStrategy,
    SliceStrategy,
    TaintRuleStatusStrategy,
    TaintRuleStrategy,
)
from cathedra.api.gates import FeatureGates
from cathedra.api.struct import KubeStruct
from cathedra.api.tables import devices as tables

__all__ = ["device_definitions"]

GROUP: Final = "resource.k8s.io"

_LIFE: Final = {
    "v1beta1": ("1.32", "1.35", "1.38"),
    "v1beta2": ("1.33", "1.36", "1.39"),
    "v1": ("1.34", "", ""),
}
"""Version → release that brings it, deprecates it, removes it."""


def device_definitions(gates: FeatureGates) -> tuple[ResourceDefinition[Any], ...]:
    """The kinds of the group that the release has."""
    kinds: list[ResourceDefinition[Any]] = [
        ResourceDefinition(
            group=GROUP,
            kind="DeviceClass",
            plural="deviceclasses",
            singular="deviceclass",
            namespaced=False,
            type=resource.DeviceClass,
            versions=_versions(
                gates,
                resource.DeviceClass,
                resource_v1beta1.DeviceClass,
                convert.class_to_hub,
                convert.class_from_hub,
            ),
            strategy=ClassStrategy(),
            columns=tables.NAME_AND_AGE,
            cells=tables.name_and_age,
        ),
        ResourceDefinition(
            group=GROUP,
            kind="ResourceClaim",
            plural="resourceclaims",
            singular="resourceclaim",
            namespaced=True,
            type=resource.ResourceClaim,
            versions=_versions(
                gates,
                resource.ResourceClaim,
                resource_v1beta1.ResourceClaim,
                convert.claim_to_hub,
                convert.claim_from_hub,
            ),
            strategy=ClaimStrategy(),
            subresources={"status": ClaimStatusStrategy()},
            columns=tables.CLAIM_COLUMNS,
            cells=tables.claim_cells,
        ),
        ResourceDefinition(
            group=GROUP,
            kind="ResourceClaimTemplate",
            plural="resourceclaimtemplates",
            singular="resourceclaimtemplate",
            namespaced=True,
            type=resource.ResourceClaimTemplate,
            versions=_versions(
                gates,
                resource.ResourceClaimTemplate,
                resource_v1beta1.ResourceClaimTemplate,
                convert.template_to_hub,
                convert.template_from_hub,
            ),
            strategy=TemplateStrategy(),
            columns=tables.NAME_AND_AGE,
            cells=tables.name_and_age,
        ),
        ResourceDefinition(
            group=GROUP,
            kind="ResourceSlice",
            plural="resourceslices",
            singular="resourceslice",
            namespaced=False,
            type=resource.ResourceSlice,
            versions=_versions(
                gates,
                resource.ResourceSlice,
                resource_v1beta1.ResourceSlice,
                convert.slice_to_hub,
                convert.slice_from_hub,
            ),
            strategy=SliceStrategy(),
            columns=tables.SLICE_COLUMNS,
            cells=tables.slice_cells,
            field_selectors=_slice_fields(gates),
        ),
        _taint_rule(gates),
    ]
    if gates.at_least("1.36"):
        kinds.append(_pool_status_request(gates))
    return tuple(kinds)


def _versions(
    gates: FeatureGates,
    hub: type[KubeStruct],
    flat: type[KubeStruct],
    to_hub: Callable[[Any], Any],
    from_hub: Callable[[Any], Any],
) -> tuple[VersionDefinition, ...]:
    """Versions in order of preference; v1beta2 has the shape of v1, v1beta1 one of its own."""
    kind = hub.__name__
    made = {
        "v1": VersionDefinition("v1", hub),
        "v1beta2": VersionDefinition(
            "v1beta2", hub, served_by_default=False, deprecation_warning=_warning(gates, "v1beta2", kind)
        ),
        "v1beta1": VersionDefinition(
            "v1beta1",
            flat,
            to_hub,
            from_hub,
            served_by_default=False,
            deprecation_warning=_warning(gates, "v1beta1", kind),
        ),
    }
    preferred = ("v1", "v1beta2", "v1beta1") if gates.at_least("1.35") else ("v1beta2", "v1", "v1beta1")
    return tuple(made[name] for name in preferred)


def _warning(gates: FeatureGates, version: str, kind: str) -> str:
    _, deprecated, removed = _LIFE[version]
    return _deprecation(gates, version, kind, deprecated, removed)


def _deprecation(gates: FeatureGates, version: str, kind: str, deprecated: str, removed: str) -> str:
    if not deprecated or not gates.at_least(deprecated):
        return ""
    return f"{GROUP}/{version} {kind} is deprecated in v{deprecated}+, unavailable in v{removed}+"


def _slice_fields(gates: FeatureGates) -> dict[str, Callable[[resource.ResourceSlice], str]]:
    fields: dict[str, Callable[[resource.ResourceSlice], str]] = {
        "spec.nodeName": lambda piece: piece.spec.node_name or "",
        "spec.driver": lambda piece: piece.spec.driver,
    }
    if gates.at_least("1.37"):
        fields["spec.pool.name"] = lambda piece: piece.spec.pool.name
    return fields


def _taint_rule(gates: FeatureGates) -> ResourceDefinition[resource.DeviceTaintRule]:
    versions = []
    if gates.at_least("1.37"):
        versions.append(VersionDefinition("v1", resource.DeviceTaintRule))
    if gates.at_least("1.36"):
        versions.append(VersionDefinition("v1beta2", resource.DeviceTaintRule, served_by_default=False))
    versions.append(
        VersionDefinition(
            "v1alpha3",
            resource.DeviceTaintRule,
            served_by_default=False,
            deprecation_warning=_deprecation(gates, "v1alpha3", "DeviceTaintRule", "1.36", "1.39"),
        )
    )
    return ResourceDefinition(
        group=GROUP,
        kind="DeviceTaintRule",
        plural="devicetaintrules",
        singular="devicetaintrule",
        namespaced=False,
        type=resource.DeviceTaintRule,
        versions=tuple(versions),
        strategy=TaintRuleStrategy(),
        subresources={"status": TaintRuleStatusStrategy()} if gates.at_least("1.35") else {},
        columns=tables.TAINT_RULE_COLUMNS,
        cells=tables.taint_rule_cells,
    )


def _pool_status_request(gates: FeatureGates) -> ResourceDefinition[resource_v1alpha3.ResourcePoolStatusRequest]:
    return ResourceDefinition(
        group=GROUP,
        kind="ResourcePoolStatusRequest",
        plural="resourcepoolstatusrequests",
        singular="resourcepoolstatusrequest",
        namespaced=False,
        type=resource_v1alpha3.ResourcePoolStatusRequest,
        versions=(VersionDefinition("v1alpha3", resource_v1alpha3.ResourcePoolStatusRequest, served_by_default=False),),
        strategy=PoolStatusRequestStrategy(),
        subresources={"status": PoolStatusRequestStatusStrategy()},
        columns=tables.POOL_STATUS_COLUMNS,
        cells=tables.pool_status_cells,
    )
