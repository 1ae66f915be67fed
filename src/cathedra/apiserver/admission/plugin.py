"""What an admission plugin sees of a request, and the chain they form (spec: apimachinery.md, section 16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cathedra.api.definition import ResourceDefinition, VersionDefinition
from cathedra.api.struct import KubeStruct
from cathedra.apiserver.authentication.user import UserInfo

__all__ = ["AdmissionChain", "AdmissionPlugin", "AdmissionRequest"]


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
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
    annotations: dict[str, str] = field(default_factory=dict)
    """What the audit log is to say of it; plugins add."""
    again: bool = False
    """Whether this is the second pass over the request, because a webhook changed the object in the first."""
    memory: dict[str, Any] = field(default_factory=dict)
    """What plugins remember from one pass to the next, by plugin."""


class AdmissionPlugin(Protocol):
    """One gatekeeper. Both methods raise `cathedra.api.status.StatusError` to refuse."""

    async def admit(self, request: AdmissionRequest) -> Any:
        """The object as it may go on, changed or not."""
        ...

    async def validate(self, request: AdmissionRequest) -> None:
        """Refuse, or let pass."""
        ...


class AdmissionChain:
    """Plugins in order: all may change, then all may refuse."""

    def __init__(self, plugins: Sequence[AdmissionPlugin], *, outside: AdmissionPlugin | None = None) -> None:
        """``outside`` is the plugin among them that lets programs outside change objects."""
        self._plugins = tuple(plugins)
        self._outside = outside

    async def admit(self, request: AdmissionRequest) -> Any:
        """The object after every plugin changed it; if somebody outside did, all are asked once more."""
        obj, again = await self._pass(request)
        if again:
            obj, _ = await self._pass(replace(request, object=obj, again=True))
        return obj

    async def _pass(self, request: AdmissionRequest) -> tuple[Any, bool]:
        again = False
        for plugin in self._plugins:
            changed = await plugin.admit(request)
            if changed is not request.object:
                again = again or (plugin is self._outside and changed != request.object)
                request = replace(request, object=changed)
        return request.object, again

    async def validate(self, request: AdmissionRequest) -> None:
        """Ask every plugin for its refusal."""
        for plugin in self._plugins:
            await plugin.validate(request)
