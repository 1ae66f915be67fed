"""Which struct is which kind: the map between Python types and group, version and kind.

Objects inside the system carry no kind and apiVersion of their own; what writes them down asks here.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import NamedTuple

from cathedra.api.core.index import KINDS
from cathedra.api.struct import KubeStruct

__all__ = ["GroupResource", "GroupVersionKind", "GroupVersionResource", "UnknownKind"]
__all__ += ["is_registered", "kind_of", "type_of"]


class UnknownKind(LookupError):
    """No built-in type has that group, version and kind."""


class GroupResource(NamedTuple):
    """A resource in any version; the group is "" for core/v1."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupVersionResource(NamedTuple):
    """A resource in one version."""

    group: str
    version: str
    resource: str

    @property
    def group_resource(self) -> GroupResource:
        """The same without the version."""
        return GroupResource(self.group, self.resource)


class GroupVersionKind(NamedTuple):
    """A kind in one version."""

    group: str
    version: str
    kind: str

    @staticmethod
    def parse(api_version: str, kind: str) -> GroupVersionKind:
        """From an object's ``apiVersion`` and ``kind``."""
        group, _, version = api_version.rpartition("/")
        return GroupVersionKind(group, version, kind)

    @property
    def api_version(self) -> str:
        """``group/version``, or ``version`` alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


@cache
def type_of(gvk: GroupVersionKind) -> type[KubeStruct]:
    """The struct of a built-in kind; its module is imported on first use.

    Raises:
        UnknownKind: there is none.
    """
    try:
        home = KINDS[gvk.api_version][gvk.kind]
    except KeyError as error:
        raise UnknownKind(f"no kind {gvk.kind!r} is registered for version {gvk.api_version!r}") from error
    module, _, name = home.partition(":")
    found: type[KubeStruct] = getattr(importlib.import_module(module), name)
    return found


def is_registered(gvk: GroupVersionKind) -> bool:
    """Whether there is such a built-in kind."""
    return gvk.kind in KINDS.get(gvk.api_version, {})


@cache
def kind_of(kind: type[KubeStruct]) -> GroupVersionKind:
    """Group, version and kind of a struct.

    Raises:
        UnknownKind: the struct is only a part of objects.
    """
    home = f"{kind.__module__}:{kind.__name__}"
    for api_version, kinds in KINDS.items():
        if kinds.get(kind.__name__) == home:
            return GroupVersionKind.parse(api_version, kind.__name__)
    raise UnknownKind(f"{kind.__module__}.{kind.__name__} is no kind of its own")
