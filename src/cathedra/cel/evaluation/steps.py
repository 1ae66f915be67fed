"""Operators, calls, literals: the steps of a plan that compute (docs/spec/cel.md §5 and §7.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cathedra.cel._trampoline import Descent
from cathedra.cel.errors import CostLimitExceeded, EvaluationAborted
from cathedra.cel.evaluation.run import Numbered, Run, Step, VariableScope, Walk, go_type, require_hashable
from cathedra.cel.library import messages, patches, registry
from cathedra.cel.library.costs import COMPARED, EQUAL
from cathedra.cel.library.overload import Overload
from cathedra.cel.values import (
    NO_SUCH_OVERLOAD,
    CELValue,
    Duration,
    Failure,
    Optional,
    Timestamp,
    UInt,
    encode_key,
    equal,
    text,
)


class Or(Numbered):
    __slots__ = ("left", "right")

    def __init__(self, id_: int, left: Step, right: Step) -> None:
        self.id, self.left, self.right = id_, left, right

    decides = True

    def eval(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        value = self.left.eval(run, scope)
        if value.__class__ is Walk:
            value = yield value
        # The right side may still decide if the left side failed: CEL absorbs failures in both directions.
        if value is not self.decides:
            second = self.right.eval(run, scope)
            if second.__class__ is Walk:
                second = yield second
            value = self.combined(value, second)
        # Kubernetes' cost tracker pops the operands from its stack; a value that stayed there would be charged to the
        # next call.
        run.drop(self.left.id, self.right.id)
        run.note(self.id, value)
        return value

    def combined(self, first: CELValue, second: CELValue) -> CELValue:
        if second is self.decides:
            return second
        for value in (first, second):
            if value.__class__ is not bool:
                return value if value.__class__ is Failure else NO_SUCH_OVERLOAD
        return not self.decides


class And(Or):
    __slots__ = ()
    decides = False


_EQUALITY: Final = {False: EQUAL, True: COMPARED}
"""Cost of ``==`` and ``!=``."""


class Equality(Numbered):
    __slots__ = ("ids", "left", "negated", "right")

    def __init__(self, id_: int, left: Step, right: Step, *, negated: bool) -> None:
        self.id, self.left, self.right, self.negated = id_, left, right, negated

    def eval(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        left = self.left.eval(run, scope)
        if left.__class__ is Walk:
            left = yield left
        right = self.right.eval(run, scope)
        if right.__class__ is Walk:
            right = yield right
        value: CELValue
        if left.__class__ is Failure:
            value = left
        elif right.__class__ is Failure:
            value = right
        else:
            value = equal(left, right)
            if self.negated:
                # A failed comparison counts as unequal under «!=».
                value = value is not True
        args = run.take((self.left.id, self.right.id))
        if args is not None:
            run.cost += _EQUALITY[self.negated].count(args, value)
        run.note(self.id, value)
        return value


class CallStep(Numbered):
    """A function. ``early``: the first argument that fails ends it, as with functions of many arguments."""

    __slots__ = ("args", "early", "fn", "function", "ids", "overload")

    def __init__(self, id_: int, function: str, overload: Overload | None, args: list[Step], *, early: bool) -> None:
        self.id, self.function, self.overload, self.args, self.early = id_, function, overload, args, early
        self.fn: Callable[[list[CELValue]], CELValue] | None = None
        self.ids: tuple[int, ...] | None = None
        """Of the arguments' steps; attributes may still grow while the plan is made."""

    def eval(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        args: list[CELValue] = []
        failed: Failure | None = None
        for arg in self.args:
            value = arg.eval(run, scope)
            if value.__class__ is Walk:
                value = yield value
            args.append(value)
            if value.__class__ is Failure and failed is None:
                failed = value
                # Functions of many arguments end at the first failure and evaluate no further one, which changes the
                # cost.
                if self.early:
                    break
        return self.charged(run, self.compute(run, args) if failed is None else failed)

    def charged(self, run: Run, value: CELValue) -> CELValue:
        """Return the call's value, after its cost was counted and it was noted."""
        if self.ids is None:
            self.ids = tuple(arg.id for arg in self.args)
        args = run.take(self.ids)
        if args is not None:
            run.cost += self.count(args, value)
        run.note(self.id, value)
        return value

    def count(self, args: list[CELValue], result: CELValue) -> int:
        """Add the cost of the call."""
        if self.overload is not None and self.overload.cost.walked is not None:
            _require_list(args[self.overload.cost.walked])
        return registry.count(self.function, self.overload, args, result)

    def refuse_if_dear(self, run: Run, args: list[CELValue]) -> None:
        """Charge a call before it is made, if it goes beyond the limit."""
        cost = self.count(args, None)
        # Without this check the call would run before it is charged: minutes for an expression that is refused.
        if run.cost + cost > (run.limit if run.limit is not None else _NO_LIMIT):
            run.cost += cost
            raise CostLimitExceeded

    def compute(self, run: Run, args: list[CELValue]) -> CELValue:
        """Return the result for arguments of which none has failed."""
        if self.overload is not None and self.overload.dear:
            self.refuse_if_dear(run, args)
        if self.fn is not None:
            return self.fn(args)
        return registry.call(self.function, self.overload, args)


# For runs without a limit of their own.
_NO_LIMIT: Final = 20_000_000


def _require_list(value: CELValue) -> None:
    """Raise `EvaluationAborted` unless the value is a list, over which the cost is counted; Kubernetes aborts too."""
    if not isinstance(value, list):
        # The first method of Go's interface that the type lacks; it is part of the error text.
        missing = "Contains" if value.__class__ in (str, bytes) else "Add"
        if value.__class__ in (int, UInt, float, Duration, Timestamp):
            missing = "Contains"
        raise EvaluationAborted(
            f"internal error: interface conversion: {go_type(value)} is not traits.Lister: missing method {missing}"
        )


class NotStrictlyFalse(CallStep):
    __slots__ = ()

    def eval(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        value = self.args[0].eval(run, scope)
        if value.__class__ is Walk:
            value = yield value
        return self.charged(run, value if value.__class__ is bool else True)


class Membership(Numbered):
    """``in`` with a constant list."""

    __slots__ = ("left", "values")

    def __init__(self, id_: int, left: Step, values: list[CELValue]) -> None:
        self.id, self.left, self.values = id_, left, values

    def eval(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        value = self.left.eval(run, scope)
        if value.__class__ is Walk:
            value = yield value
        if value.__class__ is not Failure:
            # Kubernetes looks the value up in a Go map, which panics for keys that have no hash.
            require_hashable(value)
            value = any(equal(value, other) is True for other in self.values)
        run.note(self.id, value)
        return value


class OptionalOr(Numbered):
    """``or`` and ``orValue``. The right side is evaluated only if the left is none."""

    __slots__ = ("left", "right", "unwrap")

    def __init__(self, id_: int, left: Step, right: Step, *, unwrap: bool) -> None:
        self.id, self.left, self.right, self.unwrap = id_, left, right, unwrap

    def eval(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        value = self.left.eval(run, scope)
        if value.__class__ is Walk:
            value = yield value
        if value.__class__ is Optional:
            if not value.present:
                value = self.right.eval(run, scope)
                if value.__class__ is Walk:
                    value = yield value
            elif self.unwrap:
                value = value.value
        elif value.__class__ is not Failure and not self.unwrap:
            value = NO_SUCH_OVERLOAD
        run.note(self.id, value)
        return value


class ListStep(Numbered):
    __slots__ = ("elements", "optional")

    def __init__(self, id_: int, elements: list[Step], optional: frozenset[int]) -> None:
        self.id, self.elements, self.optional = id_, elements, optional

    def eval(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        value = yield from self.build(run, scope)
        # A literal has a fixed cost, but its parts leave the tracker's stack with it.
        run.take(tuple(element.id for element in self.elements))
        run.cost += 10
        run.note(self.id, value)
        return value

    def build(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        values = []
        for position, element in enumerate(self.elements):
            value = element.eval(run, scope)
            if value.__class__ is Walk:
                value = yield value
            if value.__class__ is Failure:
                return value
            if position in self.optional:
                if value.__class__ is not Optional:
                    return Failure(f"cannot initialize optional list element from non-optional value {text(value)}")
                if not value.present:
                    continue
                value = value.value
            values.append(value)
        return values


class MapStep(Numbered):
    __slots__ = ("entries",)

    def __init__(self, id_: int, entries: list[tuple[Step, Step, bool]]) -> None:
        self.id, self.entries = id_, entries

    def eval(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        value = yield from self.build(run, scope)
        run.take(tuple(step.id for key, item, _ in self.entries for step in (key, item)))
        run.cost += 30
        run.note(self.id, value)
        return value

    def build(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        made: dict[CELValue, CELValue] = {}
        for key_step, value_step, optional in self.entries:
            key = key_step.eval(run, scope)
            if key.__class__ is Walk:
                key = yield key
            if key.__class__ is Failure:
                return key
            value = value_step.eval(run, scope)
            if value.__class__ is Walk:
                value = yield value
            if value.__class__ is Failure:
                return value
            require_hashable(key)
            if optional:
                if value.__class__ is not Optional:
                    return Failure(
                        f"cannot initialize optional entry '{text(key)}' from non-optional value {text(value)}"
                    )
                if not value.present:
                    # An absent optional entry removes an earlier one of the same key, as in cel-go.
                    made.pop(encode_key(key), None)
                    continue
                value = value.value
            made[encode_key(key)] = value
        return made


class StructStep(Numbered):
    """Evaluates a message literal."""

    __slots__ = ("fields", "name")

    def __init__(self, id_: int, name: str, fields: list[tuple[str, Step, bool]]) -> None:
        self.id, self.name, self.fields = id_, name, fields

    def eval(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        value = yield from self.build(run, scope)
        run.take(tuple(step.id for _, step, _ in self.fields))
        run.cost += 40
        run.note(self.id, value)
        return value

    def build(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        given: dict[str, CELValue] = {}
        for name, step, optional in self.fields:
            value = step.eval(run, scope)
            if value.__class__ is Walk:
                value = yield value
            if value.__class__ is Failure:
                return value
            if optional:
                if value.__class__ is not Optional:
                    return Failure(f"cannot initialize optional entry '{name}' from non-optional value {text(value)}")
                if not value.present:
                    given.pop(name, None)
                    continue
                value = value.value
            given[name] = value
        patch = patches.build(self.name, given)
        return patch if patch is not None else messages.build(self.name, given)
