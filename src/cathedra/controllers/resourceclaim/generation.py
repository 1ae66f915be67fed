"""A claim made from a template, for a pod or a PodGroup (docs/spec/controllers.md §2.4)."""

from __future__ import annotations

from typing import Final

from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.resource import ResourceClaim, ResourceClaimTemplate
from cathedra.releases import FeatureGates
from cathedra.semantics.owners import controller_reference

__all__ = ["POD_CLAIM_NAME", "FeatureDisabled", "claim_from_template", "generate_name"]

POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a generated claim: the entry of the pod that it was made for."""

_LONGEST_PREFIX: Final = 57
"""What the API server's five random characters leave of a name that fits a DNS label, less one."""


class FeatureDisabled(Exception):
    """The template asks for something that is switched off."""


def generate_name(owner: str, entry: str) -> str:
    """The prefix of a generated claim's name; both parts are cut in proportion when they are too long."""
    prefix = f"{owner}-{entry}-"
    total = len(prefix)
    if total <= _LONGEST_PREFIX:
        return prefix
    return f"{owner[: len(owner) * _LONGEST_PREFIX // total]}-{entry[: len(entry) * _LONGEST_PREFIX // total]}"


def claim_from_template(
    template: ResourceClaimTemplate, owner: KubeObject, entry: str, gates: FeatureGates
) -> ResourceClaim:
    """The claim to create for the entry of ``owner``.

    Raises:
        FeatureDisabled: the template uses a feature that is off.
    """
    admin = choice = False
    for request in template.spec.spec.devices.requests or ():
        admin = admin or bool(request.exactly and request.exactly.admin_access)
        choice = choice or bool(request.first_available)
    if admin and not gates.admin_access:
        raise FeatureDisabled("admin access is requested, but the feature is disabled")
    if choice and not gates["DRAPrioritizedList"]:
        raise FeatureDisabled("template includes a prioritized list of subrequests, but the feature is disabled")
    metadata = owner.metadata
    # The deletion of a pod need not wait for its claims.
    reference = controller_reference(owner, block_owner_deletion=None)
    return ResourceClaim(
        metadata=ObjectMeta(
            generate_name=generate_name(metadata.name, entry),
            namespace=metadata.namespace,
            labels=template.spec.metadata.labels,
            annotations={**template.spec.metadata.annotations, POD_CLAIM_NAME: entry},
            owner_references=(reference,),
        ),
        spec=template.spec.spec,
    )
