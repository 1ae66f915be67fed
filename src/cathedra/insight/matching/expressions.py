"""An expression, compiled, with the conditions it consists of, and its value on a device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from cathedra.allocation import Features, InvalidInput
from cathedra.allocation.checks.selectors import device_view
from cathedra.allocation.supply.devices import DeviceRecord
from cathedra.cel import device, program
from cathedra.cel.errors import CompileError
from cathedra.cel.explanation import ExpressionExplanation, Finding, explain_program
from cathedra.cel.program import Evaluation, Program
from cathedra.cel.selector import COST_LIMIT
from cathedra.cel.values import CELValue
from cathedra.insight.selectors.conjuncts import conjuncts, source_of

__all__ = ["DeviceExpression", "compiled_expression", "told"]


class DeviceExpression:
    """An expression over ``device`` of any type; devices that look alike are asked once."""

    def __init__(self, compiled: Program, features: Features) -> None:
        self._compiled, self._features = compiled, features
        self._known: dict[int, Evaluation] = {}

    @property
    def source(self) -> str:
        """The text."""
        return self._compiled.source

    @property
    def type(self) -> str:
        """The type of its value."""
        return self._compiled.type.declared

    @property
    def max_cost(self) -> int:
        """The estimate of its cost that the API server makes."""
        return self._compiled.max_cost

    def outcome(self, record: DeviceRecord) -> Evaluation:
        """Its value or error on a device."""
        number = record.signature.number
        if number not in self._known:
            view = device_view(record.signature)
            if view.failure:
                self._known[number] = Evaluation(None, view.failure, 0)
            else:
                self._known[number] = self._compiled.evaluate({"device": view.root}, COST_LIMIT)
        return self._known[number]

    def explain(self, record: DeviceRecord) -> ExpressionExplanation:
        """The same with the value of every part."""
        trace: dict[int, CELValue] = {}
        view = device_view(record.signature)
        return explain_program(self._compiled, self._compiled.trace({"device": view.root}, trace, COST_LIMIT), trace)

    @cached_property
    def conditions(self) -> tuple[DeviceExpression, ...]:
        """The conditions that ``&&`` joins; the expression itself, if there is only one."""
        parts = [source_of(self.source, one) for one in conjuncts(self._compiled.root)]
        if len(parts) == 1:
            return (self,)
        return tuple(compiled_expression(part, self._features) for part in parts)


def compiled_expression(text: str, features: Features) -> DeviceExpression:
    """The expression, under the gates that hold for stored ones.

    Raises:
        InvalidInput: it does not compile; the text tells the first reason and its place.
    """
    lists = features.list_type_attributes or features.behaviour.lists_are_iterable_without_gate
    declared = device.environment(
        consumable_capacity=features.consumable_capacity, list_attributes=lists, mode="stored"
    )
    try:
        return DeviceExpression(program.compile_expression(text, declared), features)
    except CompileError as error:
        raise InvalidInput(_first_reason(text, error)) from error


def _first_reason(text: str, error: CompileError) -> str:
    if not error.issues:
        return f"the expression does not compile: {' '.join(error.text.split())}"
    line, column = error.issues[0].position(text)
    where = f"{line}:{column}: " if line > 0 else ""
    more = f" (and {len(error.issues) - 1} more)" if len(error.issues) > 1 else ""
    return f"the expression does not compile: {where}{error.issues[0].message}{more}"


def told(explanation: ExpressionExplanation) -> Iterator[Finding]:
    """The parts that tell something: without the maps on the way to an attribute, and each text once."""
    seen: set[str] = set()
    for one in explanation.findings:
        if one.source not in seen and not isinstance(one.value, dict) and one.source != "device":
            seen.add(one.source)
            yield one
