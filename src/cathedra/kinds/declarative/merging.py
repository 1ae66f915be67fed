"""One list of errors out of two: what the rules of a kind found, and what the tags of its type did.

A rule of the kind that tags cover gives way to them: its error is left out when they report one of the same type for
the same field. What tags report comes last, with the paths of the request's version
(k8s.io/apimachinery, pkg/api/validate/errors.go: FilterCoveredHandwrittenErrors).
"""

from __future__ import annotations

from collections.abc import Callable

from cathedra.api.field import ErrorList
from cathedra.api.struct import KubeStruct
from cathedra.kinds.declarative.tags import TypeTags
from cathedra.kinds.declarative.walking import declared_errors
from cathedra.releases import FeatureGates, behaviours

__all__ = ["merged", "with_tags"]


def _same(path: str) -> str:
    return path


def with_tags(
    handwritten: ErrorList,
    tags: TypeTags,
    new: KubeStruct,
    old: KubeStruct | None,
    gates: FeatureGates,
    normalized: Callable[[str], str] = _same,
) -> ErrorList:
    """What the rules of a kind found, with what the tags of its type do; ``old`` is what ``new`` replaces.

    Until 1.36 tags of kinds that have rules were only compared with them.
    """
    if not (tags.fields or tags.union) or not gates.has(behaviours.DECLARED_TAGS_ENFORCED):
        return handwritten
    declared = declared_errors(tags, new, old, beta=gates["DeclarativeValidationBeta"])
    return merged(handwritten, declared, normalized) if declared else handwritten


def merged(handwritten: ErrorList, declared: ErrorList, normalized: Callable[[str], str] = _same) -> ErrorList:
    """The errors that a client sees. ``normalized`` makes a path of the request's version one that the kind's rules
    would give."""
    covered = {(error.type, normalized(error.field), error.origin) for error in declared}
    kept = [error for error in handwritten if (error.type, error.field, error.origin) not in covered]
    return ErrorList([*kept, *declared])
