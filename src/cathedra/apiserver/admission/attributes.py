"""A write as admission plugins see it (docs/spec/apimachinery.md §16)."""

from __future__ import annotations

from typing import Any

import msgspec

from cathedra.api.struct import KubeStruct
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.request import Call
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

__all__ = ["AdmissionAttributes"]


class AdmissionAttributes(msgspec.Struct, frozen=True):
    """A write on its way in: the call, and the objects that it is about, in the hub version.

    What the call says is read from the call; its attributes are repeated here as properties, under the names that
    Kubernetes' admission attributes have.
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
    """Whether this is the second pass over the request, because a webhook changed the object in the first."""
    memory: dict[str, Any] = msgspec.field(default_factory=dict)
    """What plugins remember from one pass to the next, by plugin."""

    def but(self, **changes: Any) -> AdmissionAttributes:
        """The same request with other values in the named attributes."""
        return msgspec.structs.replace(self, **changes)

    @property
    def user(self) -> UserInfo:
        """The user of the request."""
        return self.call.user

    @property
    def definition(self) -> AnyDefinition:
        """The resource."""
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
        """The object's name; "" if the server is to make one."""
        return self.call.name

    @property
    def subresource(self) -> str:
        """The sub-resource; "" for the object itself."""
        return self.call.subresource

    @property
    def dry_run(self) -> bool:
        """Whether nothing is to be stored."""
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
        """What is added to the audit event; plugins add."""
        return self.call.annotations
