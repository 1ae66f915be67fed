"""The server compiles expressions for validation, under the gates it runs with."""

from __future__ import annotations

import pytest

from cathedra.api.field import ErrorType
from cathedra.apiserver.expressions import CELExpressions
from cathedra.releases import FeatureGates


def checker(release: str = "1.37", **overrides: bool) -> CELExpressions:
    return CELExpressions(FeatureGates.for_release(release, overrides))


@pytest.mark.parametrize(
    ("expression", "kind", "beginning"),
    [
        ('device.driver == "d"', None, ""),
        ('device.attributes["d"].ready', None, ""),
        ("device.driver", ErrorType.INVALID, "must evaluate to bool or the unknown type, not string"),
        ("device.nothing", ErrorType.INVALID, "compilation failed: ERROR:"),
        ("", ErrorType.INVALID, "compilation failed: ERROR:"),
    ],
)
def test_a_selector_is_a_question_about_a_device(expression: str, kind: ErrorType | None, beginning: str) -> None:
    fault = checker().selector(expression, stored=False)
    assert (None if fault is None else fault.type) is kind
    assert fault is None or fault.detail.startswith(beginning)


def test_what_a_closed_gate_hides_is_seen_in_stored_expressions_only() -> None:
    closed = checker("1.36", DRAConsumableCapacity=False)
    expression = "device.allowMultipleAllocations"
    assert closed.selector(expression, stored=False) is not None
    assert closed.selector(expression, stored=True) is None
    assert checker().selector(expression, stored=False) is None


def test_an_expression_that_may_cost_too_much_is_forbidden() -> None:
    each = (
        "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, true))))"
    )
    fault = checker().selector(each, stored=False)
    assert fault is not None
    assert (fault.type, fault.detail) == (ErrorType.FORBIDDEN, "too complex, exceeds cost limit")


def test_a_derived_attribute_is_something_that_an_attribute_can_be() -> None:
    fault, cost = checker().derived_attribute('device.attributes["d"].index', stored=False)
    assert (fault, cost > 0) == (None, True)
    assert checker().derived_attribute("1 + 1", stored=False)[0] is None
    fault, _ = checker().derived_attribute("device.attributes", stored=False)
    assert fault is not None
    assert fault.type is ErrorType.INVALID
