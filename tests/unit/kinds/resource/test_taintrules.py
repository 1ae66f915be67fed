"""Device taint rules: time of the taint, generation, rows."""

from __future__ import annotations

from typing import Any

from cathedra.api.decoding import decode_json
from cathedra.api.resource import DeviceTaintRule, DeviceTaintSelector
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import NOW, context, created, definition_of, row, texts, updated

OLD = "2020-01-01T00:00:00Z"


def rule(effect: str = "NoSchedule", added: str | None = None, **selector: Any) -> DeviceTaintRule:
    taint = {"key": "k", "value": "v", "effect": effect} | ({"timeAdded": added} if added else {})
    return from_dict(DeviceTaintRule, {"metadata": {"name": "r"}, "spec": {"taint": taint, "deviceSelector": selector}})


def test_a_new_rule_says_since_when() -> None:
    made, errors = created(definition_of("devicetaintrules").strategy, rule(), context())
    assert (errors, made.spec.taint.time_added.timestamp, made.metadata.generation) == ([], NOW, 1)
    assert row("devicetaintrules", made)["TimeAdded"] == "0s"


def test_another_effect_begins_anew() -> None:
    strategy = definition_of("devicetaintrules").strategy
    old = created(strategy, rule(added=OLD), context())[0]
    changed = updated(strategy, rule("NoExecute", OLD), old, context())[0]
    assert (changed.spec.taint.time_added.timestamp, changed.metadata.generation) == (NOW, 2)
    same = updated(strategy, rule(added=OLD), old, context())[0]
    assert (str(same.spec.taint.time_added), same.metadata.generation) == (OLD, 1)


def test_the_selector_names_driver_pool_and_device() -> None:
    strategy = definition_of("devicetaintrules").strategy
    errors = created(strategy, rule(driver="A b", pool="p//q", device="D"), context())[1]
    assert [text.split(":")[0] for text in texts(errors)] == [
        "spec.deviceSelector.driver",
        "spec.deviceSelector.pool",
        "spec.deviceSelector.device",
    ]


def test_what_the_release_before_reads_is_stored() -> None:
    assert definition_of("devicetaintrules").storage_version == "v1beta2"
    assert definition_of("devicetaintrules", "1.35").storage_version == "v1alpha3"


def test_until_134_a_class_and_expressions_select_too() -> None:
    strategy = definition_of("devicetaintrules", "1.34").strategy
    chosen = {"deviceClassName": "Bad Class", "selectors": [{"cel": {"expression": "x" * 10241}}, {}]}
    errors = created(strategy, rule(**chosen), context("1.34"))[1]
    assert [text.split(":")[0] for text in texts(errors)] == [
        "spec.deviceSelector.deviceClassName",
        "spec.deviceSelector.selectors[0].cel.expression",
        "spec.deviceSelector.selectors[1].cel",
    ]


def test_from_135_on_both_are_unknown() -> None:
    text = b"""{"kind":"DeviceTaintRule","apiVersion":"resource.k8s.io/v1alpha3","spec":{"deviceSelector":
        {"deviceClassName":"c","selectors":[{"cel":{"expression":"true"}}]}}}"""
    gvk = GroupVersionKind("resource.k8s.io", "v1alpha3", "DeviceTaintRule")
    known, later = (decode_json(DeviceTaintRule, gvk, text, release) for release in ("1.34", "1.35"))
    assert known.problems == ()
    assert len(later.problems) == 2
    assert later.object.spec.device_selector == DeviceTaintSelector()
