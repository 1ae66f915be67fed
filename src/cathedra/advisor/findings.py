"""Findings on objects other than pods: claims, classes, slices, drivers and nodes that cannot be used.

A finding counts when it has lasted for a while: a driver publishes its slices one by one, and a node that starts has
none yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from cathedra.advisor.devices import DeviceFigures
from cathedra.advisor.model import ClusterModel
from cathedra.advisor.sentences import answer_text
from cathedra.allocation.supply.ledger import Ledger
from cathedra.api.core.core_v1 import Node
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from cathedra.api.struct import encode
from cathedra.clock import Clock
from cathedra.insight.explanation.causes import DRIVER, place_of, unusual_pools
from cathedra.insight.explanation.explainer import Explainer
from cathedra.insight.explanation.report import Explanation, Remedy
from cathedra.insight.reading.state import ClusterState
from cathedra.printable import counted
from cathedra.semantics.nodes import is_node_ready
from cathedra.semantics.owners import controller_of

LASTING_SECONDS: Final = 30.0
"""Time for which a finding must last before it counts."""
UNUSABLE: Final = ("blocked", "tainted", "unhealthy", "incomplete_pool")
_MOST_CLAIMS: Final = 8
"""Claims of different specs that are tried against an empty cluster in one round: each takes a tenth of a second at
5,000 nodes, and changes wait meanwhile. Others keep their older answers for that long."""
_MOST_KEPT: Final = 128
"""Answers from which on those of claims that are gone are dropped."""


class AdvisorFinding(msgspec.Struct, frozen=True):
    """Something that cannot be used, and the reason."""

    kind: str
    """A word for programs: «claim», «class», «pool», «driver», «node»."""
    about: KubeObject
    text: str

    @property
    def key(self) -> tuple[str, str]:
        """Identity of the finding over time."""
        return self.about.metadata.uid, self.kind


class AdvisorFindings:
    """The findings of a model, with the time since which each holds."""

    def __init__(self, model: ClusterModel, figures: DeviceFigures, clock: Clock) -> None:
        self._model, self._figures, self._clock = model, figures, clock
        self._since: dict[tuple[str, str], float] = {}
        self._published: dict[tuple[str, str], float] = {}
        """(Driver, node) → monotonic time at which a slice of the driver was last there."""
        self._impossible: dict[bytes, tuple[int, Explanation]] = {}
        """Spec of a claim → version of inventory for which it was tried, and the answer."""
        self.lasting: tuple[AdvisorFinding, ...] = ()
        """Those that have lasted for `LASTING_SECONDS`, as of the last `renew`."""

    def renew(self) -> None:
        """Find all findings of this moment."""
        now = self._clock.monotonic()
        state = self._model.state()
        current = list(self._all(state))
        since = {one.key: self._since.get(one.key, now) for one in current}
        self._since = since
        self.lasting = tuple(one for one in current if now - since[one.key] >= LASTING_SECONDS)

    def _all(self, state: ClusterState) -> Iterator[AdvisorFinding]:
        yield from self._pools(state)
        yield from self._classes(state)
        yield from self._drivers(state)
        yield from self._nodes(state)
        yield from self._claims(state)

    def _pools(self, state: ClusterState) -> Iterator[AdvisorFinding]:
        pieces = {(one.spec.driver, one.spec.pool.name): one for one in state.all(ResourceSlice)}
        for driver, name, text in unusual_pools(state):
            about = pieces.get((driver, name))
            if about is not None:
                yield AdvisorFinding("pool", about, f"pool {driver}/{name} {text}")

    def _classes(self, state: ClusterState) -> Iterator[AdvisorFinding]:
        matched = self._figures.by_class()
        drivers = {one.spec.driver for one in state.all(ResourceSlice)}
        for one in state.all(DeviceClass):
            if matched[one.metadata.name]:
                continue
            named = {
                found[1]
                for selector in one.spec.selectors
                if selector.cel is not None and (found := DRIVER.search(selector.cel.expression))
            }
            silent = sorted(named - drivers)
            if silent:
                text = f"driver {', '.join(silent)}, which the class names, publishes no ResourceSlice"
                yield AdvisorFinding("driver", one, f"the class matches no device: {text}")
            else:
                total = sum(sum(figures.devices.values()) for figures in self._figures.pools.values())
                yield AdvisorFinding("class", one, f"the class matches none of {counted(total, 'device')}")

    def _drivers(self, state: ClusterState) -> Iterator[AdvisorFinding]:
        """Yield nodes on which a driver has published devices, and publishes none any more."""
        now = self._clock.monotonic()
        present = {(one.spec.driver, one.spec.node_name) for one in state.all(ResourceSlice) if one.spec.node_name}
        self._published.update(dict.fromkeys(present, now))
        for driver, name in sorted(self._published.keys() - present):
            node = state.get(Node, name)
            if node is None:
                del self._published[driver, name]
            elif is_node_ready(node):
                text = f"driver {driver} has withdrawn the devices of this node, which is Ready: it may have stopped"
                yield AdvisorFinding("driver", node, text)

    def _nodes(self, state: ClusterState) -> Iterator[AdvisorFinding]:
        for name, states in self._figures.by_node().items():
            node = state.get(Node, name)
            unusable = {one: states[one] for one in UNUSABLE if states[one]}
            if node is None or not unusable or sum(unusable.values()) < sum(states.values()):
                continue
            named = ", ".join(f"{number} {one.replace('_', ' ')}" for one, number in unusable.items())
            text = f"no device of this node can be used: {named}"
            yield AdvisorFinding("node", node, text)

    # --- claims

    def _claims(self, state: ClusterState) -> Iterator[AdvisorFinding]:
        tried = 0
        for claim in state.all(ResourceClaim):
            if claim.status.allocation is not None:
                text = self._unreachable(claim, state)
                if text:
                    yield AdvisorFinding("claim", claim, text)
                continue
            if controller_of(claim) is not None:
                continue  # made for a pod, which has an event of its own
            key = encode(claim.spec)
            known = self._impossible.get(key)
            version = self._inventory_version()
            if (known is None or known[0] != version) and tried < _MOST_CLAIMS:
                tried += 1
                known = self._impossible[key] = (version, self._in_empty_cluster(claim, state))
            if known is not None and not known[1].fits:
                yield AdvisorFinding(
                    "claim", claim, f"no pod can use the claim, even if all devices were free: {answer_text(known[1])}"
                )
        self._forget(state)

    def _inventory_version(self) -> int:
        return self._model.supply_version

    def _forget(self, state: ClusterState) -> None:
        if len(self._impossible) > _MOST_KEPT:
            used = {encode(one.spec) for one in state.all(ResourceClaim) if one.status.allocation is None}
            for key in self._impossible.keys() - used:
                del self._impossible[key]

    def _unreachable(self, claim: ResourceClaim, state: ClusterState) -> str:
        """Return why an allocated claim cannot be used; "" if it can be."""
        place = place_of(claim)
        if place.startswith("on node ") and state.get(Node, place.removeprefix("on node ")) is None:
            return f"no pod can use the claim: it is allocated {place}, which does not exist"
        return ""

    def _in_empty_cluster(self, claim: ResourceClaim, state: ClusterState) -> Explanation:
        cluster = msgspec.structs.replace(self._model.cluster, ledger=Ledger())
        return Explainer(remedies=_none).claim(claim, state.allocating_from(cluster))


def _none(*_: object) -> tuple[Remedy, ...]:
    return ()
