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
    if not gates.has(behaviours.CLAIM_METRICS_LABELLED):
        registry.register(_PlainClaims(claims))
        return
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
    if not gates.has(behaviours.CLAIM_METRICS_LABELLED):
        registry.register(_PlainCreations(created))
        return
    shared = gates.has(behaviours.CLAIM_METRICS_OF_ALL_COMPONENTS)
    prefix = "dynamic_resource_allocation_resourceclaim" if shared else "resourceclaim_controller"
    shown = metric(f"{prefix}_creates_total")
    export_counts(registry, shown.name.removesuffix("_total"), shown.help, shown.labels, created)


class _PlainClaims(Collector):
    """The metrics of releases before labels: all claims, and allocated ones."""

    def __init__(self, claims: Store[ResourceClaim]) -> None:
        self._claims = claims

    def collect(self) -> Iterator[Any]:
        """Count the claims, and those with an allocation."""
        found = self._claims.list()
        allocated = sum(claim.status.allocation is not None for claim in found)
        for name, number in (("resource_claims", len(found)), ("allocated_resource_claims", allocated)):
            family = Family(metric(f"resourceclaim_controller_{name}")._replace(labels=()))
            family.add((), number)
            yield family


class _PlainCreations(Collector):
    """The metrics of releases before labels: attempts to create a claim, and failures."""

    def __init__(self, created: Mapping[tuple[str, ...], int]) -> None:
        self._created = created

    def collect(self) -> Iterator[Any]:
        """Add up the creations."""
        failures = sum(number for labels, number in self._created.items() if labels[0] != "success")
        for name, number in (("attempts", sum(self._created.values())), ("failures", failures)):
            family = Family(metric(f"resourceclaim_controller_create_{name}_total"))
            family.add((), number)
            yield family


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
