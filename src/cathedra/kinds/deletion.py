"""Rules of deletion, where kinds differ: time to end in, dependents, finalizers
(docs/spec/apimachinery.md §7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject

T = TypeVar("T", bound=KubeObject)


class DeletionRules(Generic[T]):
    """Rules for deleting objects of a kind. Objects of most kinds are removed at once; other kinds inherit from this
    class."""

    orphans_dependents: bool = False
    """True if dependents are orphaned when the request has no propagation policy."""
    finalizers: tuple[str, ...] = ()
    """Finalizers that deletion itself adds, for work that the server does before the object may go."""
    announced: bool = False
    """True if watchers see the object marked as deleted before it goes, even if it goes at once."""
    permanent: frozenset[str] = frozenset()
    """Names of objects that are never deleted."""

    def grace_period(self, obj: T, wanted: int | None) -> int:
        """Return the seconds between the request and the removal. ``wanted`` is the grace period of the request."""
        return 0

    def is_held(self, obj: T) -> bool:
        """Return True if something besides metadata keeps the object that is being deleted."""
        return False

    def mark(self, obj: T) -> T:
        """Return the object that is being deleted, with the changes of its kind. Its metadata is marked already."""
        return obj

    def warnings(self, options: DeleteOptions) -> Sequence[str]:
        """Return texts for ``Warning`` headers."""
        return ()


def states_propagation(options: DeleteOptions) -> bool:
    """Return True if the request has a propagation policy."""
    return options.orphan_dependents is not None or bool(options.propagation_policy)
