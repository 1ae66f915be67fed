"""Rules of a pod's claims: the entries of ``spec.resourceClaims``, and what containers use of them.

A claim need not exist: it may be made later (docs/spec/api.md §6.1)."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, ErrorType, FieldError, FieldPath, Names
from cathedra.api.formats import check

__all__ = ["MIRROR_ANNOTATION", "claim_names", "validate_container_claims", "validate_mirror", "validate_pod_claims"]

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
_NO_FIELD: Final = "[]"
"""How Kubernetes shows a path that was never begun."""


def claim_names(spec: core_v1.PodSpec) -> frozenset[str]:
    """What containers may refer to."""
    return frozenset(claim.name for claim in spec.resource_claims if claim.name)


def validate_pod_claims(errors: ErrorList, path: FieldPath, claims: Sequence[core_v1.PodResourceClaim]) -> None:
    """Every entry has a name of its own and names one claim or one template."""
    seen: set[str] = set()
    for position, claim in enumerate(claims):
        where = path.index(position)
        if not claim.name:
            errors.required(where.child("name"))
        elif claim.name in seen:
            errors.duplicate(where.child("name"), claim.name)
        else:
            check(errors, where.child("name"), claim.name, formats.dns_label)
            seen.add(claim.name)
        if claim.source is not None:
            _references(errors, where.child("source"), claim.source)
        else:
            _references(errors, where, claim)


def _references(errors: ErrorList, path: FieldPath, claim: core_v1.PodResourceClaim | core_v1.ClaimSource) -> None:
    given = (
        ("resourceClaimName", claim.resource_claim_name),
        ("resourceClaimTemplateName", claim.resource_claim_template_name),
    )
    count = sum(value is not None for _, value in given)
    if count > 1:
        text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        errors.invalid(path, claim, text)
    if count == 0:
        errors.invalid(path, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
    for name, value in given:
        if value is not None:
            check(errors, path.child(name), value, formats.dns_subdomain)


def validate_container_claims(
    errors: ErrorList, path: FieldPath, claims: Sequence[core_v1.ResourceClaim], known: Set[str]
) -> None:
    """A container uses a claim as a whole or some of its requests, each once."""
    used = _Used()
    for position, claim in enumerate(claims):
        where = path.index(position)
        if not claim.name:
            errors.required(where)
            continue
        used.enter(errors, where, claim)
        if claim.name not in known:
            detail = "" if known else f"{_CHOICE} which is empty"
            names = Names(_CHOICE, known, quoted=False, in_order=False)
            errors.append(FieldError(ErrorType.NOT_FOUND, where, claim.name, detail, names=names))


_CHOICE: Final = "must be one of the names in pod.spec.resourceClaims"


class _Used:
    """Claims, requests of claims, and claims with a used request that a container has named so far."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._in_part: set[str] = set()

    def enter(self, errors: ErrorList, path: FieldPath, claim: core_v1.ResourceClaim) -> None:
        """Enter the next use, and what is wrong with it."""
        if claim.name in self._seen:
            errors.duplicate(path, claim.name)
            return
        key = claim.name
        if claim.request:
            check(errors, path.child("request"), claim.request, formats.dns_label)
            key = f"{claim.name}/{claim.request}"
            self._in_part.add(claim.name)
        if key in self._seen:
            errors.duplicate(path, key)
        elif not claim.request and claim.name in self._in_part:
            errors.duplicate(path, claim.name)
        self._seen.add(key)


def validate_mirror(errors: ErrorList, pod: core_v1.Pod) -> None:
    """Pods that a node started from a file are on it, and have no claims: no scheduler could allocate them."""
    if not pod.spec.node_name:
        where = FieldPath("metadata").child("annotations").key(MIRROR_ANNOTATION)
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.invalid(where, pod.metadata.annotations[MIRROR_ANNOTATION], text)
    for _ in pod.spec.resource_claims:
        errors.forbidden(_NO_FIELD, "static pods do not support resource claims")
