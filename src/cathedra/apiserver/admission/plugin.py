"""Admission plugins and the chain they form (docs/spec/apimachinery.md §16)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from cathedra.api.scheme import GroupResource
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.kinds.definition import AnyDefinition

__all__ = ["AdmissionChain", "AdmissionPlugin"]


class AdmissionPlugin:
    """Changes or refuses writes. It has `admit`, `validate` or both, which raise `cathedra.api.status.StatusError`."""

    kinds: ClassVar[frozenset[GroupResource] | None] = None
    """The resources that it has something to say about; None: all."""

    def is_idle(self, definition: AnyDefinition) -> bool:
        """Whether all requests on a resource would pass as they are, as things stand: then it is not called."""
        return False

    async def admit(self, request: AdmissionAttributes) -> Any:
        """The object as it may go on, changed or not."""
        return request.object

    async def validate(self, request: AdmissionAttributes) -> None:
        """Refuse, or let pass."""


class AdmissionChain:
    """Plugins in order: all may change, then all may refuse. A plugin is called for its own kinds alone."""

    def __init__(self, plugins: Sequence[AdmissionPlugin], *, external: Sequence[AdmissionPlugin] = ()) -> None:
        """``external`` are the plugins among them that let others change objects: webhooks and policies."""
        self._plugins = tuple(plugins)
        self._external = frozenset(external)
        self._admitting: dict[GroupResource, tuple[tuple[AdmissionPlugin, bool], ...]] = {}
        self._validating: dict[GroupResource, tuple[tuple[AdmissionPlugin, bool], ...]] = {}

    async def admit(self, request: AdmissionAttributes) -> Any:
        """The object after every plugin changed it; if a webhook or a policy did, all are called once more."""
        obj, again = await self._pass(request)
        if again:
            obj, _ = await self._pass(request.but(object=obj, again=True))
        return obj

    async def _pass(self, request: AdmissionAttributes) -> tuple[Any, bool]:
        again = False
        resource = request.definition.group_resource
        plugins = self._admitting.get(resource)
        if plugins is None:
            plugins = self._admitting[resource] = tuple(self._about(resource, "admit"))
        definition = request.definition
        for plugin, may_be_idle in plugins:
            if may_be_idle and plugin.is_idle(definition):
                continue
            changed = await plugin.admit(request)
            if changed is not request.object:
                again = again or (plugin in self._external and changed != request.object)
                request = request.but(object=changed)
        return request.object, again

    async def validate(self, request: AdmissionAttributes) -> None:
        """Ask every plugin for its refusal."""
        resource = request.definition.group_resource
        plugins = self._validating.get(resource)
        if plugins is None:
            plugins = self._validating[resource] = tuple(self._about(resource, "validate"))
        definition = request.definition
        for plugin, may_be_idle in plugins:
            if not (may_be_idle and plugin.is_idle(definition)):
                await plugin.validate(request)

    def _about(self, resource: GroupResource, method: str) -> Iterator[tuple[AdmissionPlugin, bool]]:
        """The plugins that have that method of their own and something to say about the resource, each with whether
        it is ever idle."""
        for plugin in self._plugins:
            if _has_own(plugin, method) and (plugin.kinds is None or resource in plugin.kinds):
                yield plugin, _has_own(plugin, "is_idle")


def _has_own(plugin: AdmissionPlugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(AdmissionPlugin, method)
