"""Admission plugins and the chain they form (docs/spec/apimachinery.md §16)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from operator import itemgetter
from types import CoroutineType
from typing import Any, ClassVar, Final
from weakref import ref

import msgspec

from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.metrics import AdmissionMetrics
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.request import Call
from cathedra.kinds.definition import AnyDefinition
from cathedra.remembering import remembered

Observe = Callable[[GroupResource, Callable[[StoredChange], None]], None]


class AdmissionPlugin:
    """Changes or refuses writes. It has `admit`, `validate` or both, which raise `cathedra.api.status.StatusError`.

    Both are coroutine functions where they have to wait. Most are plain ones: a new pod passes eight of them.
    """

    name: ClassVar[str] = ""
    """The plugin's name in metrics: Kubernetes', or the name of the class where Kubernetes has no such plugin."""
    kinds: ClassVar[frozenset[GroupResource] | None] = None
    """The resources whose writes it handles; None: all."""
    users: ClassVar[str] = ""
    """The beginning of the names of the users whose writes it handles; "": all users. All other writes pass
    unchanged."""
    rules: ClassVar[frozenset[GroupResource]] = frozenset()
    """The resources whose objects decide what `handles` returns, as LimitRanges do."""

    def __init_subclass__(cls) -> None:
        cls.name = cls.name or cls.__name__

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Return False if all such writes on one of its kinds pass unchanged.

        The result is kept until an object of `rules` is written, so it must depend on nothing else.
        """
        return True

    def admit(self, request: AdmissionAttributes) -> Any:
        """Return the object, changed or not, or a coroutine that does."""
        return request.object

    def validate(self, request: AdmissionAttributes) -> Coroutine[Any, Any, None] | None:
        """Raise an error, or let the write pass."""
        return None


class Called(msgspec.Struct, frozen=True):
    """The plugins of a chain that handle one write, in order; those that may change its object, and that may refuse
    it."""

    admitting: Sequence[AdmissionPlugin]
    validating: Sequence[AdmissionPlugin]


NO_PLUGINS: Final = Called((), ())
"""No plugin handles the write, so that none need be called."""


class AdmissionChain:
    """Plugins in order: all may change an object, then all may refuse it."""

    def __init__(
        self,
        plugins: Sequence[AdmissionPlugin],
        *,
        external: Sequence[AdmissionPlugin] = (),
        observe: Observe | None = None,
        metrics: AdmissionMetrics | None = None,
    ) -> None:
        """``external`` are the plugins among them that let others change objects: webhooks and policies. ``observe``
        registers a callback for writes on a resource; without it no plugin may have `AdmissionPlugin.rules`."""
        self.plugins = tuple(plugins)
        self.metrics = metrics or AdmissionMetrics()
        self._rules = _Rules(self)
        self._external = frozenset(external)
        for resource in frozenset().union(*(plugin.rules for plugin in plugins)):
            assert observe is not None
            observe(resource, self._forget)

    def _forget(self, _: StoredChange) -> None:
        self._rules = _Rules(self)

    def called(self, call: Call, operation: str) -> Called:
        """Return the plugins that a write passes."""
        if not self.plugins:
            return NO_PLUGINS
        handlers = _handlers(self._rules, call.definition, call.subresource, operation)
        if call.user.name.startswith(handlers.users):
            return self._called_for(handlers, call.user.name)
        if handlers.are_certain:
            admitting, validating = handlers.unselective
            return Called(admitting(self.plugins), validating(self.plugins))
        return NO_PLUGINS

    def _called_for(self, handlers: _Handlers, user: str) -> Called:
        admitting, validating = (
            [plugin for place in places if user.startswith((plugin := self.plugins[place]).users)]
            for places in handlers.positions
        )
        return Called(admitting, validating)

    async def admit(self, request: AdmissionAttributes, called: Called) -> Any:
        """Return the object after every plugin of a write (`called`) changed it. If a webhook or a policy did, all are
        called once more."""
        plugins = called.admitting
        if not plugins:
            return request.object
        metrics, operation, again = self.metrics, request.operation, True
        began = metrics.now()
        measure = metrics.measure(_METHODS[ADMIT], operation) if metrics.is_due() else None
        try:
            while again:
                again = False
                for plugin in plugins:
                    obj = plugin.admit(request) if measure is None else measure(plugin.name, plugin.admit, request)
                    if type(obj) is CoroutineType:
                        obj = await obj
                    if obj is not request.object:
                        if plugin in self._external and not request.again and obj != request.object:
                            again = True
                        request = replace(request, object=obj)
                if again:
                    request = replace(request, again=True)
        except StatusError:
            metrics.step_ended(began, _METHODS[ADMIT], operation, rejected="true")
            raise
        metrics.step_ended(began, _METHODS[ADMIT], operation)
        return request.object

    async def validate(self, request: AdmissionAttributes, called: Called) -> None:
        """Call every plugin of a write (`called`) that may refuse it."""
        plugins = called.validating
        if not plugins:
            return
        metrics, operation = self.metrics, request.operation
        began = metrics.now()
        measure = metrics.measure(_METHODS[VALIDATE], operation) if metrics.is_due() else None
        try:
            for plugin in plugins:
                step = plugin.validate
                validating = step(request) if measure is None else measure(plugin.name, step, request)
                if type(validating) is CoroutineType:
                    await validating
        except StatusError:
            metrics.step_ended(began, _METHODS[VALIDATE], operation, rejected="true")
            raise
        metrics.step_ended(began, _METHODS[VALIDATE], operation)


ADMIT: Final = 0
VALIDATE: Final = 1
_METHODS: Final = ("admit", "validate")


class _Rules:
    """The state of the objects that decide what plugins handle; another one after each change.

    It refers to the chain weakly: the memo keeps it, and would otherwise keep the objects of servers that are closed.
    """

    __slots__ = ("chain",)

    def __init__(self, chain: AdmissionChain) -> None:
        self.chain = ref(chain)


class _Handlers(msgspec.Struct, frozen=True):
    """The plugins that handle certain writes."""

    positions: tuple[tuple[int, ...], ...]
    """Positions in the chain, for each of the methods."""
    users: tuple[str, ...]
    """Beginnings of the names of users, of those that do not handle every user."""
    unselective: tuple[Callable[[tuple[AdmissionPlugin, ...]], tuple[AdmissionPlugin, ...]], ...]
    """Returns those that handle every user from the plugins of the chain, for each of the methods."""
    are_certain: bool
    """True if there is one that handles every user."""


# To go through some 20 plugins takes 8 µs, three times for each write, and few plugins handle it.
@remembered("apiserver.admission.plugin.handlers", size=1024)
def _handlers(rules: _Rules, definition: AnyDefinition, subresource: str, operation: str) -> _Handlers:
    chain = rules.chain()
    handling = [
        (position, type(plugin))
        for position, plugin in enumerate(chain.plugins if chain is not None else ())
        if (plugin.kinds is None or definition.group_resource in plugin.kinds)
        and plugin.handles(definition, subresource, operation)
    ]
    positions = tuple(tuple(place for place, kind in handling if _has_own(kind, method)) for method in _METHODS)
    users = tuple(kind.users for _, kind in handling if kind.users)
    certain = [[place for place, kind in handling if _has_own(kind, method) and not kind.users] for method in _METHODS]
    return _Handlers(positions, users, tuple(map(_at, certain)), any(certain))


def _at(places: Sequence[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return a function that takes the items at these places out of a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1) if places else slice(0))


def _has_own(kind: type[AdmissionPlugin], method: str) -> bool:
    return getattr(kind, method) is not getattr(AdmissionPlugin, method)
