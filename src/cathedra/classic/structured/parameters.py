"""From references in classes and claims to the parameters that the scheduler understands.

A reference names the parameters themselves, or an object of the driver's own kind from which exactly one object of
parameters has been generated (docs/spec/scheduling.md §18.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.client.store import Store

__all__ = ["AmbiguousParameters", "MissingParameters", "StructuredParameters", "default_claim_parameters"]

_GROUP: Final = "resource.k8s.io"


class MissingParameters(Exception):
    """Parameters are not there (yet)."""


class AmbiguousParameters(Exception):
    """Several objects were generated from one."""


def default_claim_parameters(driver: str) -> v1alpha2.ResourceClaimParameters:
    """What a claim means that refers to nothing: any one instance of its class's driver, to be shared."""
    request = v1alpha2.ResourceRequest(named_resources=v1alpha2.NamedResourcesRequest(selector="true"))
    return v1alpha2.ResourceClaimParameters(
        shareable=True, driver_requests=(v1alpha2.DriverRequests(driver_name=driver, requests=(request,)),)
    )


class StructuredParameters:
    """The parameters that are known."""

    def __init__(
        self, classes: Store[v1alpha2.ResourceClassParameters], claims: Store[v1alpha2.ResourceClaimParameters]
    ) -> None:
        self._classes = classes
        self._claims = claims

    def of_class(self, resource_class: v1alpha2.ResourceClass) -> v1alpha2.ResourceClassParameters | None:
        """The parameters of a class; None if it refers to none.

        Raises:
            MissingParameters: they are not there.
            AmbiguousParameters: it cannot be said which are meant.
        """
        reference = resource_class.parameters_ref
        if reference is None:
            return None
        if (reference.api_group, reference.kind) == (_GROUP, "ResourceClassParameters"):
            found = self._classes.get(reference.namespace, reference.name)
            if found is None:
                raise MissingParameters(f"class parameters {reference.namespace}/{reference.name} not found")
            return found
        generated = [one for one in self._classes.list() if one.generated_from == reference]
        what = f"{reference.kind}.{reference.api_group} {reference.namespace}/{reference.name}"
        return _only(generated, "class", what)

    def of_claim(
        self, claim: v1alpha2.ResourceClaim, resource_class: v1alpha2.ResourceClass
    ) -> v1alpha2.ResourceClaimParameters:
        """The parameters of a claim, or those of one that refers to none.

        Raises:
            MissingParameters: they are not there.
            AmbiguousParameters: it cannot be said which are meant.
        """
        reference, namespace = claim.spec.parameters_ref, claim.metadata.namespace
        if reference is None:
            return default_claim_parameters(resource_class.driver_name)
        if (reference.api_group, reference.kind) == (_GROUP, "ResourceClaimParameters"):
            found = self._claims.get(namespace, reference.name)
            if found is None:
                raise MissingParameters(f"claim parameters {namespace}/{reference.name} not found")
            return found
        generated = [
            one
            for one in self._claims.list()
            if one.metadata.namespace == namespace and one.generated_from == reference
        ]
        return _only(generated, "claim", f"{reference.kind}.{reference.api_group} {namespace}/{reference.name}")


K = TypeVar("K", v1alpha2.ResourceClassParameters, v1alpha2.ResourceClaimParameters)


def _only(generated: Sequence[K], what: str, whose: str) -> K:
    if not generated:
        raise MissingParameters(f"generated {what} parameters for {whose} not found")
    if len(generated) > 1:
        names = ", ".join(f"{one.metadata.namespace}/{one.metadata.name}" for one in generated)
        raise AmbiguousParameters(f"multiple generated {what} parameters for {whose} found: {names}")
    return generated[0]
