"""The evaluator that counts costs and traces: slower than compiled code, and exact in everything Kubernetes reports.

`plan` turns a checked tree into steps, which evaluate themselves. The steps are Kubernetes' own, because costs are
counted per step: a name with all its selections and indexes is one step with *qualifiers*
(`cathedra.cel.evaluation.attributes`), constants are folded beforehand, ``&&`` and ``||`` absorb failures, and a
comprehension is one step (docs/spec/cel.md §3, §7.2). With a trace, each step's value is recorded under the ID of its
node; explanations read nothing else.

Failures are values here (`Failure`). Only exceeding the cost limit raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from cathedra.cel import _trampoline
from cathedra.cel._trampoline import Descent
from cathedra.cel.errors import CompileError
from cathedra.cel.evaluation.attributes import (
    KEY_TYPES,
    Absolute,
    AnyQualifier,
    AttributePath,
    AttributeQualifier,
    AttributeStep,
    ComputedQualifier,
    Conditional,
    PresenceTest,
    Qualifier,
    Relative,
)
from cathedra.cel.evaluation.run import ConstantStep, Numbered, Run, Step, Variables, VariableScope, Walk, go_type
from cathedra.cel.evaluation.steps import (
    And,
    CallStep,
    Equality,
    ListStep,
    MapStep,
    Membership,
    NotStrictlyFalse,
    OptionalOr,
    Or,
    StructStep,
)
from cathedra.cel.library import regex, registry
from cathedra.cel.library.overload import Overload
from cathedra.cel.syntax.tree import CallExpr, Comprehension, Const, Expr, Ident, ListLit, MapLit, Select, StructLit
from cathedra.cel.values import NO_SUCH_OVERLOAD, CELValue, Failure, MutableList, MutableMap, UInt, decode_key

_PRIMITIVES: Final = (bool, int, UInt, float, str)
_SINGLE_OVERLOAD_MANY: Final = frozenset(("format",))


def plan(root: Expr) -> Step:
    """Return the steps of a checked tree.

    Raises:
        CompileError: a constant conversion or a constant pattern fails, which is noticed here, wherever it stands.
    """
    step: Step = _trampoline.run(_planned(root))
    return step


def _planned(node: Expr) -> Descent[Step]:
    if isinstance(node, Const):
        return ConstantStep(node.id, node.value)
    if isinstance(node, Ident):
        return _plan_ident(node)
    return (yield from _PLANNERS[node.__class__](node))


def _all_planned(nodes: Iterable[Expr]) -> Descent[list[Step]]:
    steps = []
    for node in nodes:
        steps.append((yield _planned(node)))
    return steps


def _plan_ident(node: Ident) -> Step:
    if node.constant is not None:
        return ConstantStep(node.id, node.constant)
    return AttributeStep(Absolute(node.id, node.name))


def _attribute(step: Step) -> AttributeStep:
    return step if isinstance(step, AttributeStep) else AttributeStep(Relative(step.id, step))


def _plan_select(node: Select) -> Descent[Step]:
    if node.constant is not None:
        return ConstantStep(node.id, node.constant)
    if node.qualified is not None:
        return AttributeStep(Absolute(node.id, node.qualified))
    step = _attribute((yield _planned(node.operand)))
    step.attribute.add(Qualifier(node.id, node.field, test=node.test_only))
    return PresenceTest(step.attribute, node.id) if node.test_only else step


def _plan_call(node: CallExpr) -> Descent[Step]:
    operands = node.args if node.target is None else [node.target, *node.args]
    if node.function == "_?_:_":
        return (yield from _plan_conditional(node))
    args = yield from _all_planned(operands)
    return _plan_function(node, args)


def _plan_function(node: CallExpr, args: list[Step]) -> Step:
    function, id_ = node.function, node.id
    if function == "_&&_":
        return And(id_, args[0], args[1])
    if function == "_||_":
        return Or(id_, args[0], args[1])
    if function in ("_==_", "_!=_"):
        return Equality(id_, args[0], args[1], negated=function == "_!=_")
    if function in ("_[_]", "_[?_]", "_?._"):
        return _plan_index(node, args[0], args[1])
    # With several candidates the values decide at run time, as in cel-go's dispatcher.
    overload = node.overloads[0] if len(node.overloads) == 1 else None
    if function in ("or", "orValue") and len(args) == 2:
        return OptionalOr(id_, args[0], args[1], unwrap=function == "orValue")
    if function == "@not_strictly_false":
        return NotStrictlyFalse(id_, function, overload, args, early=False)
    if overload is not None and overload.id == "in_list" and isinstance(args[1], ConstantStep):
        return _plan_membership(id_, function, overload, args, args[1].value)
    # Kubernetes converts constants while it plans, so a bad one is an error of compilation and costs nothing later.
    if function in registry.FOLDED and len(args) == 1 and isinstance(args[0], ConstantStep):
        return _folded(id_, function, overload, args[0].value)
    # cel-go plans such calls as variadic ones, which end at the first failed argument.
    many = overload is None and function not in registry.SINGLE_FUNCTIONS
    call = CallStep(id_, function, overload, args, early=len(args) > 2 or many or function in _SINGLE_OVERLOAD_MANY)
    if function in registry.PATTERNS and isinstance(args[1], ConstantStep) and args[1].value.__class__ is str:
        _prepare_pattern(call, args[1].value)
    return call


def _plan_conditional(node: CallExpr) -> Descent[Step]:
    condition, then, other = yield from _all_planned(node.args)
    return AttributeStep(Conditional(node.id, condition, _branch(then), _branch(other)))


def _branch(step: Step) -> AttributePath:
    return step.attribute if isinstance(step, AttributeStep) else Relative(step.id, step)


def _plan_index(node: CallExpr, operand: Step, key: Step) -> Step:
    step = _attribute(operand)
    optional = node.function != "_[_]"
    qualifier: AnyQualifier
    if isinstance(key, ConstantStep):
        if key.value.__class__ not in KEY_TYPES:
            raise CompileError(
                "InternalError", f"program instantiation failed: invalid qualifier type: {go_type(key.value)}"
            )
        qualifier = Qualifier(node.id, key.value, optional=optional)
    elif isinstance(key, AttributeStep):
        qualifier = AttributeQualifier(node.id, key.attribute, optional=optional)
    else:
        qualifier = ComputedQualifier(node.id, key, optional=optional)
    step.attribute.add(qualifier)
    return step


def _plan_membership(id_: int, function: str, overload: Overload | None, args: list[Step], values: CELValue) -> Step:
    if not values:
        return ConstantStep(id_, False)
    # cel-go builds a set of the constants; a list with anything else is searched instead, at another cost.
    if any(value.__class__ not in _PRIMITIVES for value in values):
        return CallStep(id_, function, overload, args, early=False)
    return Membership(id_, args[0], values)


def _folded(id_: int, function: str, overload: Overload | None, value: CELValue) -> Step:
    result = value if value.__class__ is Failure else registry.call(function, overload, [value])
    if result.__class__ is Failure:
        raise CompileError("InternalError", f"program instantiation failed: {result.text}")
    return ConstantStep(id_, result)


def _prepare_pattern(call: CallStep, pattern: str) -> None:
    # Constant patterns are compiled once, and an invalid one is refused while planning, as by Kubernetes.
    compiled = regex.compile_pattern(pattern)
    if isinstance(compiled, Failure):
        raise CompileError("InternalError", f"program instantiation failed: {compiled.text}")
    functions = {"matches": regex.matches, "find": regex.find, "findAll": regex.find_all}
    function = functions[call.function]

    def of_text(args: list[CELValue]) -> CELValue:
        if args[0].__class__ is not str or (len(args) == 3 and args[2].__class__ is not int):
            return NO_SUCH_OVERLOAD
        return function(*args)

    call.fn, call.early = of_text, True


def _plan_list(node: ListLit) -> Descent[Step]:
    elements = yield from _all_planned(node.elements)
    step = ListStep(node.id, elements, node.optional)
    # cel-go folds constant literals; they are free at run time.
    if all(isinstance(element, ConstantStep) for element in elements):
        return ConstantStep(node.id, (yield step.build(Run(), Variables({}))))
    return step


def _plan_map(node: MapLit) -> Descent[Step]:
    entries: list[tuple[Step, Step, bool]] = []
    for entry in node.entries:
        key = yield _planned(_key(entry.key))
        entries.append((key, (yield _planned(entry.value)), entry.optional))
    step = MapStep(node.id, entries)
    if all(isinstance(key, ConstantStep) and isinstance(value, ConstantStep) for key, value, _ in entries):
        return ConstantStep(node.id, (yield step.build(Run(), Variables({}))))
    return step


def _key(key: Expr | None) -> Expr:
    assert key is not None
    return key


def _plan_struct(node: StructLit) -> Descent[Step]:
    values = yield from _all_planned(entry.value for entry in node.entries)
    fields = [(entry.name, value, entry.optional) for entry, value in zip(node.entries, values, strict=True)]
    return StructStep(node.id, node.name, fields)


def _plan_comprehension(node: Comprehension) -> Descent[Step]:
    parts = (node.init, node.range, node.condition, node.step, node.result)
    init, over, condition, step, result = yield from _all_planned(parts)
    return ComprehensionStep(node, (over, init, condition, step, result))


_PLANNERS: Final[dict[type, Callable[[Any], Descent[Step]]]] = {
    Select: _plan_select,
    CallExpr: _plan_call,
    ListLit: _plan_list,
    MapLit: _plan_map,
    StructLit: _plan_struct,
    Comprehension: _plan_comprehension,
}


class ComprehensionStep(Numbered):
    __slots__ = ("accu", "condition", "init", "range", "result", "step", "var", "var2")

    def __init__(self, node: Comprehension, parts: tuple[Step, Step, Step, Step, Step]) -> None:
        self.id, self.accu, self.var, self.var2 = node.id, node.accu, node.var, node.var2
        self.range, self.init, self.condition, self.step, self.result = parts

    def eval(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        value = yield from self.fold(run, scope)
        run.drop(self.range.id)
        run.note(self.id, value)
        return value

    def fold(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        over = self.range.eval(run, scope)
        if over.__class__ is Walk:
            over = yield over
        if over.__class__ is Failure:
            return over
        if not isinstance(over, (list, dict)):
            # The two forms of comprehensions have different texts in cel-go.
            if self.var2:
                return Failure(f"unsupported comprehension range type: {go_type(over)}")
            return Failure(f"got '{go_type(over)}', expected iterable type")
        inner = _FoldScope(self, scope)
        for inner.first, inner.second in self.pairs(over):
            more = self.condition.eval(run, inner)
            if more.__class__ is Walk:
                more = yield more
            if more is False:
                break
            value = self.step.eval(run, inner)
            if value.__class__ is Walk:
                value = yield value
            inner.value, inner.initialized = value, True
        inner.finished = True
        value = self.result.eval(run, inner)
        if value.__class__ is Walk:
            value = yield value
        # The accumulator leaves the comprehension: a later «+» must not change it in place.
        if value.__class__ is MutableList:
            return list(value)
        return dict(value) if value.__class__ is MutableMap else value

    def pairs(self, over: CELValue) -> Iterator[tuple[CELValue, CELValue]]:
        if isinstance(over, dict):
            return ((decode_key(key), value) for key, value in over.items())
        return enumerate(over) if self.var2 else ((value, None) for value in over)


class _FoldScope:
    __slots__ = ("finished", "first", "fold", "initialized", "outer", "second", "value")

    def __init__(self, fold: ComprehensionStep, outer: VariableScope) -> None:
        self.fold, self.outer = fold, outer
        self.first: CELValue = None
        self.second: CELValue = None
        self.value: CELValue = None
        self.initialized = self.finished = False

    def find(self, run: Run, name: str) -> CELValue:
        """Return the value of a name, or a walk that finds it. The accumulator is initialized when it is first read."""
        scope: Any = self
        while scope.__class__ is _FoldScope:
            fold = scope.fold
            if name == fold.accu:
                return scope.value if scope.initialized else scope.begin(run)
            # The result of a comprehension is evaluated outside its iteration, where the variables are not declared.
            if not scope.finished:
                if name == fold.var:
                    return scope.first
                if name == fold.var2:
                    return scope.second
            scope = scope.outer
        return scope.find(run, name)

    def begin(self, run: Run) -> CELValue:
        self.initialized = True
        value = self.fold.init.eval(run, self.outer)
        return self.begun(value) if value.__class__ is Walk else self.begin_with(value)

    def begun(self, walk: CELValue) -> Descent[CELValue]:
        return self.begin_with((yield walk))

    def begin_with(self, value: CELValue) -> CELValue:
        self.value = _accumulator(value)
        return self.value


def _accumulator(value: CELValue) -> CELValue:
    # Appending to a fresh list copies it: quadratic time for map() and filter() over a long list.
    if value.__class__ is list and not value:
        return MutableList()
    return MutableMap() if value.__class__ is dict and not value else value
