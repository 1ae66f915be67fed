"""Claims of pods that were put on a node by hand: without a negotiation, their node is selected at once."""

from __future__ import annotations

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.classic.resources import CONTEXTS
from cathedra.client.client import Client
from cathedra.client.store import Store
from cathedra.semantics.owners import controller_reference, is_controlled_by

__all__ = ["ask_for_allocation"]


async def ask_for_allocation(client: Client, known: Store[v1alpha2.PodSchedulingContext], pod: Pod) -> None:
    """Select the pod's node in its scheduling context, as the scheduler would have; ``known`` are all contexts.

    Raises:
        StatusError, ConnectionError: the server refused or cannot be reached.
    """
    namespace, node = pod.metadata.namespace, pod.spec.node_name
    contexts = client.resource(CONTEXTS, namespace)
    context = known.get(namespace, pod.metadata.name)
    if context is None:
        metadata = ObjectMeta(
            name=pod.metadata.name, namespace=namespace, owner_references=(controller_reference(pod),)
        )
        spec = v1alpha2.PodSchedulingContextSpec(selected_node=node)
        try:
            await contexts.create(v1alpha2.PodSchedulingContext(metadata=metadata, spec=spec))
        except StatusError as error:
            if not error.is_already_exists:
                raise
    elif is_controlled_by(context, pod) and context.spec.selected_node != node:
        await contexts.update(replace(context, spec=replace(context.spec, selected_node=node)))
