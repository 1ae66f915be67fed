"""A write as admission plugins see it (docs/spec/apimachinery.md §16)."""

from __future__ import annotations

from typing import Any

import msgspec

from cathedra.api.struct import KubeStruct
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.request import Call
from cathedra.kinds.definition import AnyDefinition, VersionDefinition


class AdmissionAttributes(msgspec.Struct, frozen=True, gc=False):
    """A write before it is stored: the call and its objects, in the hub version.

    The attributes of the call are repeated as properties, under the names of Kubernetes' admission attributes.
    """

    call: Call
    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    object: Any
    """None in a deletion."""
    old_object: Any
    """None in a creation."""
    options: KubeStruct | None = None
    again: bool = False
    """True if this is the second pass over the request, because a webhook changed the object in the first."""
    memory: dict[str, Any] = msgspec.field(default_factory=dict)
    """State that plugins keep from one pass to the next, by plugin."""

    def but(self, **changes: Any) -> AdmissionAttributes:
        """Return the same request with other values in the named attributes."""
        return msgspec.structs.replace(self, **changes)

    @property
    def user(self) -> UserInfo:
        """The user of the request."""
        return self.call.user

    @property
    def definition(self) -> AnyDefinition:
        """The definition of the resource that is written."""
        return self.call.definition

    @property
    def version(self) -> VersionDefinition:
        """The version of the request."""
        return self.call.version

    @property
    def namespace(self) -> str:
        """The namespace; "" outside of any."""
        return self.call.namespace

    @property
    def name(self) -> str:
        """The object's name, which a creation has in the object alone; "" if the server is to make one."""
        name: str = self.call.name or ("" if self.object is None else self.object.metadata.name)
        return name

    @property
    def subresource(self) -> str:
        """The sub-resource; "" for the object itself."""
        return self.call.subresource

    @property
    def dry_run(self) -> bool:
        """True if nothing is to be stored."""
        return self.call.dry_run

    @property
    def field_manager(self) -> str:
        """The manager of the fields that are written."""
        return self.call.field_manager

    @property
    def warnings(self) -> list[str]:
        """Texts for ``Warning`` headers; plugins append."""
        return self.call.warnings

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the audit event; plugins add theirs."""
        return self.call.annotations
