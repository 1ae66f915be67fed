"""Device taint rules merged into slices, as in 1.33 and 1.34, where rules could also select by class and expression.

Since 1.35 a rule selects by names only, and `Inventory` and controllers apply it. Before, one component added the
taints of all rules to slices, and everything else read those (docs/spec/allocation.md §4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cathedra.allocation.supply.devices import selects
from cathedra.api.resource import Device, DeviceClass, DeviceSelector, DeviceTaint, DeviceTaintRule, ResourceSlice
from cathedra.api.struct import replace
from cathedra.cel.errors import CompileError, EvaluationError

if TYPE_CHECKING:
    from cathedra.cel.device import DeviceView
    from cathedra.cel.selector import CompiledSelector


class UnreadableRule(Exception):
    """An expression of a rule, or of the class that it names, does not compile."""

    def __init__(self, rule: str, where: str, cause: CompileError) -> None:
        self.rule, self.where, self.cause = rule, where, cause
        super().__init__(f"DeviceTaintRule {rule}: {where}: CEL compile error: {cause}")


class MergeObserver(Protocol):
    """Observer of rules that cannot be applied."""

    def failed(self, rule: DeviceTaintRule, message: str) -> None:
        """Handle an expression of the rule itself that failed on a device; the rule does not taint that device."""

    def unreadable(self, slice_: ResourceSlice, error: UnreadableRule) -> None:
        """Handle a rule that cannot be applied to a slice; the slice stays as it was."""


class SliceChange(NamedTuple):
    """A slice with its taints before and after; None where it was, or is, not known."""

    old: ResourceSlice | None
    new: ResourceSlice | None


class MergedSlices:
    """Every slice of a cluster with the taints of the rules that choose its devices.

    Taints of the slice come first, then those of rules, by the rules' names.
    """

    def __init__(self, observer: MergeObserver, *, consumable_capacity: bool) -> None:
        """``consumable_capacity``: expressions may read the fields of that feature."""
        self._observer = observer
        self._selectors = _Selectors(consumable_capacity)
        self._rules: dict[str, DeviceTaintRule] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._sources: dict[str, ResourceSlice] = {}
        self._merged: dict[str, ResourceSlice] = {}

    def set_slice(self, slice_: ResourceSlice) -> list[SliceChange]:
        """Enter a slice, or its new state."""
        self._sources[slice_.metadata.name] = slice_
        return self._merge([slice_])

    def seen(self, slice_: ResourceSlice) -> ResourceSlice:
        """Add a slice and return it with its taints, or unchanged if a rule cannot be applied."""
        self.set_slice(slice_)
        return self._merged.get(slice_.metadata.name, slice_)

    def remove_slice(self, name: str) -> list[SliceChange]:
        """Remove a slice; return the change of the merged slices, empty if it was unknown."""
        self._sources.pop(name, None)
        old = self._merged.pop(name, None)
        return [SliceChange(old, None)] if old is not None else []

    def set_rule(self, rule: DeviceTaintRule) -> list[SliceChange]:
        """Add or replace a rule, and return the slices whose taints change."""
        old = self._rules.get(rule.metadata.name)
        self._rules[rule.metadata.name] = rule
        return self._renewed(self._named(rule, *(() if old is None else (old,))))

    def remove_rule(self, name: str) -> list[SliceChange]:
        """Remove a rule, and return the slices whose taints change."""
        old = self._rules.pop(name, None)
        return self._renewed(self._named(old)) if old is not None else []

    def set_class(self, class_: DeviceClass) -> list[SliceChange]:
        """Add or replace a class, and return the slices whose taints change."""
        self._classes[class_.metadata.name] = class_
        if not any(_class_of(rule) == class_.metadata.name for rule in self._rules.values()):
            return []
        return self._renewed(list(self._sources.values()))

    def remove_class(self, name: str) -> None:
        """Forget a class. Slices keep the taints that they have until something else changes them: Kubernetes took
        the deleted class for a slice, and skipped the rest."""
        self._classes.pop(name, None)

    def _named(self, *rules: DeviceTaintRule) -> list[ResourceSlice]:
        """Return the slices with a device that one of the rules selects by names."""
        return [
            slice_
            for slice_ in self._sources.values()
            if any(
                selects(rule, slice_.spec.driver, slice_.spec.pool.name, device.name)
                for rule in rules
                for device in slice_.spec.devices
            )
        ]

    def _renewed(self, slices: Iterable[ResourceSlice]) -> list[SliceChange]:
        return [change for change in self._merge(slices) if _taints(change.old) != _taints(change.new)]

    def _merge(self, slices: Iterable[ResourceSlice]) -> list[SliceChange]:
        rules = [rule for _, rule in sorted(self._rules.items())]
        changes = []
        for slice_ in slices:
            try:
                merged = self._selectors.merged(slice_, rules, self._classes, self._observer)
            except UnreadableRule as error:
                self._observer.unreadable(slice_, error)
                continue
            changes.append(SliceChange(self._merged.get(slice_.metadata.name), merged))
            self._merged[slice_.metadata.name] = merged
        return changes


def merged_rules(
    slices: Iterable[ResourceSlice], rules: Iterable[DeviceTaintRule], classes: Iterable[DeviceClass]
) -> tuple[list[ResourceSlice], list[DeviceTaintRule]]:
    """Slices with the taints of those rules that choose devices by class or expression, and the rules that are left.

    For supplies of a moment. Rules that no release after 1.34 would understand are to be found in older clusters alone.
    """
    left = [rule for rule in rules if _by_names_only(rule)]
    merged = MergedSlices(_Silent(), consumable_capacity=True)
    for class_ in classes:
        merged.set_class(class_)
    for rule in rules:
        if rule not in left:
            merged.set_rule(rule)
    return [merged.seen(slice_) for slice_ in slices], left


class _Silent:
    """An observer that reports nothing, for readers."""

    def failed(self, rule: DeviceTaintRule, message: str) -> None:
        """Ignore the failure; the rule does not taint the device."""

    def unreadable(self, slice_: ResourceSlice, error: UnreadableRule) -> None:
        """Ignore the error; the slice stays as it is."""


def _by_names_only(rule: DeviceTaintRule) -> bool:
    selector = rule.spec.device_selector
    return selector is None or (selector.device_class_name is None and not selector.selectors)


class _Selectors:
    """The expressions of rules and classes, compiled once."""

    def __init__(self, consumable_capacity: bool) -> None:
        self._consumable_capacity = consumable_capacity
        self._compiled: dict[str, CompiledSelector | CompileError] = {}

    def merged(
        self,
        slice_: ResourceSlice,
        rules: Iterable[DeviceTaintRule],
        classes: Mapping[str, DeviceClass],
        observer: MergeObserver,
    ) -> ResourceSlice:
        """Return the slice with the taints of rules.

        Raises:
            UnreadableRule: an expression does not compile.
        """
        added: dict[int, list[DeviceTaint]] = {}
        for rule in rules:
            questions = _questions(rule, classes)
            if questions is None:
                continue
            for position, device in enumerate(slice_.spec.devices):
                if not selects(rule, slice_.spec.driver, slice_.spec.pool.name, device.name):
                    continue
                if not questions or self._matches(rule, questions, _supply(slice_.spec.driver, device), observer):
                    added.setdefault(position, []).append(rule.spec.taint)
        if not added:
            return slice_
        devices = tuple(
            replace(device, taints=(*device.taints, *added.get(position, ())))
            for position, device in enumerate(slice_.spec.devices)
        )
        return replace(slice_, spec=replace(slice_.spec, devices=devices))

    def _matches(
        self, rule: DeviceTaintRule, questions: Sequence[_Question], supply: DeviceView, observer: MergeObserver
    ) -> bool:
        for question in questions:
            compiled = self._of(question.expression)
            if isinstance(compiled, CompileError):
                raise UnreadableRule(rule.metadata.name, question.where, compiled)
            try:
                if not compiled.matches(supply):
                    return False
            except EvaluationError as error:
                if question.of_rule:
                    observer.failed(rule, f"{question.where}: runtime error: {error}")
                return False
        return True

    def _of(self, text: str) -> CompiledSelector | CompileError:
        # start-up time: CEL comes with the first selector
        from cathedra.cel.selector import compile_selector

        if text not in self._compiled:
            try:
                self._compiled[text] = compile_selector(text, consumable_capacity=self._consumable_capacity)
            except CompileError as error:
                self._compiled[text] = error
        return self._compiled[text]


class _Question(NamedTuple):
    """An expression, and where it stands."""

    where: str
    expression: str
    of_rule: bool


def _questions(rule: DeviceTaintRule, classes: Mapping[str, DeviceClass]) -> Sequence[_Question] | None:
    """Return the selectors of a rule besides its names, those of its class first; None if that class does not exist."""
    selector = rule.spec.device_selector
    if selector is None:
        return ()
    found = []
    if selector.device_class_name is not None:
        class_ = classes.get(selector.device_class_name)
        if class_ is None:
            return None
        place = f"class {selector.device_class_name}: "
        found += [
            _Question(f"{place}selector #{index}", text, False) for index, text in _expressions(class_.spec.selectors)
        ]
    return [*found, *(_Question(f"selector #{index}", text, True) for index, text in _expressions(selector.selectors))]


def _expressions(selectors: Iterable[DeviceSelector]) -> Iterable[tuple[int, str]]:
    return enumerate(selector.cel.expression for selector in selectors if selector.cel is not None)


def _supply(driver: str, device: Device) -> DeviceView:
    """Return the value of ``device`` in expressions of rules, which could not read whether it may be shared."""
    # start-up time: CEL comes with the first selector
    from cathedra.cel.device import DeviceView

    return DeviceView.of(driver, None, device.attributes, device.capacity)


def _class_of(rule: DeviceTaintRule) -> str | None:
    selector = rule.spec.device_selector
    return selector.device_class_name if selector is not None else None


def _taints(slice_: ResourceSlice | None) -> list[tuple[DeviceTaint, ...]]:
    return [device.taints for device in slice_.spec.devices] if slice_ is not None else []
