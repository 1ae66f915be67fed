"""Quotas that would keep pods and claims from being created, in the words of the API server's admission."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cathedra.api.core.core_v1 import Pod, ResourceQuota
from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceClass, ResourceClaim
from cathedra.insight.reading.state import ClusterState
from cathedra.kinds.core.pods.usage import pod_in_scopes, pod_usage
from cathedra.kinds.resource.claims.usage import claim_usage

__all__ = ["exceeded_quotas"]


def exceeded_quotas(pod: Pod | None, claims: Sequence[ResourceClaim], state: ClusterState) -> Iterator[str]:
    """One line for each quota that does not allow one more ``pod`` with these claims, none of which exists yet."""
    namespace = pod.metadata.namespace if pod is not None else claims[0].metadata.namespace if claims else ""
    extended = state.gates["DRAExtendedResource"]
    usage: dict[str, Quantity] = {}
    for claim in claims:
        for name, amount in claim_usage(claim, state.all(DeviceClass), extended=extended).items():
            usage[name] = usage[name] + amount if name in usage else amount
    for quota in state.all(ResourceQuota):
        if quota.metadata.namespace != namespace:
            continue
        mine = dict(usage)
        if pod is not None and pod_in_scopes(quota, pod):
            for name, amount in pod_usage(pod, extended=extended).items():
                mine[name] = max(mine[name], amount) if name in mine else amount
        yield from _exceeded(quota, mine)


def _exceeded(quota: ResourceQuota, usage: Mapping[str, Quantity]) -> Iterator[str]:
    hard = quota.status.hard or quota.spec.hard
    zero = Quantity.of_value(0)
    over = [
        name
        for name, limit in sorted(hard.items())
        if name in usage and not usage[name].is_zero() and quota.status.used.get(name, zero) + usage[name] > limit
    ]
    if over:
        requested = ",".join(f"{name}={usage[name]}" for name in over)
        used = ",".join(f"{name}={quota.status.used.get(name, zero)}" for name in over)
        limited = ",".join(f"{name}={hard[name]}" for name in over)
        yield (f"exceeded quota: {quota.metadata.name}, requested: {requested}, used: {used}, limited: {limited}")
