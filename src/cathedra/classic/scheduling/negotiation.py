"""The negotiation about one pod: the scheduler's messages and the drivers' answers, in its PodSchedulingContext.

A cycle chooses the next message in memory (`propose`, `select`); `publish` writes it, later and at once for all
changes (docs/spec/scheduling.md §18.2).
"""

from __future__ import annotations

from random import Random
from typing import Final

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.classic.resources import CONTEXTS
from cathedra.client.client import Client
from cathedra.semantics.owners import controller_reference, is_controlled_by

MAX_NODES: Final = 128
"""Number of nodes that can be proposed."""


class ForeignContext(Exception):
    """The object of the pod's name belongs to something else."""

    def __init__(self, context: v1alpha2.PodSchedulingContext, pod: Pod, kind: str) -> None:
        where = f"{pod.metadata.namespace}/{pod.metadata.name}"
        super().__init__(f"{kind} object with UID {context.metadata.uid} is not owned by Pod {where}")


class Negotiation:
    """The negotiation about one pod in one scheduling cycle."""

    def __init__(
        self, pod: Pod, context: v1alpha2.PodSchedulingContext | None, kind: str = "PodSchedulingContext"
    ) -> None:
        """``context`` is the object as it is known; None: there is none yet. ``kind`` is what messages call it.

        Raises:
            ForeignContext: the object is not the pod's.
        """
        if context is not None and not is_controlled_by(context, pod):
            raise ForeignContext(context, pod, kind)
        self._pod = pod
        self._context = context
        self._selected: str | None = None
        self._potential: tuple[str, ...] | None = None

    @property
    def dirty(self) -> bool:
        """True if something is decided and not written."""
        return self._selected is not None or self._potential is not None

    @property
    def selected(self) -> str:
        """The node on which drivers shall allocate; "" if none is chosen."""
        if self._selected is not None:
            return self._selected
        return self._context.spec.selected_node if self._context is not None else ""

    @property
    def potential(self) -> tuple[str, ...]:
        """The nodes that drivers must check."""
        if self._potential is not None:
            return self._potential
        return self._context.spec.potential_nodes if self._context is not None else ()

    @property
    def proposed(self) -> bool:
        """True if this cycle has proposed nodes."""
        return self._potential is not None

    def answer(self, entry: str) -> frozenset[str] | None:
        """The nodes that the driver of an entry's claim excludes; None: it has not answered."""
        claims = self._context.status.resource_claims if self._context is not None else ()
        return next((frozenset(claim.unsuitable_nodes) for claim in claims if claim.name == entry), None)

    def propose(self, nodes: list[str], random: Random) -> None:
        """Propose these nodes to drivers, or a random choice of them if they are too many."""
        chosen = nodes if len(nodes) <= MAX_NODES else random.sample(nodes, MAX_NODES)
        self._potential = tuple(sorted(chosen))

    def select(self, node: str) -> None:
        """Have drivers allocate on this node; "" takes an earlier choice back."""
        self._selected = node

    async def publish(self, client: Client) -> None:
        """Write what is decided, if anything is.

        Raises:
            StatusError, ConnectionError: the server refused or cannot be reached; it stays decided.
        """
        if not self.dirty:
            return
        contexts = client.resource(CONTEXTS, self._pod.metadata.namespace)
        spec = v1alpha2.PodSchedulingContextSpec(selected_node=self.selected, potential_nodes=self.potential)
        if self._context is None:
            metadata = ObjectMeta(
                name=self._pod.metadata.name,
                namespace=self._pod.metadata.namespace,
                owner_references=(controller_reference(self._pod),),
            )
            self._context = await contexts.create(v1alpha2.PodSchedulingContext(metadata=metadata, spec=spec))
        else:
            self._context = await self._update(client, replace(self._context, spec=spec))
        self._selected = self._potential = None

    async def _update(self, client: Client, wanted: v1alpha2.PodSchedulingContext) -> v1alpha2.PodSchedulingContext:
        """Drivers write the status meanwhile; a conflict with them is settled by applying the spec alone."""
        namespace = self._pod.metadata.namespace
        try:
            return await client.resource(CONTEXTS, namespace).update(wanted)
        except StatusError as error:
            if not error.is_conflict:
                raise
        fields = {
            "metadata": {"uid": wanted.metadata.uid},
            "spec": {
                "selectedNode": wanted.spec.selected_node,
                "potentialNodes": list(wanted.spec.potential_nodes),
            },
        }
        scheduler = client.as_manager("kube-scheduler")
        return await scheduler.resource(CONTEXTS, namespace).apply(self._pod.metadata.name, fields)
