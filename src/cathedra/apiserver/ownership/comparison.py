"""How a value differs from an older one: first as an outline, then as sets of fields.

The outline says which fields were added, modified and removed, and nothing of their values. So the writes of one kind
of object have few outlines, and what follows from one for the managed fields can be remembered
(`cathedra.apiserver.ownership.managers`): without that they cost as much as the rest of a write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cathedra.api.jsonvalue import JSONValue
from cathedra.apiserver.ownership.fieldset import ONE_FIELD, FieldSet
from cathedra.apiserver.ownership.typed import MISSING, elements, field_shape, is_leaf
from cathedra.apiserver.patches.schema import ListShape, Shape, StructShape

__all__ = [
    "ADDED",
    "CHANGED",
    "MODIFIED",
    "Changes",
    "Comparison",
    "Outline",
    "compare",
    "outline",
    "spelled",
]

Outline = tuple[str, tuple[Any, ...]]
"""What became of a field, and the same for the fields below, each with its path element. Below what was added there
are only path elements with what is below them."""

Changes = tuple[FieldSet, FieldSet]
"""The fields that a write gave a value, and those that it took away."""

ADDED: Final = "added"
CHANGED: Final = "changed below"
MODIFIED: Final[Outline] = ("modified", ())
_REMOVED: Final = "removed"


@dataclass
class Comparison:
    """How a value differs from an older one."""

    added: FieldSet = field(default_factory=FieldSet)
    modified: FieldSet = field(default_factory=FieldSet)
    removed: FieldSet = field(default_factory=FieldSet)

    @staticmethod
    def of(outlined: Outline | None) -> Comparison:
        """The fields that an outline names."""
        made = Comparison()
        if outlined is not None:
            made._enter(outlined, ())
        return made

    @staticmethod
    def below(parts: Mapping[str, Outline]) -> Comparison:
        """The fields that the outlines of an object's parts name, by path element."""
        return Comparison.of((CHANGED, tuple(parts.items())))

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.added.empty and self.modified.empty and self.removed.empty

    @property
    def changes(self) -> Changes:
        """What was set, for the first time or anew, and what was removed."""
        return self.modified.union(self.added), self.removed

    def without(self, ignored: FieldSet) -> Comparison:
        """The same with everything at or below the ignored paths left out."""
        return Comparison(
            self.added.without_subtrees(ignored),
            self.modified.without_subtrees(ignored),
            self.removed.without_subtrees(ignored),
        )

    def _enter(self, outlined: Outline, path: tuple[str, ...]) -> None:
        what, below = outlined
        if what == ADDED:
            _grow(self.added.at(path), below)
        elif outlined is MODIFIED:
            self.modified.insert(path)
        else:
            for element, part in below:
                self._enter(part, (*path, element))
            if what == _REMOVED:
                self.removed.insert(path)


def _grow(node: FieldSet, below: Iterable[tuple[str, Any]]) -> None:
    node.member = True
    for element, part in below:
        if part:
            _grow(node.children.setdefault(element, FieldSet()), part)
        else:
            node.children[element] = ONE_FIELD  # as most are


def compare(old: Any, new: Any, shape: Shape) -> Comparison:
    """What was added, modified and removed from ``old`` to ``new``."""
    return Comparison.of(outline(old, new, shape))


def outline(old: Any, new: Any, shape: Shape) -> Outline | None:
    """Which fields differ from ``old`` to ``new``; None if none does."""
    if old is new or (old is not MISSING and old == new and (isinstance(shape, StructShape) or _alike(old, new))):
        return None
    if old is MISSING:
        return ADDED, spelled(new, shape)
    if type(old) is dict and type(new) is dict and not isinstance(shape, ListShape) and not is_leaf(shape):
        changes = _changed_fields(old, new, shape)
        return (CHANGED, changes) if changes else None
    pairs = None if is_leaf(shape) else _pairs(old, new, shape)
    if pairs is None:
        if new is MISSING:
            return _REMOVED, ()
        return MODIFIED
    below = tuple(
        (element, part)
        for element, inner, before, after in pairs
        if (part := outline(before, after, inner)) is not None
    )
    if new is MISSING:
        return _REMOVED, below
    return (CHANGED, below) if below else None


def _changed_fields(old: dict[str, Any], new: dict[str, Any], shape: Shape) -> tuple[tuple[str, Outline], ...]:
    """What became of the fields of a struct or map that was there before and is there now."""
    found: list[tuple[str, Outline]] = []
    for key in {**old, **new}:
        before, after = old.get(key, MISSING), new.get(key, MISSING)
        if type(before) is str and before == after:
            continue  # as most fields are
        part = outline(before, after, field_shape(shape, key))
        if part is not None:
            found.append((f"f:{key}", part))
    return tuple(found)


def spelled(value: JSONValue, shape: Shape) -> tuple[Any, ...]:
    """What an outline says below a value that was not there before."""
    if is_leaf(shape):
        return ()
    if isinstance(shape, ListShape):
        if not isinstance(value, list):
            return ()
        return tuple((element, spelled(item, shape.element)) for element, item in dict(elements(value, shape)).items())
    if not isinstance(value, dict):
        return ()
    return tuple((f"f:{key}", spelled(item, field_shape(shape, key))) for key, item in value.items())


def _alike(old: Any, new: Any) -> bool:
    """Whether values that Python takes for equal are so as JSON: 1 is not true."""
    if isinstance(old, dict):
        return all(_alike(value, new[key]) for key, value in old.items())
    if isinstance(old, list):
        return all(map(_alike, old, new))
    return isinstance(old, bool) is isinstance(new, bool)


def _pairs(old: Any, new: Any, shape: Shape) -> Iterator[tuple[str, Shape, Any, Any]] | None:
    """The elements of both sides; None if both are empty, and so a leaf."""
    if isinstance(shape, ListShape):
        before = old if isinstance(old, list) else []
        after = new if isinstance(new, list) else []
        if not before and not after:
            return None
        return _list_pairs(before, after, shape)
    before_map = old if isinstance(old, dict) else {}
    after_map = new if isinstance(new, dict) else {}
    if not before_map and not after_map:
        return None
    return (
        (f"f:{key}", field_shape(shape, key), before_map.get(key, MISSING), after_map.get(key, MISSING))
        for key in dict.fromkeys((*before_map, *after_map))
    )


def _list_pairs(before: list[Any], after: list[Any], shape: ListShape) -> Iterator[tuple[str, Shape, Any, Any]]:
    old_items, new_items = dict(elements(before, shape)), dict(elements(after, shape))
    for element in dict.fromkeys((*old_items, *new_items)):
        yield element, shape.element, old_items.get(element, MISSING), new_items.get(element, MISSING)
