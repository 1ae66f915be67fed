"""The map between structs and group, version and kind.

Objects inside the system carry neither kind nor apiVersion. Code that encodes them looks both up here.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import NamedTuple

from cathedra.api.core.index import KINDS, MODULES
from cathedra.api.struct import KubeStruct


class UnknownKind(LookupError):
    """No built-in type has that group, version and kind."""


class GroupResource(NamedTuple):
    """A resource in any version; the group is "" for core/v1."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupVersionKind(NamedTuple):
    """A kind in one version."""

    group: str
    version: str
    kind: str

    @staticmethod
    def parse(api_version: str, kind: str) -> GroupVersionKind:
        """Return the kind that an object's ``apiVersion`` and ``kind`` name."""
        group, _, version = api_version.rpartition("/")
        return GroupVersionKind(group, version, kind)

    @property
    def api_version(self) -> str:
        """``group/version``, or ``version`` alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


@cache
def type_of(gvk: GroupVersionKind) -> type[KubeStruct]:
    """Return the struct of a built-in kind. Its module is imported on first use, to shorten the start.

    Raises:
        UnknownKind: there is no such kind, or it is of a version that is never served.
    """
    module = MODULES.get(gvk.api_version)
    if module is None or not is_registered(gvk):
        raise UnknownKind(f"no kind {gvk.kind!r} is registered for version {gvk.api_version!r}")
    found: type[KubeStruct] = getattr(importlib.import_module(module), gvk.kind)
    return found


def is_registered(gvk: GroupVersionKind) -> bool:
    """Return True if there is such a built-in kind, in a version that is served or not."""
    return gvk.kind in KINDS.get(gvk.api_version, ())


@cache
def kind_of(kind: type[KubeStruct]) -> GroupVersionKind:
    """Return group, version and kind of a struct. A struct that two versions share is that of the first, v1.

    Raises:
        UnknownKind: the struct is only a part of objects.
    """
    for api_version, module in MODULES.items():
        if module == kind.__module__ and kind.__name__ in KINDS[api_version]:
            return GroupVersionKind.parse(api_version, kind.__name__)
    raise UnknownKind(f"{kind.__module__}.{kind.__name__} is no kind of its own")
