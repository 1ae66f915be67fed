"""The solution of a search in Kubernetes' form: devices, configuration, node selector (docs/spec/allocation.md §13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from cathedra.allocation.claims.problem import DevicePlacement, Solution
from cathedra.allocation.claims.requests import ClaimPlan, RequestOption
from cathedra.allocation.claims.tables import PreparedSpecs
from cathedra.allocation.errors import FatalError
from cathedra.allocation.features import Features
from cathedra.allocation.supply.devices import DeviceRecord
from cathedra.api.core import core_v1
from cathedra.api.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    OpaqueDeviceConfiguration,
    ResourceClaim,
)


def write_results(
    claims: Sequence[ResourceClaim],
    specs: PreparedSpecs,
    solution: Solution,
    devices: Sequence[DeviceRecord],
    node_name: str,
    new_share_id: Callable[[], str],
) -> tuple[AllocationResult, ...]:
    """Return one AllocationResult per claim. ``specs`` and ``solution`` may come from other claims with equal requests.

    Raises:
        FatalError: a slice's node selector has several terms.
    """
    options, features = specs.tables.options, specs.tables.features
    results = []
    for claim, plan, placements, chosen in zip(claims, specs.plans, solution.placements, solution.chosen, strict=True):
        allocated = []
        for one in placements:
            allocated.append(_device(options[one.choice.option.number], one, devices, features, new_share_id))
        results.append(
            AllocationResult(
                devices=DeviceAllocationResult(
                    results=tuple(allocated),
                    config=tuple(_config(plan, chosen, features)) if plan.is_configured else (),
                ),
                node_selector=_node_selector(claim, placements, devices, node_name),
            )
        )
    return tuple(results)


def _device(
    option: RequestOption,
    placement: DevicePlacement,
    devices: Sequence[DeviceRecord],
    features: Features,
    new_share_id: Callable[[], str],
) -> DeviceRequestAllocationResult:
    record = devices[placement.position]
    device = record.device
    usage = placement.usage
    bound = features.device_binding_and_status
    return DeviceRequestAllocationResult(
        request=option.name,
        driver=record.id[0],
        pool=record.id[1],
        device=record.name,
        admin_access=True if option.admin else None,
        tolerations=option.tolerations,
        binding_conditions=device.binding_conditions if bound else (),
        binding_failure_conditions=device.binding_failure_conditions if bound else (),
        share_id=None if usage is None else new_share_id(),
        consumed_capacity={} if usage is None else dict(zip(usage.names, usage.amounts, strict=True)),
        skip_node_operations=record.slice.source.spec.skip_node_operations,
        consumed_counters=placement.drawn,
    )


class _Entry(msgspec.Struct):
    source: str
    opaque: OpaqueDeviceConfiguration | None
    requests: list[str] = msgspec.field(default_factory=list)


def _config(plan: ClaimPlan, subs: Sequence[int], features: Features) -> Iterable[DeviceAllocationConfiguration]:
    """Yield the configuration of the alternatives ``subs`` of the claim's requests."""
    options = [request.options[sub] for request, sub in zip(plan.requests, subs, strict=True)]
    # An obstacle is never chosen.
    chosen = [option for option in options if isinstance(option, RequestOption)]
    entries: list[_Entry] = []
    of_class: dict[str, list[_Entry]] = {}
    for option in chosen:
        name = option.device_class.metadata.name
        if name in of_class:
            for entry in of_class[name]:
                entry.requests.append(option.name)
            continue
        of_class[name] = [
            _Entry("FromClass", config.opaque, [option.name]) for config in option.device_class.spec.config
        ]
        entries.extend(of_class[name])
    entries.extend(_claim_entries(plan, chosen, features))
    unnamed = features.behaviour.class_config_for_all_is_unnamed
    for entry in entries:
        named = set(entry.requests)
        everything = all(option.parent in named or option.name in named for option in chosen)
        requests = () if unnamed and everything else tuple(entry.requests)
        yield DeviceAllocationConfiguration(opaque=entry.opaque, source=entry.source, requests=requests)


def _claim_entries(plan: ClaimPlan, chosen: list[RequestOption], features: Features) -> Iterable[_Entry]:
    configs = plan.claim.spec.devices.config
    if features.behaviour.claim_config_listed_once:
        for config in configs:
            named = set(config.requests)
            if not named or any(option.parent in named or option.name in named for option in chosen):
                yield _Entry("FromClaim", config.opaque, list(config.requests))
        return
    for config in configs:
        if not config.requests:
            yield _Entry("FromClaim", config.opaque)
            continue
        for option in chosen:
            if option.parent in config.requests or option.name in config.requests:
                yield _Entry("FromClaim", config.opaque, list(config.requests))


def _node_selector(
    claim: ResourceClaim, placements: Sequence[DevicePlacement], devices: Sequence[DeviceRecord], node_name: str
) -> core_v1.NodeSelector | None:
    selectors = []
    for one in placements:
        record = devices[one.position]
        spec = record.slice.source.spec
        name, selector = (
            (record.device.node_name, record.device.node_selector)
            if record.slice.per_device
            else (spec.node_name, spec.node_selector)
        )
        if name or record.device.binds_to_node:
            return _only(node_name)
        if selector is not None:
            selectors.append(selector)
    fields: list[core_v1.NodeSelectorRequirement] = []
    expressions: list[core_v1.NodeSelectorRequirement] = []
    for selector in selectors:
        terms = selector.node_selector_terms
        if len(terms) > 1:
            raise FatalError(
                f"create NodeSelector for claim {claim.metadata.name}: "
                f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _merge(fields, term.match_fields)
            _merge(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = core_v1.NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return core_v1.NodeSelector(node_selector_terms=(term,))


def _only(node_name: str) -> core_v1.NodeSelector:
    requirement = core_v1.NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
    return core_v1.NodeSelector(node_selector_terms=(core_v1.NodeSelectorTerm(match_fields=(requirement,)),))


def _merge(into: list[core_v1.NodeSelectorRequirement], more: Iterable[core_v1.NodeSelectorRequirement]) -> None:
    for one in more:
        same = (
            other.key == one.key and other.operator == one.operator and set(other.values) == set(one.values)
            for other in into
        )
        if not any(same):
            into.append(one)
