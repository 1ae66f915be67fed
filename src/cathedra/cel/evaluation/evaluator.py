"""The evaluator that counts and traces: slower than compiled code, and exact in everything Kubernetes reports.

It plans a checked tree into steps and runs them. The steps are cut as in Kubernetes, because costs are counted per
step: a name with all its selections and indexes is one step with *qualifiers*, constants are folded beforehand, ``&&``
and ``||`` absorb failures (spec: cel.md, sections 3 and 7.2). With a trace, every step's value is kept under the id of
its node, which is all that explanations need.

Failures are values here (`Failure`); only exceeding the cost limit is an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from cathedra.cel.errors import Aborted, CompileError, CostLimitExceeded
from cathedra.cel.evaluation.cost import call_cost
from cathedra.cel.library import messages, regex, registry
from cathedra.cel.library.formats import Format
from cathedra.cel.library.semver import Semver
from cathedra.cel.syntax.tree import Call, Comprehension, Const, Expr, Ident, ListLit, MapLit, Select, StructLit
from cathedra.cel.values import (
    NO_SUCH_OVERLOAD,
    NONE,
    Duration,
    Failure,
    MutableList,
    MutableMap,
    Optional,
    Timestamp,
    TypeValue,
    UInt,
    decode_key,
    encode_key,
    equal,
    find,
    text,
    type_name,
)

__all__ = ["Run", "Step", "Variables", "evaluate", "plan"]

_ABSENT: Final = object()


class Run:
    """One evaluation: what it has cost so far, and what its steps gave."""

    __slots__ = ("cost", "limit", "places", "stack", "trace")

    def __init__(self, limit: int | None = None, trace: dict[int, Any] | None = None) -> None:
        self.cost, self.limit, self.trace = 0, limit, trace
        self.stack: list[tuple[int, Any]] = []
        self.places: dict[int, list[int]] = {}

    def note(self, id_: int, value: Any) -> None:
        """A step ended with ``value``.

        Raises:
            CostLimitExceeded: the evaluation has cost too much.
        """
        place = len(self.stack)
        self.stack.append((id_, value))
        places = self.places.get(id_)
        if places is None:
            self.places[id_] = [place]
        else:
            places.append(place)
        if self.trace is not None:
            self.trace[id_] = list(value) if value.__class__ is MutableList else value
        if self.limit is not None and self.cost > self.limit:
            raise CostLimitExceeded

    def cut(self, place: int) -> None:
        """Forget everything from ``place`` upwards."""
        stack, places = self.stack, self.places
        while len(stack) > place:
            places[stack.pop()[0]].pop()

    def drop(self, *ids: int) -> None:
        """Forget the values of finished steps, and whatever lies above them."""
        for id_ in ids:
            places = self.places.get(id_)
            if places:
                self.cut(places[-1])

    def take(self, ids: tuple[int, ...]) -> list[Any] | None:
        """The values of a call's arguments; None if one of them was never reached."""
        values = []
        for id_ in reversed(ids):
            places = self.places.get(id_)
            if not places:
                return None
            values.append(self.stack[places[-1]][1])
            self.cut(places[-1])
        values.reverse()
        return values


class Variables:
    """The variables of an evaluation. A value may be a function of no arguments: then it is asked for when used."""

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def find(self, _: Run, name: str) -> Any:
        """The value of ``name``, or a marker if there is none."""
        value = self.values.get(name.lstrip("."), _ABSENT)
        return value() if callable(value) else value


Scope = Any
"""`Variables` or the scope of a comprehension around it."""


class Step:
    """One step of a plan."""

    __slots__ = ("id",)
    id: int

    def eval(self, run: Run, scope: Scope) -> Any:
        """The value, or a `Failure`."""
        raise NotImplementedError


class _Constant(Step):
    __slots__ = ("value",)

    def __init__(self, id_: int, value: Any) -> None:
        self.id, self.value = id_, value

    def eval(self, run: Run, scope: Scope) -> Any:
        run.note(self.id, self.value)
        return self.value


# --- attributes: a start, and qualifiers


class _Attribute:
    __slots__ = ("own_id", "qualifiers")

    def __init__(self, id_: int) -> None:
        self.own_id = id_
        self.qualifiers: list[Any] = []

    @property
    def id(self) -> int:
        return self.qualifiers[-1].id if self.qualifiers else self.own_id

    def add(self, qualifier: Any) -> None:
        self.qualifiers.append(qualifier)

    def resolve(self, run: Run, scope: Scope) -> Any:
        raise NotImplementedError

    def qualified(self, run: Run, scope: Scope, value: Any) -> Any:
        optional = value.__class__ is Optional
        if optional:
            if not value.present:
                return value
            value = value.value
        for qualifier in self.qualifiers:
            optional = optional or qualifier.optional
            value = qualifier.apply(run, scope, value, optional)
            if value is _ABSENT:
                return NONE
            if value.__class__ is Failure:
                return value
        return Optional(value) if optional else value


class _Absolute(_Attribute):
    __slots__ = ("name",)

    def __init__(self, id_: int, name: str) -> None:
        super().__init__(id_)
        self.name = name

    def resolve(self, run: Run, scope: Scope) -> Any:
        value = scope.find(run, self.name)
        if value is _ABSENT:
            return Failure(f"no such attribute(s): {self.name}")
        if value.__class__ is Failure:
            return value
        if run.trace is not None:
            run.trace[self.own_id] = list(value) if value.__class__ is MutableList else value
        return self.qualified(run, scope, value)


class _Relative(_Attribute):
    __slots__ = ("operand",)

    def __init__(self, id_: int, operand: Step) -> None:
        super().__init__(id_)
        self.operand = operand

    def resolve(self, run: Run, scope: Scope) -> Any:
        value = self.operand.eval(run, scope)
        return value if value.__class__ is Failure else self.qualified(run, scope, value)


class _Conditional(_Attribute):
    __slots__ = ("condition", "other", "then")

    def __init__(self, id_: int, condition: Step, then: _Attribute, other: _Attribute) -> None:
        super().__init__(id_)
        self.condition, self.then, self.other = condition, then, other

    @property
    def id(self) -> int:
        then, other = self.then.id, self.other.id
        return then if then == other else self.own_id

    def add(self, qualifier: Any) -> None:
        self.then.add(qualifier)
        self.other.add(qualifier)

    def resolve(self, run: Run, scope: Scope) -> Any:
        value = self.condition.eval(run, scope)
        if value is True:
            return self.then.resolve(run, scope)
        if value is False:
            return self.other.resolve(run, scope)
        return value if value.__class__ is Failure else NO_SUCH_OVERLOAD


def _look_up(value: Any, key: Any, *, test: bool) -> Any:
    """``value[key]``; with ``test`` absence is no failure."""
    if isinstance(value, dict):
        found, present = find(value, key)
        if present:
            return found
        return _ABSENT if test else Failure(f"no such key: {text(key)}")
    if isinstance(value, list):
        index = _index(key)
        if index.__class__ is Failure:
            return index
        if 0 <= index < len(value):
            return value[index]
        return _ABSENT if test else Failure(f"index out of bounds: {text(key)}")
    return _ABSENT if test else Failure(f"no such key: {text(key)}")


def _index(key: Any) -> Any:
    kind = key.__class__
    if kind is int or kind is UInt:
        return int(key)
    if kind is float:
        return (
            int(key)
            if key == key and abs(key) < 2**63 and key == int(key)
            else Failure(f"unsupported index value {text(key)} in list")
        )
    return Failure(f"unsupported index type '{type_name(key)}' in list")


class _Qualifier:
    """``.name`` or ``[constant]``."""

    __slots__ = ("id", "key", "optional", "test")

    def __init__(self, id_: int, key: Any, *, optional: bool = False, test: bool = False) -> None:
        self.id, self.key, self.optional, self.test = id_, key, optional, test

    def apply(self, run: Run, scope: Scope, value: Any, optional: bool) -> Any:
        found = _look_up(value, self.key, test=optional or self.test)
        failed = found.__class__ is Failure
        if self.test:
            shown = found if failed else found is not _ABSENT
            run.cost += 1
            run.note(self.id, shown)
            return found if optional else shown
        if found is _ABSENT or (optional and failed):
            return found
        run.cost += 1
        run.note(self.id, found)
        return found


class _AttributeQualifier:
    """``[name.and.more]``: the key is an attribute."""

    __slots__ = ("attribute", "id", "optional")

    def __init__(self, id_: int, attribute: _Attribute, *, optional: bool) -> None:
        self.id, self.attribute, self.optional = id_, attribute, optional

    def apply(self, run: Run, scope: Scope, value: Any, optional: bool) -> Any:
        found = _by_computed_key(value, self.attribute.resolve(run, scope), optional)
        if found is _ABSENT or (optional and found.__class__ is Failure):
            return found
        run.cost += 1
        run.note(self.id, found)
        return found


class _ComputedQualifier:
    """``[f(x)]``: the key is computed."""

    __slots__ = ("id", "operand", "optional")

    def __init__(self, id_: int, operand: Step, *, optional: bool) -> None:
        self.id, self.operand, self.optional = id_, operand, optional

    def apply(self, run: Run, scope: Scope, value: Any, optional: bool) -> Any:
        found = _by_computed_key(value, self.operand.eval(run, scope), optional)
        if found is _ABSENT or (optional and found.__class__ is Failure):
            return found
        run.drop(self.id)
        run.cost += 1
        run.note(self.id, found)
        return found


_KEY_TYPES: Final = frozenset((str, int, UInt, bool, float))


def _by_computed_key(value: Any, key: Any, optional: bool) -> Any:
    if key.__class__ is Failure:
        return key
    if key.__class__ not in _KEY_TYPES:
        return Failure(f"invalid qualifier type: {_go_type(key)}")
    return _look_up(value, key, test=optional)


class _AttributeStep(Step):
    """An attribute as a step of its own."""

    __slots__ = ("attribute",)

    def __init__(self, attribute: _Attribute) -> None:
        self.attribute = attribute

    @property  # type: ignore[override]
    def id(self) -> int:
        return self.attribute.id

    def eval(self, run: Run, scope: Scope) -> Any:
        attribute = self.attribute
        value = attribute.resolve(run, scope)
        if attribute.__class__ is _Conditional:
            assert isinstance(attribute, _Conditional)
            run.drop(attribute.other.id, attribute.then.id, attribute.condition.id)
            if run.trace is not None:
                run.trace[attribute.own_id] = value
        else:
            run.drop(attribute.id)
            run.cost += 1
        run.note(attribute.id, value)
        return value


class _PresenceTest(_AttributeStep):
    """``has(…)``; the test itself is free."""

    __slots__ = ("test_id",)

    def __init__(self, attribute: _Attribute, test_id: int) -> None:
        super().__init__(attribute)
        self.test_id = test_id

    @property  # type: ignore[override]
    def id(self) -> int:
        return self.test_id

    def eval(self, run: Run, scope: Scope) -> Any:
        value = self.attribute.resolve(run, scope)
        if value.__class__ is Optional:
            value = value.present
        run.drop(self.attribute.id)
        run.note(self.test_id, value)
        return value


# --- operators and calls


class _Or(Step):
    __slots__ = ("left", "right")

    def __init__(self, id_: int, left: Step, right: Step) -> None:
        self.id, self.left, self.right = id_, left, right

    decides = True

    def eval(self, run: Run, scope: Scope) -> Any:
        value = self.combine(run, scope)
        run.drop(self.left.id, self.right.id)
        run.note(self.id, value)
        return value

    def combine(self, run: Run, scope: Scope) -> Any:
        first = self.left.eval(run, scope)
        if first is self.decides:
            return first
        second = self.right.eval(run, scope)
        if second is self.decides:
            return second
        for value in (first, second):
            if value.__class__ is not bool:
                return value if value.__class__ is Failure else NO_SUCH_OVERLOAD
        return not self.decides


class _And(_Or):
    __slots__ = ()
    decides = False


class _Equality(Step):
    __slots__ = ("ids", "left", "negated", "right")

    def __init__(self, id_: int, left: Step, right: Step, *, negated: bool) -> None:
        self.id, self.left, self.right, self.negated = id_, left, right, negated

    def eval(self, run: Run, scope: Scope) -> Any:
        left = self.left.eval(run, scope)
        right = self.right.eval(run, scope)
        value: Any
        if left.__class__ is Failure:
            value = left
        elif right.__class__ is Failure:
            value = right
        else:
            value = equal(left, right)
            if self.negated:
                value = value is not True
        args = run.take((self.left.id, self.right.id))
        if args is not None:
            function, overload = ("_!=_", "not_equals") if self.negated else ("_==_", "equals")
            run.cost += call_cost(function, overload, args, value)
        run.note(self.id, value)
        return value


class _Call(Step):
    """A function. ``early``: the first argument that fails ends it, as with functions of many arguments."""

    __slots__ = ("args", "early", "fn", "function", "overload")

    def __init__(self, id_: int, function: str, overload: str, args: list[Step], *, early: bool) -> None:
        self.id, self.function, self.overload, self.args, self.early = id_, function, overload, args, early
        self.fn: Callable[[list[Any]], Any] | None = None

    def eval(self, run: Run, scope: Scope) -> Any:
        value = self.compute(run, scope)
        args = run.take(tuple(arg.id for arg in self.args))
        if args is not None:
            if self.overload in _LIST_COSTS:
                _require_list(args[1 if self.overload.endswith("Keys") else 0])
            run.cost += call_cost(self.function, self.overload, args, value)
        run.note(self.id, value)
        return value

    def compute(self, run: Run, scope: Scope) -> Any:
        args, failed = [], None
        for arg in self.args:
            value = arg.eval(run, scope)
            args.append(value)
            if value.__class__ is Failure and failed is None:
                failed = value
                if self.early:
                    return failed
        if failed is not None:
            return failed
        if self.fn is not None:
            return self.fn(args)
        return registry.call(self.function, self.overload, args)


_LIST_COSTS: Final = frozenset(
    {"list_distinct"}
    | {
        f"list_{kind}_{name}"
        for kind in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
        for name in ("sort", "sortByAssociatedKeys")
    }
)


def _require_list(value: Any) -> None:
    """The cost of these calls is counted over a list; anything else makes Kubernetes give up."""
    if not isinstance(value, list):
        missing = "Contains" if value.__class__ in (str, bytes) else "Add"
        if value.__class__ in (int, UInt, float, Duration, Timestamp):
            missing = "Contains"
        raise Aborted(
            f"internal error: interface conversion: {_go_type(value)} is not traits.Lister: missing method {missing}"
        )


class _NotStrictlyFalse(_Call):
    __slots__ = ()

    def compute(self, run: Run, scope: Scope) -> Any:
        value = self.args[0].eval(run, scope)
        return value if value.__class__ is bool else True


class _Membership(Step):
    """``in`` with a constant list."""

    __slots__ = ("left", "values")

    def __init__(self, id_: int, left: Step, values: list[Any]) -> None:
        self.id, self.left, self.values = id_, left, values

    def eval(self, run: Run, scope: Scope) -> Any:
        value = self.left.eval(run, scope)
        if value.__class__ is not Failure:
            _require_hashable(value)
            value = any(equal(value, other) is True for other in self.values)
        run.note(self.id, value)
        return value


class _OptionalOr(Step):
    """``or`` and ``orValue``: the right side is only looked at when the left is none."""

    __slots__ = ("left", "right", "unwrap")

    def __init__(self, id_: int, left: Step, right: Step, *, unwrap: bool) -> None:
        self.id, self.left, self.right, self.unwrap = id_, left, right, unwrap

    def eval(self, run: Run, scope: Scope) -> Any:
        value = self.left.eval(run, scope)
        if value.__class__ is Optional:
            if not value.present:
                value = self.right.eval(run, scope)
            elif self.unwrap:
                value = value.value
        elif value.__class__ is not Failure and not self.unwrap:
            value = NO_SUCH_OVERLOAD
        run.note(self.id, value)
        return value


class _List(Step):
    __slots__ = ("elements", "optional")

    def __init__(self, id_: int, elements: list[Step], optional: frozenset[int]) -> None:
        self.id, self.elements, self.optional = id_, elements, optional

    def eval(self, run: Run, scope: Scope) -> Any:
        value = self.build(run, scope)
        run.take(tuple(element.id for element in self.elements))
        run.cost += 10
        run.note(self.id, value)
        return value

    def build(self, run: Run, scope: Scope) -> Any:
        values = []
        for position, element in enumerate(self.elements):
            value = element.eval(run, scope)
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


class _Map(Step):
    __slots__ = ("entries",)

    def __init__(self, id_: int, entries: list[tuple[Step, Step, bool]]) -> None:
        self.id, self.entries = id_, entries

    def eval(self, run: Run, scope: Scope) -> Any:
        value = self.build(run, scope)
        run.take(tuple(step.id for key, item, _ in self.entries for step in (key, item)))
        run.cost += 30
        run.note(self.id, value)
        return value

    def build(self, run: Run, scope: Scope) -> Any:
        made: dict[Any, Any] = {}
        for key_step, value_step, optional in self.entries:
            key = key_step.eval(run, scope)
            if key.__class__ is Failure:
                return key
            value = value_step.eval(run, scope)
            if value.__class__ is Failure:
                return value
            _require_hashable(key)
            if optional:
                if value.__class__ is not Optional:
                    return Failure(
                        f"cannot initialize optional entry '{text(key)}' from non-optional value {text(value)}"
                    )
                if not value.present:
                    made.pop(encode_key(key), None)
                    continue
                value = value.value
            made[encode_key(key)] = value
        return made


class _Struct(Step):
    """A message literal."""

    __slots__ = ("fields", "name")

    def __init__(self, id_: int, name: str, fields: list[tuple[str, Step, bool]]) -> None:
        self.id, self.name, self.fields = id_, name, fields

    def eval(self, run: Run, scope: Scope) -> Any:
        value = self.build(run, scope)
        run.take(tuple(step.id for _, step, _ in self.fields))
        run.cost += 40
        run.note(self.id, value)
        return value

    def build(self, run: Run, scope: Scope) -> Any:
        given: dict[str, Any] = {}
        for name, step, optional in self.fields:
            value = step.eval(run, scope)
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
        return messages.build(self.name, given)


def _require_hashable(value: Any) -> None:
    """Kubernetes cannot look up some values in its hash tables, and gives up."""
    if value.__class__ in (Semver, Format, bytes):
        raise Aborted(f"internal error: runtime error: hash of unhashable type {_go_type(value)}")


# --- comprehensions


class _Fold(Step):
    __slots__ = ("accu", "condition", "init", "range", "result", "step", "var", "var2")

    def __init__(self, node: Comprehension, parts: tuple[Step, Step, Step, Step, Step]) -> None:
        self.id, self.accu, self.var, self.var2 = node.id, node.accu, node.var, node.var2
        self.range, self.init, self.condition, self.step, self.result = parts

    def eval(self, run: Run, scope: Scope) -> Any:
        value = self.fold(run, scope)
        run.drop(self.range.id)
        run.note(self.id, value)
        return value

    def fold(self, run: Run, scope: Scope) -> Any:
        over = self.range.eval(run, scope)
        if over.__class__ is Failure:
            return over
        if not isinstance(over, (list, dict)):
            if self.var2:
                return Failure(f"unsupported comprehension range type: {_go_type(over)}")
            return Failure(f"got '{_go_type(over)}', expected iterable type")
        inner = _FoldScope(self, scope)
        for inner.first, inner.second in self.pairs(over):
            if self.condition.eval(run, inner) is False:
                break
            inner.value = self.step.eval(run, inner)
            inner.initialized = True
        inner.finished = True
        value = self.result.eval(run, inner)
        if value.__class__ is MutableList:
            return list(value)
        return dict(value) if value.__class__ is MutableMap else value

    def pairs(self, over: Any) -> Iterator[tuple[Any, Any]]:
        if isinstance(over, dict):
            return ((decode_key(key), value) for key, value in over.items())
        return enumerate(over) if self.var2 else ((value, None) for value in over)


class _FoldScope:
    __slots__ = ("finished", "first", "fold", "initialized", "outer", "second", "value")

    def __init__(self, fold: _Fold, outer: Scope) -> None:
        self.fold, self.outer = fold, outer
        self.first: Any = None
        self.second: Any = None
        self.value: Any = None
        self.initialized = self.finished = False

    def find(self, run: Run, name: str) -> Any:
        fold = self.fold
        if name == fold.accu:
            if not self.initialized:
                self.initialized = True
                self.value = _accumulator(fold.init.eval(run, self.outer))
            return self.value
        if not self.finished:
            if name == fold.var:
                return self.first
            if name == fold.var2:
                return self.second
        return self.outer.find(run, name)


def _accumulator(value: Any) -> Any:
    if value.__class__ is list and not value:
        return MutableList()
    return MutableMap() if value.__class__ is dict and not value else value


_GO_TYPES: Final = {
    bool: "types.Bool",
    int: "types.Int",
    UInt: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    TypeValue: "*types.Type",
    Optional: "*types.Optional",
    list: "*types.baseList",
    Failure: "*types.Err",
    dict: "*types.baseMap",
}


def _go_type(value: Any) -> str:
    known = _GO_TYPES.get(value.__class__)
    return known if known is not None else f"cel.{type_name(value).rpartition('.')[2]}"


# --- planning


_FOLDED: Final = frozenset(("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"))
_PATTERNS: Final = frozenset(("matches", "find", "findAll"))
_PRIMITIVES: Final = (bool, int, UInt, float, str)
_SINGLE_OVERLOAD_MANY: Final = frozenset(("string_format",))


def plan(root: Expr) -> Step:
    """The steps of a checked tree.

    Raises:
        CompileError: a constant conversion or a constant pattern fails, which is noticed here, wherever it stands.
    """
    return _PLANNERS[root.__class__](root)


def evaluate(step: Step, variables: Variables, run: Run) -> Any:
    """The value of a plan, or a `Failure`.

    Raises:
        CostLimitExceeded: see `Run`.
    """
    return step.eval(run, variables)


def _plan_const(node: Const) -> Step:
    return _Constant(node.id, node.value)


def _plan_ident(node: Ident) -> Step:
    if node.constant is not None:
        return _Constant(node.id, node.constant)
    return _AttributeStep(_Absolute(node.id, node.name))


def _attribute(step: Step) -> _AttributeStep:
    return step if isinstance(step, _AttributeStep) else _AttributeStep(_Relative(step.id, step))


def _plan_select(node: Select) -> Step:
    if node.constant is not None:
        return _Constant(node.id, node.constant)
    if node.qualified is not None:
        return _AttributeStep(_Absolute(node.id, node.qualified))
    step = _attribute(plan(node.operand))
    step.attribute.add(_Qualifier(node.id, node.field, test=node.test_only))
    return _PresenceTest(step.attribute, node.id) if node.test_only else step


def _plan_call(node: Call) -> Step:
    function, id_ = node.function, node.id
    operands = node.args if node.target is None else [node.target, *node.args]
    if function == "_?_:_":
        return _plan_conditional(node)
    args = [plan(operand) for operand in operands]
    if function == "_&&_":
        return _And(id_, args[0], args[1])
    if function == "_||_":
        return _Or(id_, args[0], args[1])
    if function in ("_==_", "_!=_"):
        return _Equality(id_, args[0], args[1], negated=function == "_!=_")
    if function in ("_[_]", "_[?_]", "_?._"):
        return _plan_index(node, args[0], args[1])
    overload = node.overloads[0] if len(node.overloads) == 1 else ""
    if function in ("or", "orValue") and len(args) == 2:
        return _OptionalOr(id_, args[0], args[1], unwrap=function == "orValue")
    if function == "@not_strictly_false":
        return _NotStrictlyFalse(id_, function, overload, args, early=False)
    if overload == "in_list" and isinstance(args[1], _Constant):
        return _plan_membership(id_, function, overload, args, args[1].value)
    if function in _FOLDED and len(args) == 1 and isinstance(args[0], _Constant):
        return _folded(id_, function, overload, args[0].value)
    many = not overload and function not in registry.SINGLE_FUNCTIONS
    call = _Call(id_, function, overload, args, early=len(args) > 2 or many or overload in _SINGLE_OVERLOAD_MANY)
    if function in _PATTERNS and isinstance(args[1], _Constant) and args[1].value.__class__ is str:
        _prepare_pattern(call, args[1].value)
    return call


def _plan_conditional(node: Call) -> Step:
    condition, then, other = (plan(arg) for arg in node.args)
    return _AttributeStep(_Conditional(node.id, condition, _branch(then), _branch(other)))


def _branch(step: Step) -> _Attribute:
    return step.attribute if isinstance(step, _AttributeStep) else _Relative(step.id, step)


def _plan_index(node: Call, operand: Step, key: Step) -> Step:
    step = _attribute(operand)
    optional = node.function != "_[_]"
    qualifier: Any
    if isinstance(key, _Constant):
        if key.value.__class__ not in _KEY_TYPES:
            raise CompileError(
                "InternalError", f"program instantiation failed: invalid qualifier type: {_go_type(key.value)}"
            )
        qualifier = _Qualifier(node.id, key.value, optional=optional)
    elif isinstance(key, _AttributeStep):
        qualifier = _AttributeQualifier(node.id, key.attribute, optional=optional)
    else:
        qualifier = _ComputedQualifier(node.id, key, optional=optional)
    step.attribute.add(qualifier)
    return step


def _plan_membership(id_: int, function: str, overload: str, args: list[Step], values: Any) -> Step:
    if not values:
        return _Constant(id_, False)
    if any(value.__class__ not in _PRIMITIVES for value in values):
        return _Call(id_, function, overload, args, early=False)
    return _Membership(id_, args[0], values)


def _folded(id_: int, function: str, overload: str, value: Any) -> Step:
    result = value if value.__class__ is Failure else registry.call(function, overload, [value])
    if result.__class__ is Failure:
        raise CompileError("InternalError", f"program instantiation failed: {result.text}")
    return _Constant(id_, result)


def _prepare_pattern(call: _Call, pattern: str) -> None:
    compiled = regex.compile_pattern(pattern)
    if isinstance(compiled, Failure):
        raise CompileError("InternalError", f"program instantiation failed: {compiled.text}")
    functions = {"matches": regex.matches, "find": regex.find, "findAll": regex.find_all}
    function = functions[call.function]

    def of_text(args: list[Any]) -> Any:
        if args[0].__class__ is not str or (len(args) == 3 and args[2].__class__ is not int):
            return NO_SUCH_OVERLOAD
        return function(*args)

    call.fn, call.early = of_text, True


def _plan_list(node: ListLit) -> Step:
    elements = [plan(element) for element in node.elements]
    step = _List(node.id, elements, node.optional)
    if all(isinstance(element, _Constant) for element in elements):
        return _Constant(node.id, step.build(Run(), Variables({})))
    return step


def _plan_map(node: MapLit) -> Step:
    entries = [(plan(_key(entry.key)), plan(entry.value), entry.optional) for entry in node.entries]
    step = _Map(node.id, entries)
    if all(isinstance(key, _Constant) and isinstance(value, _Constant) for key, value, _ in entries):
        return _Constant(node.id, step.build(Run(), Variables({})))
    return step


def _key(key: Expr | None) -> Expr:
    assert key is not None
    return key


def _plan_struct(node: StructLit) -> Step:
    return _Struct(node.id, node.name, [(entry.name, plan(entry.value), entry.optional) for entry in node.entries])


def _plan_comprehension(node: Comprehension) -> Step:
    init = plan(node.init)
    over = plan(node.range)
    return _Fold(node, (over, init, plan(node.condition), plan(node.step), plan(node.result)))


_PLANNERS: Final[dict[type, Callable[[Any], Step]]] = {
    Const: _plan_const,
    Ident: _plan_ident,
    Select: _plan_select,
    Call: _plan_call,
    ListLit: _plan_list,
    MapLit: _plan_map,
    StructLit: _plan_struct,
    Comprehension: _plan_comprehension,
}
