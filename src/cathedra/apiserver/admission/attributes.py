"""A write as admission plugins see it (docs/spec/apimachinery.md §16)."""

from __future__ import annotations

from typing import Any

import msgspec

from cathedra.api.struct import KubeStruct
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.kinds.definition import ResourceDefinition, VersionDefinition

__all__ = ["AdmissionAttributes"]


class AdmissionAttributes(msgspec.Struct, frozen=True):
    """A write on its way in. ``operation`` is CREATE, UPDATE, DELETE or CONNECT; objects are in the hub version."""

    operation: str
    definition: ResourceDefinition[Any]
    version: VersionDefinition
    namespace: str
    name: str
    subresource: str
    user: UserInfo
    object: Any
    old_object: Any
    dry_run: bool
    options: KubeStruct | None
    warnings: list[str]
    """Texts for ``Warning`` headers; plugins append."""
    field_manager: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    """What the audit log is to say of it; plugins add."""
    again: bool = False
    """Whether this is the second pass over the request, because a webhook changed the object in the first."""
    memory: dict[str, Any] = msgspec.field(default_factory=dict)
    """What plugins remember from one pass to the next, by plugin."""

    def but(self, **changes: Any) -> AdmissionAttributes:
        """The same request with other values in the named attributes."""
        return msgspec.structs.replace(self, **changes)
