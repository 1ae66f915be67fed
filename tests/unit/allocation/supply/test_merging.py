"""Taints of rules that choose devices by class and by expression, as 1.33 and 1.34 merged them into slices."""

from __future__ import annotations

from cathedra.allocation.supply.merging import MergedSlices, SliceChange, UnreadableRule, merged_rules
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import (
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceClassSpec,
    DeviceSelector,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)

OWN = DeviceTaint(key="own", effect="NoSchedule")
OLD_MODEL = 'device.attributes["d"].model == "old"'


class Told:
    """Reports to an observer."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def failed(self, rule: DeviceTaintRule, message: str) -> None:
        self.lines.append(f"{rule.metadata.name}: {message}")

    def unreadable(self, slice_: ResourceSlice, error: UnreadableRule) -> None:
        self.lines.append(f"{slice_.metadata.name}: {error}")


def device(name: str, model: str = "", *taints: DeviceTaint) -> Device:
    return Device(name=name, attributes={"model": DeviceAttribute(string=model)} if model else {}, taints=taints)


def slice_(*devices: Device, name: str = "s") -> ResourceSlice:
    pool = ResourcePool(name="p", generation=1, resource_slice_count=1)
    return ResourceSlice(
        metadata=ObjectMeta(name=name), spec=ResourceSliceSpec(driver="d", pool=pool, node_name="n", devices=devices)
    )


def expressions(*texts: str) -> tuple[DeviceSelector, ...]:
    return tuple(DeviceSelector(cel=CELDeviceSelector(expression=text)) for text in texts)


def rule(name: str = "r", *texts: str, class_name: str | None = None, **names: str) -> DeviceTaintRule:
    selector = DeviceTaintSelector(device_class_name=class_name, selectors=expressions(*texts), **names)
    spec = DeviceTaintRuleSpec(device_selector=selector, taint=DeviceTaint(key=name, effect="NoExecute"))
    return DeviceTaintRule(metadata=ObjectMeta(name=name), spec=spec)


def class_(*texts: str) -> DeviceClass:
    return DeviceClass(metadata=ObjectMeta(name="c"), spec=DeviceClassSpec(selectors=expressions(*texts)))


def merged() -> tuple[MergedSlices, Told]:
    told = Told()
    return MergedSlices(told, consumable_capacity=False), told


def taints(changes: list[SliceChange]) -> list[list[str]]:
    """The keys of each device's taints, after the only change."""
    ((_, new),) = changes
    assert new is not None
    return [[taint.key for taint in device.taints] for device in new.spec.devices]


def test_an_expression_chooses_devices_by_their_attributes() -> None:
    slices, told = merged()
    slices.set_slice(slice_(device("a", "old", OWN), device("b", "new")))
    assert taints(slices.set_rule(rule("r", OLD_MODEL))) == [["own", "r"], []]
    assert taints(slices.set_slice(slice_(device("a", "new", OWN), device("b", "old")))) == [["own"], ["r"]]
    assert told.lines == []


def test_a_rule_of_a_class_follows_that_class() -> None:
    slices, _ = merged()
    slices.set_slice(slice_(device("a", "old"), device("b", "new")))
    assert slices.set_rule(rule(class_name="c")) == []
    assert taints(slices.set_class(class_(OLD_MODEL))) == [["r"], []]
    assert taints(slices.set_class(class_())) == [["r"], ["r"]]


def test_a_class_that_goes_leaves_the_taints_until_something_else_changes() -> None:
    slices, _ = merged()
    slices.set_class(class_())
    slices.set_rule(rule(class_name="c"))
    slices.set_slice(slice_(device("a")))
    slices.remove_class("c")
    assert taints(slices.set_slice(slice_(device("a")))) == [[]]


def test_names_are_asked_before_expressions() -> None:
    slices, told = merged()
    slices.set_slice(slice_(device("a", "old"), device("b")))
    assert taints(slices.set_rule(rule("r", OLD_MODEL, device="a"))) == [["r"], []]
    assert told.lines == []


def test_a_failing_expression_leaves_its_device_alone_and_is_told() -> None:
    slices, told = merged()
    slices.set_slice(slice_(device("a"), device("b", "old")))
    assert taints(slices.set_rule(rule("r", "true", OLD_MODEL))) == [[], ["r"]]
    assert told.lines == ["r: selector #1: runtime error: no such key: model"]


def test_a_failing_expression_of_a_class_is_not_told() -> None:
    slices, told = merged()
    slices.set_class(class_(OLD_MODEL))
    slices.set_slice(slice_(device("a"), device("b", "old")))
    assert taints(slices.set_rule(rule(class_name="c"))) == [[], ["r"]]
    assert told.lines == []


def test_what_does_not_compile_leaves_the_slice_as_it_was() -> None:
    slices, told = merged()
    slices.set_slice(slice_(device("a")))
    assert slices.set_rule(rule("r", "1 +")) == []
    assert told.lines[0].startswith("s: DeviceTaintRule r: selector #0: CEL compile error: ")
    slices.remove_rule("r")
    assert taints(slices.set_rule(rule("sound"))) == [["sound"]]


def test_a_rule_without_a_selector_taints_everything() -> None:
    slices, _ = merged()
    slices.set_slice(slice_(device("a")))
    bare = DeviceTaintRule(
        metadata=ObjectMeta(name="r"), spec=DeviceTaintRuleSpec(taint=DeviceTaint(key="r", effect="NoSchedule"))
    )
    assert taints(slices.set_rule(bare)) == [["r"]]
    assert taints(slices.remove_rule("r")) == [[]]
    assert slices.remove_rule("r") == []


def test_a_view_of_a_moment_merges_what_names_cannot_say() -> None:
    by_name, by_class, broken = rule("named", device="a"), rule("of-class", class_name="c"), rule("broken", "1 +")
    slices, left = merged_rules([slice_(device("a", "old"))], [by_name, by_class], [class_(OLD_MODEL)])
    assert [taint.key for taint in slices[0].spec.devices[0].taints] == ["of-class"]
    assert left == [by_name]
    assert merged_rules([slice_(device("a"))], [broken], []) == ([slice_(device("a"))], [])
    assert merged_rules([slice_(device("a"))], [rule("r", OLD_MODEL)], []) == ([slice_(device("a"))], [])


def test_slices_come_and_go() -> None:
    slices, _ = merged()
    (first,) = slices.set_slice(slice_(device("a")))
    assert first.old is None
    assert slices.remove_slice("s") == [SliceChange(first.new, None)]
    assert slices.remove_slice("s") == []
