"""Rules of expressions, whatever compiles them."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api import resource
from cathedra.api.field import ErrorList, ErrorType, FieldPath
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.definition import ExpressionFault, RequestContext
from cathedra.kinds.resource.expressions import validate_derived_attributes, validate_selectors
from tests.unit.kinds.objects import claim, context, exactly, texts


class Compiler:
    """Finds the fault that an expression names, and every derived attribute half as costly as may be."""

    def __init__(self, cost: int = 500_000) -> None:
        self.cost, self.seen = cost, list[tuple[str, bool]]()

    def selector(self, expression: str, *, stored: bool) -> ExpressionFault | None:
        self.seen.append((expression, stored))
        faults = {kind.name: ExpressionFault(kind, "the detail") for kind in ErrorType}
        return faults.get(expression)

    def derived_attribute(self, expression: str, *, stored: bool) -> tuple[ExpressionFault | None, int]:
        return self.selector(expression, stored=stored), self.cost


def compiling(compiler: Compiler) -> RequestContext:
    return replace(context(), expressions=compiler)


def selected(request: RequestContext, *expressions: str, stored: bool = False) -> list[str]:
    errors = ErrorList()
    selectors = [from_dict(resource.DeviceSelector, {"cel": {"expression": text}}) for text in expressions]
    validate_selectors(errors, FieldPath("s"), selectors, request, stored=stored)
    return texts(errors)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("fine", []),
        ("INVALID", ['s[0].cel.expression: Invalid value: "INVALID": the detail']),
        ("FORBIDDEN", ["s[0].cel.expression: Forbidden: the detail"]),
        ("INTERNAL", ["s[0].cel.expression: Internal error: the detail"]),
    ],
)
def test_a_fault_is_told_as_what_it_is(expression: str, wanted: list[str]) -> None:
    assert selected(compiling(Compiler()), expression) == wanted


@pytest.mark.parametrize("stored", [True, False])
def test_the_compiler_knows_whether_an_expression_is_stored(stored: bool) -> None:
    compiler = Compiler()
    selected(compiling(compiler), "a", "b", stored=stored)
    assert compiler.seen == [("a", stored), ("b", stored)]


def test_without_a_compiler_expressions_are_kept_unchecked() -> None:
    assert selected(context(), "INVALID") == []


def test_a_long_expression_is_not_even_compiled() -> None:
    compiler = Compiler()
    assert selected(compiling(compiler), "x" * 10241) == [
        "s[0].cel.expression: Too long: may not be more than 10240 bytes"
    ]
    assert compiler.seen == []


def test_a_request_has_32_selectors_at_most() -> None:
    compiler = Compiler()
    assert selected(compiling(compiler), *["a"] * 33) == ["s: Too many: 33: must have at most 32 items"]
    assert compiler.seen == []


def derived(request: RequestContext, *requests: dict[str, Any], **devices: Any) -> list[str]:
    errors = ErrorList()
    validate_derived_attributes(errors, FieldPath("d"), claim(*requests, **devices).spec, request, stored=False)
    return texts(errors)


def attribute(name: str = "a/b", expression: str = "fine") -> dict[str, str]:
    return {"name": name, "expression": expression}


MATCH = {"constraints": [{"matchAttribute": "a/b"}]}


@pytest.mark.parametrize(("requests", "accepted"), [([], True), (["r"], True), (["s"], False), (["s", "r"], True)])
def test_a_derived_attribute_is_used_by_a_constraint_that_covers_its_request(
    requests: list[str], accepted: bool
) -> None:
    constraint = {"matchAttribute": "a/b", **({"requests": requests} if requests else {})}
    found = derived(context(), exactly(derivedAttributes=[attribute()]), constraints=[constraint])
    wanted = 'd.requests[0].exactly.derivedAttributes[0].name: Invalid value: "a/b": must be referenced by at '
    why = "least one matchAttribute or distinctAttribute constraint targeting this request"
    assert found == ([] if accepted else [f"{wanted}{why}"])


@pytest.mark.parametrize(("reference", "accepted"), [("r", True), ("r/x", True), ("r/y", False)])
def test_a_constraint_covers_an_alternative_by_either_name(reference: str, accepted: bool) -> None:
    alternative = {"name": "x", "deviceClassName": "c", "derivedAttributes": [attribute()]}
    constraint = {"distinctAttribute": "a/b", "requests": [reference]}
    found = derived(context(), {"name": "r", "firstAvailable": [alternative]}, constraints=[constraint])
    assert (found == []) is accepted


def test_a_derived_attribute_occurs_once() -> None:
    found = derived(context(), exactly(derivedAttributes=[attribute(), attribute()]), **MATCH)
    assert found == ['d.requests[0].exactly.derivedAttributes[1]: Duplicate value: "a/b"']


def test_a_request_has_32_derived_attributes_at_most() -> None:
    found = derived(context(), exactly(derivedAttributes=[attribute()] * 33), **MATCH)
    assert found == ["d.requests[0].exactly.derivedAttributes: Too many: 33: must have at most 32 items"]


@pytest.mark.parametrize(("count", "accepted"), [(1, True), (2, True), (3, False)])
def test_all_derived_attributes_of_a_claim_together_are_cheap_enough(count: int, accepted: bool) -> None:
    requests = [exactly(f"r{n}", derivedAttributes=[attribute()]) for n in range(count)]
    found = derived(compiling(Compiler(500_000)), *requests, **MATCH)
    assert found == (
        []
        if accepted
        else [
            "d: Forbidden: too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
        ]
    )
