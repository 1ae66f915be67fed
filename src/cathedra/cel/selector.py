"""Device selectors: compiled once, evaluated for every device.

The allocator calls `CompiledSelector.matches` thousands of times per pod. Results are therefore cached per device view,
and an expression whose cost cannot come near the limit runs as Python code. If that code meets anything unusual (a
missing key, a value of another type), the counting evaluator decides, which is exact in every case (docs/spec/cel.md §4
and §7; docs/spec/api.md §3.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from cathedra.cel import device, program
from cathedra.cel.checking import types
from cathedra.cel.device import DeviceView, Mode
from cathedra.cel.errors import CompileError, EvaluationError
from cathedra.cel.evaluation import compiler
from cathedra.cel.explanation import ExpressionExplanation, explain_program
from cathedra.cel.program import Evaluation, Program
from cathedra.cel.values import CELValue, type_name

COST_LIMIT: Final = 1_000_000
"""Of one evaluation, and of the estimate at admission."""
MAX_LENGTH: Final = 10 * 1024
"""Of an expression, in bytes."""
_CERTAIN: Final = COST_LIMIT // 100
"""Estimates up to here leave the limit out of reach: they are off by a constant factor far below 100."""


class CompiledSelector:
    """A compiled selector. Shareable; its memory holds one answer per device view."""

    __slots__ = ("_code", "_memory", "_prepared", "cost_limit", "list_attributes", "program")

    MEMORY: Final = 100_000
    """Maximum number of results that are cached."""

    def __init__(self, compiled: Program, cost_limit: int, *, list_attributes: bool) -> None:
        self.program, self.cost_limit, self.list_attributes = compiled, cost_limit, list_attributes
        self._memory: dict[DeviceView, bool] = {}
        self._code: Callable[[DeviceView], bool] | None = None
        self._prepared = False

    def prepare(self) -> None:
        """Make the code of the hot path now, and not with the first question. Validation never needs it."""
        if self._prepared:
            return
        self._prepared = True
        if self.cost_limit < COST_LIMIT:
            return
        if compiler.is_cheap(self.program.root) or self.program.max_cost <= _CERTAIN:
            self._code = compiler.selector_code(self.program)

    @property
    def expression(self) -> str:
        """The source text of the expression."""
        return self.program.source

    @property
    def max_cost(self) -> int:
        """The cost estimate that admission compares with its limit."""
        return self.program.max_cost

    def matches(self, view: DeviceView | Mapping[str, Any], interrupted: Callable[[], bool] | None = None) -> bool:
        """Return True if the device is selected; remembered for this view. A dict is a device as a ResourceSlice writes
        it, with its ``driver``.

        ``interrupted`` is called at every step of an evaluation that may take long; an exception that it raises ends
        the evaluation, and nothing is remembered.

        Raises:
            EvaluationError: in Kubernetes, fatal for the scheduling attempt.
            TypeError: a dict has another form.
        """
        if not isinstance(view, DeviceView):
            return self.decide(DeviceView.from_dict(view), interrupted)
        try:
            return self._memory[view]
        except KeyError:
            # Errors are not cached: they end the scheduling attempt of the pod, and the next one must report them
            # again.
            answer = self.decide(view, interrupted)
        # Views hash by identity, and one is created per device and slice version. Clearing everything is cheap enough:
        # a full table means thousands of devices, and the next search fills it again.
        if len(self._memory) >= self.MEMORY:
            self._memory.clear()
        self._memory[view] = answer
        return answer

    def __repr__(self) -> str:
        return f"CompiledSelector({self.expression!r})"

    def decide(self, view: DeviceView, interrupted: Callable[[], bool] | None = None) -> bool:
        """Return the verdict without looking it up in memory."""
        if not self._prepared:
            self.prepare()
        code = self._code
        # A device whose attributes cannot be converted, or lists without their gate, fail before any part of the
        # expression is evaluated. Compiled code does not know these errors.
        if code is not None and not view.failure and (self.list_attributes or not view.first_list):
            try:
                return code(view)
            except compiler.UNUSUAL:
                pass
        outcome = self.outcome(view, interrupted=interrupted)
        if outcome.error is not None:
            raise EvaluationError(outcome.error)
        return bool(outcome.value)

    def outcome(
        self,
        view: DeviceView,
        trace: dict[int, CELValue] | None = None,
        interrupted: Callable[[], bool] | None = None,
    ) -> Evaluation:
        """Return the answer with its cost, by the counting evaluator."""
        if view.failure:
            return Evaluation(None, view.failure, 0)
        if view.first_list and not self.list_attributes:
            return Evaluation(None, f"attribute {view.first_list}: unsupported attribute value", 0)
        found = self.program.trace({"device": view.root}, trace, self.cost_limit, interrupted)
        if found.error is None and found.value.__class__ is not bool:
            return Evaluation(None, _not_bool(found.value), found.cost)
        return found

    def explain(self, view: DeviceView) -> ExpressionExplanation:
        """Return the answer and the value or error of every part of the selector, for one device."""
        trace: dict[int, CELValue] = {}
        return explain_program(self.program, self.outcome(view, trace), trace)


def _not_bool(value: CELValue) -> str:
    name = type_name(value)
    return f"CEL result of type {name} could not be converted to bool: {_conversion(name)}"


_CONVERSIONS: Final = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "string": "unsupported native conversion from string to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "double": "type conversion error from Double to 'bool'",
    "type": "type conversion not supported for 'type'",
    "google.protobuf.Timestamp": "type conversion error from 'Timestamp' to 'bool'",
    "google.protobuf.Duration": "type conversion error from 'Duration' to 'bool'",
}


def _conversion(name: str) -> str:
    known = _CONVERSIONS.get(name)
    if known is not None:
        return known
    shown = name.rpartition(".")[2] if name.startswith("kubernetes.") else name
    return f"type conversion error from '{shown}' to 'bool'"


def compile_selector(
    expression: str,
    *,
    consumable_capacity: bool = True,
    list_attributes: bool = False,
    mode: Mode = "stored",
    cost_limit: int = COST_LIMIT,
) -> CompiledSelector:
    """Compile a selector. Nothing is cached here; keep the result.

    ``mode`` is «new» for validation of changed expressions and «stored» for everything else, the scheduler included.

    Raises:
        CompileError: the expression is refused, with Kubernetes' text.
    """
    declared = device.environment(consumable_capacity=consumable_capacity, list_attributes=list_attributes, mode=mode)
    compiled = program.compile_expression(expression, declared)
    # An attribute alone is a valid selector for the checker, because its type is unknown until run time. Kubernetes
    # declares that type as ``any``, and as ``dyn`` with the gate for lists.
    attribute = types.DYN if list_attributes else types.ANY
    if compiled.type.nullable or compiled.type not in (types.BOOL, attribute):
        message = f"must evaluate to bool or the unknown type, not {compiled.type.declared}"
        raise CompileError("RuleInvalid", message)
    # Constant parts are evaluated now: a malformed quantity or pattern must be refused when the selector is compiled,
    # not when the first device is evaluated.
    compiled.instantiate()
    return CompiledSelector(compiled, cost_limit, list_attributes=list_attributes)


class Admission(msgspec.Struct, frozen=True):
    """A validation error of a selector: its reason (`FieldValueTooLong`, …) and the detail of the field error."""

    reason: str
    detail: str


def validate_selector(
    expression: str, *, consumable_capacity: bool = True, list_attributes: bool = False, mode: Mode = "new"
) -> Admission | None:
    """Validate as the API server does. Return None if the selector is accepted.

    Reasons are `FieldValueTooLong`, `FieldValueInvalid`, `FieldValueForbidden` and `InternalError`.
    """
    if len(expression.encode("utf-8", "surrogatepass")) > MAX_LENGTH:
        return Admission("FieldValueTooLong", f"may not be more than {MAX_LENGTH} bytes")
    try:
        selector = compile_selector(
            expression, consumable_capacity=consumable_capacity, list_attributes=list_attributes, mode=mode
        )
    except CompileError as error:
        reason = "InternalError" if error.type == "InternalError" else "FieldValueInvalid"
        return Admission(reason, error.text)
    # Last, as in Kubernetes: an expression with a type error is reported as such even if it would also be too
    # expensive.
    if selector.max_cost > COST_LIMIT:
        return Admission("FieldValueForbidden", "too complex, exceeds cost limit")
    return None
