"""One list of errors out of two: what the rules of a kind found, and what the tags of its type did.

A rule of the kind that tags cover gives way to them: its error is left out when they report one of the same type for
the same field. What tags report comes last, with the paths of the request's version
(k8s.io/apimachinery, pkg/api/validate/errors.go: FilterCoveredHandwrittenErrors).
"""

from __future__ import annotations

from collections.abc import Callable

from cathedra.api.field import ErrorList

__all__ = ["merged"]


def _same(path: str) -> str:
    return path


def merged(handwritten: ErrorList, declared: ErrorList, normalized: Callable[[str], str] = _same) -> ErrorList:
    """The errors that a client sees. ``normalized`` makes a path of the request's version one that the kind's rules
    would give."""
    if not declared:
        return handwritten
    covered = {(error.type, normalized(error.field), error.origin) for error in declared}
    kept = [error for error in handwritten if (error.type, error.field, error.origin) not in covered]
    return ErrorList([*kept, *declared])
