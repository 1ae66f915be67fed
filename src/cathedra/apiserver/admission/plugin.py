"""What an admission plugin sees of a request, and the chain they form (spec: apimachinery.md, section 16)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from cathedra.api.definition import ResourceDefinition, VersionDefinition
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import KubeStruct
from cathedra.apiserver.authentication.user import UserInfo

__all__ = ["AdmissionChain", "AdmissionPlugin", "AdmissionRequest"]


class AdmissionRequest(msgspec.Struct, frozen=True):
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

    def but(self, **changes: Any) -> AdmissionRequest:
        """The same request with other values in the named attributes."""
        return msgspec.structs.replace(self, **changes)


class AdmissionPlugin:
    """One gatekeeper. It has `admit`, `validate` or both; both raise `cathedra.api.status.StatusError` to refuse."""

    kinds: ClassVar[frozenset[GroupResource] | None] = None
    """The resources that it has something to say about; None: all."""

    async def admit(self, request: AdmissionRequest) -> Any:
        """The object as it may go on, changed or not."""
        return request.object

    async def validate(self, request: AdmissionRequest) -> None:
        """Refuse, or let pass."""


class AdmissionChain:
    """Plugins in order: all may change, then all may refuse. Who has nothing to say about a kind is not asked."""

    def __init__(self, plugins: Sequence[AdmissionPlugin], *, outside: AdmissionPlugin | None = None) -> None:
        """``outside`` is the plugin among them that lets programs outside change objects."""
        self._plugins = tuple(plugins)
        self._outside = outside
        self._admitting: dict[GroupResource, tuple[AdmissionPlugin, ...]] = {}
        self._validating: dict[GroupResource, tuple[AdmissionPlugin, ...]] = {}

    async def admit(self, request: AdmissionRequest) -> Any:
        """The object after every plugin changed it; if somebody outside did, all are asked once more."""
        obj, again = await self._pass(request)
        if again:
            obj, _ = await self._pass(request.but(object=obj, again=True))
        return obj

    async def _pass(self, request: AdmissionRequest) -> tuple[Any, bool]:
        again = False
        resource = request.definition.group_resource
        plugins = self._admitting.get(resource)
        if plugins is None:
            plugins = self._admitting[resource] = tuple(self._about(resource, "admit"))
        for plugin in plugins:
            changed = await plugin.admit(request)
            if changed is not request.object:
                again = again or (plugin is self._outside and changed != request.object)
                request = request.but(object=changed)
        return request.object, again

    async def validate(self, request: AdmissionRequest) -> None:
        """Ask every plugin for its refusal."""
        resource = request.definition.group_resource
        asked = self._validating.get(resource)
        if asked is None:
            asked = self._validating[resource] = tuple(self._about(resource, "validate"))
        for plugin in asked:
            await plugin.validate(request)

    def _about(self, resource: GroupResource, method: str) -> Iterator[AdmissionPlugin]:
        """The plugins that have that method of their own and something to say about the resource."""
        for plugin in self._plugins:
            own = getattr(type(plugin), method) is not getattr(AdmissionPlugin, method)
            if own and (plugin.kinds is None or resource in plugin.kinds):
                yield plugin
