"""Devices that are withheld because of an object that cannot be decoded.

A claim that cannot be decoded may hold devices, and a slice may have changed a pool. Neither is treated as absent:
devices that can still be read from a claim's status count as taken. If they cannot be read, every pool of which the
claim may hold devices is withheld. A slice and a taint rule withhold the pools to which they apply. Kubernetes has no
such rule, because its decoder refuses the whole list (docs/deviations.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from cathedra.allocation.supply.devices import PoolID, SliceRecord
from cathedra.api.resource import DeviceRequestAllocationResult
from cathedra.api.undecodable import Undecodable


class Withheld(msgspec.Struct, frozen=True):
    """Pools that are not used for the time being."""

    reason: str
    """The end of «pool … is»."""
    driver: str | None = None
    """None: those of every driver."""
    pool: str | None = None
    """None: those of every name."""
    nodes: frozenset[str] = frozenset()
    """Only pools with slices for these nodes, or with slices that are for no single node; empty: of all nodes."""

    def concerns(self, pool: PoolID, records: Iterable[SliceRecord]) -> bool:
        """Return True if ``pool``, which has these slices, is withheld."""
        if self.driver not in (None, pool[0]) or self.pool not in (None, pool[1]):
            return False
        return not self.nodes or any(not record.node_name or record.node_name in self.nodes for record in records)


class EffectOnDevices(msgspec.Struct, frozen=True):
    """Devices that are withheld because of one object that cannot be decoded."""

    key: str
    """Its key in inventory and ledger."""
    holder: str
    """Its name in refusals, as a holder of devices."""
    held: tuple[DeviceRequestAllocationResult, ...] = ()
    withheld: tuple[Withheld, ...] = ()


def effect_of(what: Undecodable) -> EffectOnDevices | None:
    """Return what follows from ``what`` for devices; None for kinds that have nothing to do with them."""
    key = f"undecodable {what.kind} {what.uid or '/'.join(what.key)}"
    holder = f"{what.where} (cannot be decoded)"
    match what.kind:
        case "ResourceClaim":
            held, withheld = _claim(what)
            return EffectOnDevices(key, holder, held, withheld)
        case "ResourceSlice":
            return EffectOnDevices(key, holder, withheld=(_slice(what),))
        case "DeviceTaintRule":
            return EffectOnDevices(key, holder, withheld=_rule(what))
        case _:
            return None


_Held = tuple[DeviceRequestAllocationResult, ...]


def _claim(what: Undecodable) -> tuple[_Held, tuple[Withheld, ...]]:
    """Return the devices that a claim holds, as whole devices, and the pools of which it may hold others."""
    status = _part(_values(what), "status")
    allocation = _part(status, "allocation")
    results: Any = _part(_part(allocation, "devices"), "results")
    if results is None:
        return (), ()
    nodes = _nodes_of(allocation)
    everywhere = Withheld(f"withheld: {what}, and may hold devices of it", nodes=nodes)
    if not isinstance(results, list):
        return (), (everywhere,)
    held: list[DeviceRequestAllocationResult] = []
    withheld: list[Withheld] = []
    for one in results:
        if not isinstance(one, Mapping):
            # A result that cannot be read may be any device. Without this, the device could be allocated a second time.
            withheld.append(everywhere)
            continue
        if one.get("adminAccess") is True:
            continue  # admin access leaves the device free for others
        driver, pool, device = (_name(one, field) for field in ("driver", "pool", "device"))
        if driver is None or pool is None or device is None:
            withheld.append(msgspec.structs.replace(everywhere, driver=driver, pool=pool))
        else:
            # As a whole device, even if it was a share: how much of it is consumed cannot be read.
            held.append(DeviceRequestAllocationResult(driver=driver, pool=pool, device=device))
    return tuple(held), tuple(dict.fromkeys(withheld))


def _slice(what: Undecodable) -> Withheld:
    spec = _part(_values(what), "spec")
    pool = _name(_part(spec, "pool"), "name")
    node = _name(spec, "nodeName")
    # The name of its pool identifies it, on any node.
    nodes = frozenset((node,)) if node is not None and pool is None else frozenset[str]()
    return Withheld(f"incomplete: {what}", _name(spec, "driver"), pool, nodes)


def _rule(what: Undecodable) -> tuple[Withheld, ...]:
    selector = _part(_part(_values(what), "spec"), "deviceSelector")
    if selector is None:
        return ()  # a rule without a selector matches no device
    reason = f"withheld: {what}, and may taint devices of it"
    return (Withheld(reason, _name(selector, "driver"), _name(selector, "pool")),)


_UNREADABLE: Final = object()


def _values(what: Undecodable) -> Any:
    return _UNREADABLE if what.values is None else what.values


def _part(values: Any, field: str) -> Any:
    """Return a field of plain values: None if it is absent, `_UNREADABLE` if ``values`` is no mapping."""
    if values is None or values is _UNREADABLE:
        return values
    return values.get(field) if isinstance(values, Mapping) else _UNREADABLE


def _name(values: Any, field: str) -> str | None:
    """Return a name; None if it is absent, empty or no text."""
    found = _part(values, field)
    return found if isinstance(found, str) and found else None


def _nodes_of(allocation: Any) -> frozenset[str]:
    """Return the names of the nodes on which an allocation can be used; empty if none are named, so that it may be
    any."""
    terms = _part(_part(allocation, "nodeSelector"), "nodeSelectorTerms")
    if not isinstance(terms, list) or not terms:
        return frozenset()
    names: set[str] = set()
    for term in terms:
        found = _names_in(term)
        if not found:
            return frozenset()
        names |= found
    return frozenset(names)


def _names_in(term: Any) -> set[str]:
    """Return the names of the nodes to which a term is confined; empty if no such names can be read."""
    fields = _part(term, "matchFields")
    for one in fields if isinstance(fields, list) else ():
        values = _part(one, "values")
        named = _part(one, "key") == "metadata.name" and _part(one, "operator") == "In"
        if named and isinstance(values, list) and all(isinstance(value, str) for value in values):
            return set(values)
    return set()
