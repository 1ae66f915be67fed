"""Metrics of claims by state, under the claim controller's names. They are counted on collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from cathedra.api.resource import ResourceClaim
from cathedra.client.queuemetrics import export_counts
from cathedra.client.store import Store
from cathedra.controllers.resourceclaim.maker import admin_access
from cathedra.exposition import Family
from cathedra.releases import FeatureGates, behaviours
from cathedra.releases.metrics import metric

_TEMPLATE = "resource.kubernetes.io/pod-claim-name"
_EXTENDED = "resource.kubernetes.io/extended-resource-claim"


def show_claims(registry: CollectorRegistry, claims: Store[ResourceClaim], gates: FeatureGates) -> None:
    """Export the number of claims, ``dynamic_resource_allocation_resource_claims`` (docs/spec/controllers.md §2.6)."""
    shared = gates.has(behaviours.CLAIM_METRICS_OF_ALL_COMPONENTS)
    name = f"{'dynamic_resource_allocation' if shared else 'resourceclaim_controller'}_resource_claims"

    class Claims(Collector):
        def collect(self) -> Iterator[Any]:
            family = Family(metric(name))
            for labels, number in sorted(count_claims(claims.list()).items()):
                family.add(labels, number)
            yield family

    registry.register(Claims())


def show_creations(registry: CollectorRegistry, created: Mapping[tuple[str, ...], int], gates: FeatureGates) -> None:
    """Export the number of claims that were to be created from templates, by outcome and admin access."""
    shared = gates.has(behaviours.CLAIM_METRICS_OF_ALL_COMPONENTS)
    prefix = "dynamic_resource_allocation_resourceclaim" if shared else "resourceclaim_controller"
    shown = metric(f"{prefix}_creates_total")
    export_counts(registry, shown.name.removesuffix("_total"), shown.help, shown.labels, created)


def count_claims(claims: Iterable[ResourceClaim]) -> Counter[tuple[str, str, str]]:
    """Return the number of claims by (allocated, admin access, source)."""
    return Counter(
        (_word(claim.status.allocation is not None), admin_access(claim), _source(claim)) for claim in claims
    )


def _word(value: bool) -> str:
    return "true" if value else "false"


def _source(claim: ResourceClaim) -> str:
    annotations = claim.metadata.annotations
    if annotations.get(_EXTENDED) == "true":
        return "extended_resource"
    return "resource_claim_template" if _TEMPLATE in annotations else ""
