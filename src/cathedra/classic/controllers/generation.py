"""The claim made from a template for an entry of a pod, under the name that the release gives it.

In 1.26 and 1.27 pod and entry make the name; from 1.28 on the API server adds what makes it unique
(docs/spec/api.md §6.3).
"""

from __future__ import annotations

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.controllers.resourceclaim.maker import POD_CLAIM_NAME, generate_name
from cathedra.releases import FeatureGates, classic
from cathedra.semantics.owners import controller_reference

__all__ = ["claim_for", "fixed_name"]


def fixed_name(pod: Pod, entry: str, gates: FeatureGates) -> str:
    """The name of the entry's claim where pod and entry alone decide it, else ""."""
    return "" if gates.has(classic.GENERATED_CLAIM_NAMES) else f"{pod.metadata.name}-{entry}"


def claim_for(
    pod: Pod, entry: str, template: v1alpha2.ResourceClaimTemplate, gates: FeatureGates
) -> v1alpha2.ResourceClaim:
    """The claim to create."""
    name = fixed_name(pod, entry, gates)
    annotations = template.spec.metadata.annotations
    return v1alpha2.ResourceClaim(
        metadata=ObjectMeta(
            name=name,
            generate_name="" if name else generate_name(pod.metadata.name, entry),
            namespace=pod.metadata.namespace,
            labels=template.spec.metadata.labels,
            annotations=annotations if name else {**annotations, POD_CLAIM_NAME: entry},
            owner_references=(controller_reference(pod),),
        ),
        spec=template.spec.spec,
    )
