"""Admission plugins and the chain they form (docs/spec/apimachinery.md §16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final

from cathedra.api.boundedcache import BoundedCache
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.request import Call
from cathedra.kinds.definition import AnyDefinition

__all__ = ["AdmissionChain", "AdmissionPlugin"]

Observe = Callable[[GroupResource, Callable[[StoredChange], None]], None]
_Sort = tuple[str, str, str, str, str, int]
"""A sort of requests: the method, group, resource, sub-resource and operation, and the sort of its user."""
_USERS_KEPT: Final = 4096
"""Users whose sort is kept."""
_USER_BYTES: Final = 4 * 1024 * 1024
"""Characters of their names and groups."""


class AdmissionPlugin:
    """Changes or refuses writes. It has `admit`, `validate` or both, which raise `cathedra.api.status.StatusError`."""

    kinds: ClassVar[frozenset[GroupResource] | None] = None
    """The resources that it has something to say about; None: all."""
    rules: ClassVar[frozenset[GroupResource]] = frozenset()
    """The resources whose objects decide whether it is idle, and what concerns it."""

    def concerns(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Whether it may have something to say about such requests on one of its kinds, as long as no object of its
        `rules` is written; it is called with no others."""
        return True

    def concerns_user(self, user: UserInfo) -> bool:
        """Whether it may have something to say about requests of that user, by its name and groups; it is called with
        no others."""
        return True

    def is_idle(self, definition: AnyDefinition) -> bool:
        """Whether all requests on a resource would pass as they are, as long as no object of its `rules` is written:
        then it is not called."""
        return False

    async def admit(self, request: AdmissionAttributes) -> Any:
        """The object as it may go on, changed or not."""
        return request.object

    async def validate(self, request: AdmissionAttributes) -> None:
        """Refuse, or let pass."""


class AdmissionChain:
    """Plugins in order: all may change, then all may refuse. Who is to be called is remembered for each sort of
    request, until an object is written that some plugin goes by."""

    def __init__(
        self,
        plugins: Sequence[AdmissionPlugin],
        *,
        external: Sequence[AdmissionPlugin] = (),
        observe: Observe | None = None,
    ) -> None:
        """``external`` are the plugins among them that let others change objects: webhooks and policies. ``observe``
        tells of writes on a resource; without it no plugin may have `AdmissionPlugin.rules`."""
        self._plugins = tuple(plugins)
        self._external = frozenset(external)
        self._called: dict[_Sort, tuple[AdmissionPlugin, ...]] = {}
        self._idle: dict[tuple[str, str, str, str, int], bool] = {}
        self._choosing = tuple(plugin for plugin in plugins if _has_own(plugin, "concerns_user"))
        """Those that some users do not concern."""
        self._users: BoundedCache[tuple[str, tuple[str, ...]], int] = BoundedCache(_USERS_KEPT, most_bytes=_USER_BYTES)
        """Name and groups of a user → its sort: a bit for each of those whom it concerns; 0 if there are none."""
        for resource in frozenset().union(*(plugin.rules for plugin in plugins)):
            assert observe is not None
            observe(resource, self._forget)

    def _forget(self, _: StoredChange) -> None:
        self._called.clear()
        self._idle.clear()

    def is_idle(self, call: Call, operation: str) -> bool:
        """Whether no plugin has anything to say about such a request, so that none need be asked."""
        if not self._plugins:
            return True
        definition, user = call.definition, self._sort_of(call.user)
        sort = (definition.group, definition.plural, call.subresource, operation, user)
        try:
            return self._idle[sort]
        except KeyError:
            pass
        called = [self._called_for(call, operation, method) for method in ("admit", "validate")]
        idle = self._idle[sort] = not any(called)
        return idle

    async def admit(self, request: AdmissionAttributes) -> Any:
        """The object after every plugin changed it; if a webhook or a policy did, all are called once more."""
        plugins = self._called_for(request.call, request.operation, "admit")
        if not plugins:
            return request.object
        obj, again = await self._pass(plugins, request)
        if again:
            obj, _ = await self._pass(plugins, request.but(object=obj, again=True))
        return obj

    async def _pass(self, plugins: tuple[AdmissionPlugin, ...], request: AdmissionAttributes) -> tuple[Any, bool]:
        again = False
        for plugin in plugins:
            changed = await plugin.admit(request)
            if changed is not request.object:
                again = again or (plugin in self._external and changed != request.object)
                request = replace(request, object=changed)
        return request.object, again

    async def validate(self, request: AdmissionAttributes) -> None:
        """Ask every plugin for its refusal."""
        for plugin in self._called_for(request.call, request.operation, "validate"):
            await plugin.validate(request)

    def _called_for(self, call: Call, operation: str, method: str) -> tuple[AdmissionPlugin, ...]:
        if not self._plugins:
            return ()
        definition, user = call.definition, self._sort_of(call.user)
        sort = (method, definition.group, definition.plural, call.subresource, operation, user)
        try:
            return self._called[sort]
        except KeyError:
            pass
        others = {plugin for bit, plugin in enumerate(self._choosing) if not user >> bit & 1}
        about = self._about(definition, call.subresource, operation, method)
        plugins = self._called[sort] = tuple(plugin for plugin in about if plugin not in others)
        return plugins

    def _sort_of(self, user: UserInfo) -> int:
        if not self._choosing:
            return 0
        key = (user.name, user.groups)
        found = self._users.get(key)
        if found is None:
            found = sum(plugin.concerns_user(user) << bit for bit, plugin in enumerate(self._choosing))
            self._users.keep(key, found, sum(map(len, (user.name, *user.groups))))
        return found

    def _about(
        self, definition: AnyDefinition, subresource: str, operation: str, method: str
    ) -> Iterator[AdmissionPlugin]:
        """The plugins that have that method of their own and something to say about such requests, as things stand."""
        for plugin in self._plugins:
            if (
                _has_own(plugin, method)
                and (plugin.kinds is None or definition.group_resource in plugin.kinds)
                and plugin.concerns(definition, subresource, operation)
                and not plugin.is_idle(definition)
            ):
                yield plugin


def _has_own(plugin: AdmissionPlugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(AdmissionPlugin, method)
