"""Tags of an API type as data: the rules of its fields, and the keys of its lists.

They are written down per version of a kind, since declarative validation sees the object in the version of the
request. Fields without a rule, in themselves or below, are left out (k8s.io/code-generator, cmd/validation-gen).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from cathedra.kinds.declarative.formats import Check

_NO_FIELDS: Final[Mapping[str, FieldTags]] = MappingProxyType({})


class TypeTags(msgspec.Struct, frozen=True, eq=False):
    """The tags of a struct: its fields by JSON name, in the order of the type."""

    fields: Mapping[str, FieldTags] = msgspec.field(default_factory=lambda: _NO_FIELDS)
    union: tuple[str, ...] = ()
    """``unionMember``: the JSON names of the fields of which exactly one is set."""
    stable: bool = False
    """True if the union is enforced without ``DeclarativeValidationBeta``."""


class FieldTags(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of a field. One that is not ``required`` is optional: when it is empty, its other rules are skipped.

    ``required``, ``immutable``, ``unmodified``, ``settled``, ``fixed_items`` and ``max_items`` are checked first. If
    one of them is broken, nothing below the field is checked.
    """

    required: bool = False
    immutable: bool = False
    unmodified: bool = False
    """``update=NoModify``: may be set and cleared, but not changed."""
    settled: bool = False
    """``update=NoSet,NoUnset``: may be changed, but neither set nor cleared after creation."""
    fixed_items: bool = False
    """``update=NoAddItem,NoRemoveItem``: elements of a list may be changed, but neither added nor removed."""
    max_items: int | None = None
    checks: tuple[Check, ...] = ()
    """Of the value; of a list, of each element."""
    keys: tuple[Check, ...] = ()
    """``eachKey``: of each key of a map."""
    unique: tuple[str, ...] | None = None
    """``unique=map``, ``listType=map``: JSON names of the key fields of an element. A set has none."""
    of: TypeTags | None = None
    """The tags of the field's own type, or of its elements' or values'."""
    stable: bool = False
    """True if the rules are enforced without ``DeclarativeValidationBeta``."""

    @property
    def guards_change(self) -> bool:
        """Return True if setting or clearing the field is restricted."""
        return self.immutable or self.settled or self.fixed_items
