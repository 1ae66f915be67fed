"""ResourceSlices as readers of 1.33 and 1.34 saw them: with the taints of DeviceTaintRules merged in.

It offers what an informer of slices offers, and follows three of them: slices, rules and classes
(docs/spec/allocation.md §4).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from cathedra.allocation.supply.merging import MergedSlices, SliceChange, UnreadableRule
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceSlice
from cathedra.client.events import EventRecorder
from cathedra.client.informer import Handler, SharedInformers
from cathedra.client.objects import key_of
from cathedra.client.resources import DEVICECLASSES, DEVICETAINTRULES, RESOURCESLICES
from cathedra.client.store import Store
from cathedra.releases import FeatureGates

_LOG = logging.getLogger(__name__)
_COMPONENT: Final = "resource_slice_tracker"


class MergedSliceInformer:
    """Slices with the taints of rules, and their handlers. A rule whose expression fails on a device gets an event."""

    def __init__(self, informers: SharedInformers, recorder: EventRecorder, gates: FeatureGates) -> None:
        self.store: Store[ResourceSlice] = Store()
        self._recorder = recorder
        self._handlers: list[Handler[ResourceSlice]] = []
        self._merged = MergedSlices(self, consumable_capacity=gates["DRAConsumableCapacity"])
        self._rules = informers.of(DEVICETAINTRULES)
        self._classes = informers.of(DEVICECLASSES)
        self._slices = informers.of(RESOURCESLICES)
        # Existing objects are reported at once, so classes and rules come before slices: a slice that is merged before
        # its rules are known would be shown without their taints, and pods could be placed on it.
        self._classes.add_handler(self._class_set, lambda _, class_: self._class_set(class_), self._class_gone)
        self._rules.add_handler(self._rule_set, lambda _, rule: self._rule_set(rule), self._rule_gone)
        self._slices.add_handler(self._slice_set, lambda _, slice_: self._slice_set(slice_), self._slice_gone)

    async def wait_synced(self) -> None:
        """Wait for the first list of everything that is merged."""
        for informer in (self._classes, self._rules, self._slices):
            await informer.wait_synced()

    def add_handler(
        self,
        on_add: Callable[[ResourceSlice], None] | None = None,
        on_update: Callable[[ResourceSlice, ResourceSlice], None] | None = None,
        on_delete: Callable[[ResourceSlice], None] | None = None,
    ) -> None:
        """Register handlers. Existing slices are reported as added at once."""
        self._handlers.append(Handler(on_add, on_update, on_delete))
        if on_add is not None:
            for slice_ in self.store.list():
                on_add(slice_)

    def failed(self, rule: DeviceTaintRule, message: str) -> None:
        """Notify handlers of the slices that the rule changes."""
        self._recorder.record(rule, "Warning", "CELRuntimeError", message, component=_COMPONENT)

    def unreadable(self, slice_: ResourceSlice, error: UnreadableRule) -> None:
        """Log a slice that cannot be converted."""
        _LOG.error("failed to apply patches to ResourceSlice %s: %s", slice_.metadata.name, error)

    def _slice_set(self, slice_: ResourceSlice) -> None:
        self._tell(self._merged.set_slice(slice_))

    def _slice_gone(self, slice_: ResourceSlice) -> None:
        self._tell(self._merged.remove_slice(slice_.metadata.name))

    def _rule_set(self, rule: DeviceTaintRule) -> None:
        self._tell(self._merged.set_rule(rule))

    def _rule_gone(self, rule: DeviceTaintRule) -> None:
        self._tell(self._merged.remove_rule(rule.metadata.name))

    def _class_set(self, class_: DeviceClass) -> None:
        self._tell(self._merged.set_class(class_))

    def _class_gone(self, class_: DeviceClass) -> None:
        self._merged.remove_class(class_.metadata.name)

    def _tell(self, changes: list[SliceChange]) -> None:
        for old, new in changes:
            if new is None:
                self._removed(old)
                continue
            # Before the handlers: what they look up must be the state that they are notified of.
            self.store.put(new)
            for handler in self._handlers:
                if old is None and handler.on_add is not None:
                    handler.on_add(new)
                elif old is not None and handler.on_update is not None:
                    handler.on_update(old, new)

    def _removed(self, slice_: ResourceSlice | None) -> None:
        if slice_ is None:
            return
        self.store.remove(key_of(slice_))
        for handler in self._handlers:
            if handler.on_delete is not None:
                handler.on_delete(slice_)
