"""Names with their selections and indexes: ``device.attributes["d"].?model`` is one step with three qualifiers.

That is how Kubernetes cuts expressions, and costs are counted accordingly; optional look-ups and ``has`` follow from it
as well (docs/spec/cel.md §3 and §7.2).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from cathedra.cel._trampoline import Descent
from cathedra.cel.evaluation.run import ABSENT, Run, Step, VariableScope, Walk, go_type
from cathedra.cel.values import (
    NO_SUCH_OVERLOAD,
    NONE,
    CELValue,
    Failure,
    MutableList,
    Optional,
    UInt,
    find,
    text,
    type_name,
)


class AttributePath:
    __slots__ = ("computed", "own_id", "qualifiers")

    def __init__(self, id_: int) -> None:
        self.own_id = id_
        self.computed = False
        self.qualifiers: list[AnyQualifier] = []

    @property
    def id(self) -> int:
        return self.qualifiers[-1].id if self.qualifiers else self.own_id

    def add(self, qualifier: AnyQualifier) -> None:
        self.qualifiers.append(qualifier)
        self.computed = self.computed or qualifier.computed

    def resolve(self, run: Run, scope: VariableScope) -> CELValue:
        """Return the value, a failure, or a walk that finds it."""
        raise NotImplementedError  # each kind of attribute does

    def qualified(self, run: Run, scope: VariableScope, value: CELValue) -> CELValue:
        """Apply the qualifiers to ``value``. Return the result, or a walk that finds it."""
        # Constant keys need no trampoline, and most selectors have no others.
        return self.walk(run, scope, value) if self.computed else self.look_up(run, value)

    def look_up(self, run: Run, value: CELValue) -> CELValue:
        optional = value.__class__ is Optional
        if optional:
            if not value.present:
                return value
            value = value.value
        for qualifier in self.qualifiers:
            # One optional look-up makes the rest of the path optional.
            optional = optional or qualifier.optional
            value = qualifier.apply(run, value, qualifier.key, optional)
            if value is ABSENT:
                return NONE
            if value.__class__ is Failure:
                return value
        return Optional(value) if optional else value

    def walk(self, run: Run, scope: VariableScope, value: CELValue) -> Descent[CELValue]:
        optional = value.__class__ is Optional
        if optional:
            if not value.present:
                return value
            value = value.value
        for qualifier in self.qualifiers:
            optional = optional or qualifier.optional
            key = qualifier.find_key(run, scope)
            if key.__class__ is Walk:
                key = yield key
            value = qualifier.apply(run, value, key, optional)
            if value is ABSENT:
                return NONE
            if value.__class__ is Failure:
                return value
        return Optional(value) if optional else value


class Absolute(AttributePath):
    __slots__ = ("name",)

    def __init__(self, id_: int, name: str) -> None:
        super().__init__(id_)
        self.name = name

    def resolve(self, run: Run, scope: VariableScope) -> CELValue:
        value = scope.find(run, self.name)
        return self.begun(run, scope, value) if value.__class__ is Walk else self.found(run, scope, value)

    def begun(self, run: Run, scope: VariableScope, finding: CELValue) -> Descent[CELValue]:
        value = self.found(run, scope, (yield finding))
        return (yield value) if value.__class__ is Walk else value

    def found(self, run: Run, scope: VariableScope, value: CELValue) -> CELValue:
        if value is ABSENT:
            return Failure(f"no such attribute(s): {self.name}")
        if value.__class__ is Failure:
            return value
        # A copy: the accumulator of a comprehension is changed in place, and the trace would show its last state
        # everywhere.
        if run.trace is not None:
            run.trace[self.own_id] = list(value) if value.__class__ is MutableList else value
        return self.qualified(run, scope, value)


class Relative(AttributePath):
    __slots__ = ("operand",)

    def __init__(self, id_: int, operand: Step) -> None:
        super().__init__(id_)
        self.operand = operand

    def resolve(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        value = self.operand.eval(run, scope)
        if value.__class__ is Walk:
            value = yield value
        if value.__class__ is Failure:
            return value
        value = self.qualified(run, scope, value)
        return (yield value) if value.__class__ is Walk else value


class Conditional(AttributePath):
    __slots__ = ("condition", "other", "then")

    def __init__(self, id_: int, condition: Step, then: AttributePath, other: AttributePath) -> None:
        super().__init__(id_)
        self.condition, self.then, self.other = condition, then, other

    def add(self, qualifier: AnyQualifier) -> None:
        """Qualify the value of either branch; branches may be conditionals in turn."""
        # No recursion: a chain of «? :» may be as long as the expression.
        pending: list[AttributePath] = [self]
        while pending:
            one = pending.pop()
            if isinstance(one, Conditional):
                one.qualifiers.append(qualifier)
                pending += (one.then, one.other)
            else:
                one.add(qualifier)

    def resolve(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        value = self.condition.eval(run, scope)
        if value.__class__ is Walk:
            value = yield value
        if value is True or value is False:
            chosen = (self.then if value else self.other).resolve(run, scope)
            return (yield chosen) if chosen.__class__ is Walk else chosen
        return value if value.__class__ is Failure else NO_SUCH_OVERLOAD


def _look_up(value: CELValue, key: CELValue, *, test: bool) -> CELValue:
    """``value[key]``; with ``test`` absence is no failure."""
    if isinstance(value, dict):
        found, present = find(value, key)
        if present:
            return found
        return ABSENT if test else Failure(f"no such key: {text(key)}")
    if isinstance(value, list):
        index = _index(key)
        if index.__class__ is Failure:
            return index
        if 0 <= index < len(value):
            return value[index]
        return ABSENT if test else Failure(f"index out of bounds: {text(key)}")
    return ABSENT if test else Failure(f"no such key: {text(key)}")


def _index(key: CELValue) -> CELValue:
    kind = key.__class__
    if kind is int or kind is UInt:
        return int(key)
    if kind is float:
        return (
            int(key)
            # NaN, infinities and fractions are no index.
            if key == key and abs(key) < 2**63 and key == int(key)
            else Failure(f"unsupported index value {text(key)} in list")
        )
    return Failure(f"unsupported index type '{type_name(key)}' in list")


class Qualifier:
    """A qualifier: ``.name`` or ``[constant]``."""

    __slots__ = ("id", "key", "optional", "test")
    computed = False

    def __init__(self, id_: int, key: CELValue, *, optional: bool = False, test: bool = False) -> None:
        self.id, self.key, self.optional, self.test = id_, key, optional, test

    def find_key(self, _: Run, __: VariableScope) -> CELValue:
        return self.key

    def apply(self, run: Run, value: CELValue, key: CELValue, optional: bool) -> CELValue:
        found = _look_up(value, key, test=optional or self.test)
        failed = found.__class__ is Failure
        # has() charges its own unit even for a missing key; the value of the path is not noted.
        if self.test:
            shown = found if failed else found is not ABSENT
            run.cost += 1
            run.note(self.id, shown)
            return found if optional else shown
        if found is ABSENT or (optional and failed):
            return found
        run.cost += 1
        run.note(self.id, found)
        return found


class AttributeQualifier:
    """``[name.and.more]``: the key is an attribute."""

    __slots__ = ("attribute", "id", "optional")
    computed = True
    key: CELValue = None  # not known before the evaluation: see `find_key`

    def __init__(self, id_: int, attribute: AttributePath, *, optional: bool) -> None:
        self.id, self.attribute, self.optional = id_, attribute, optional

    def find_key(self, run: Run, scope: VariableScope) -> CELValue:
        return self.attribute.resolve(run, scope)

    def apply(self, run: Run, value: CELValue, key: CELValue, optional: bool) -> CELValue:
        found = _by_computed_key(value, key, optional)
        if found is ABSENT or (optional and found.__class__ is Failure):
            return found
        run.cost += 1
        run.note(self.id, found)
        return found


class ComputedQualifier:
    """``[f(x)]``: the key is computed."""

    __slots__ = ("id", "operand", "optional")
    computed = True
    key: CELValue = None  # not known before the evaluation: see `find_key`

    def __init__(self, id_: int, operand: Step, *, optional: bool) -> None:
        self.id, self.operand, self.optional = id_, operand, optional

    def find_key(self, run: Run, scope: VariableScope) -> CELValue:
        return self.operand.eval(run, scope)

    def apply(self, run: Run, value: CELValue, key: CELValue, optional: bool) -> CELValue:
        found = _by_computed_key(value, key, optional)
        if found is ABSENT or (optional and found.__class__ is Failure):
            return found
        run.drop(self.id)
        run.cost += 1
        run.note(self.id, found)
        return found


AnyQualifier: TypeAlias = Qualifier | AttributeQualifier | ComputedQualifier

KEY_TYPES: Final = frozenset((str, int, UInt, bool, float))


def _by_computed_key(value: CELValue, key: CELValue, optional: bool) -> CELValue:
    if key.__class__ is Failure:
        return key
    if key.__class__ not in KEY_TYPES:
        return Failure(f"invalid qualifier type: {go_type(key)}")
    return _look_up(value, key, test=optional)


class AttributeStep(Step):
    """An attribute as a step of its own."""

    __slots__ = ("attribute",)

    def __init__(self, attribute: AttributePath) -> None:
        self.attribute = attribute

    @property
    def id(self) -> int:
        return self.attribute.id

    def eval(self, run: Run, scope: VariableScope) -> CELValue:
        value = self.attribute.resolve(run, scope)
        return self.walked(run, value) if value.__class__ is Walk else self.resolved(run, value)

    def walked(self, run: Run, walk: CELValue) -> Descent[CELValue]:
        return self.resolved(run, (yield walk))

    def resolved(self, run: Run, value: CELValue) -> CELValue:
        attribute = self.attribute
        id_ = attribute.id
        if attribute.__class__ is Conditional:
            assert isinstance(attribute, Conditional)
            # In this order: the tracker's stack is popped down to each of them, and another order would drop too much.
            run.drop(attribute.other.id, attribute.then.id, attribute.condition.id)
            if run.trace is not None:
                run.trace[attribute.own_id] = value
        else:
            run.drop(id_)
            run.cost += 1
        run.note(id_, value)
        return value


class PresenceTest(AttributeStep):
    """``has(…)``; the test itself is free."""

    __slots__ = ("test_id",)

    def __init__(self, attribute: AttributePath, test_id: int) -> None:
        super().__init__(attribute)
        self.test_id = test_id

    @property
    def id(self) -> int:
        return self.test_id

    def resolved(self, run: Run, value: CELValue) -> CELValue:
        if value.__class__ is Optional:
            value = value.present
        run.drop(self.attribute.id)
        run.note(self.test_id, value)
        return value
