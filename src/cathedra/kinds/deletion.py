"""Rules of deletion, where kinds differ: time to end in, dependents, finalizers
(docs/spec/apimachinery.md §7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject

__all__ = ["DeletionRules", "states_propagation"]

T = TypeVar("T", bound=KubeObject)


class DeletionRules(Generic[T]):
    """How objects of a kind are deleted. Most kinds need nothing but this: they go at once. The others inherit."""

    orphans_dependents: bool = False
    """Whether dependents stay when the request says nothing of propagation."""
    finalizers: tuple[str, ...] = ()
    """Finalizers that deletion itself adds, for work that the server does before the object may go."""
    announced: bool = False
    """Whether watchers see the object marked as deleted before it goes, even if it goes at once."""
    permanent: frozenset[str] = frozenset()
    """Names of objects that are never deleted."""

    def grace_period(self, obj: T, wanted: int | None) -> int:
        """Seconds between the request and the end; ``wanted`` is what the request says."""
        return 0

    def is_held(self, obj: T) -> bool:
        """Whether something besides metadata keeps the object that is being deleted."""
        return False

    def mark(self, obj: T) -> T:
        """The held object, whose metadata says already that it is being deleted, with what its kind adds."""
        return obj

    def warnings(self, options: DeleteOptions) -> Sequence[str]:
        """Texts for ``Warning`` headers."""
        return ()


def states_propagation(options: DeleteOptions) -> bool:
    """Whether the request says what becomes of dependents."""
    return options.orphan_dependents is not None or bool(options.propagation_policy)
