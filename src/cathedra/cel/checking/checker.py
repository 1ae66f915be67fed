"""Type inference for every node, with Kubernetes' errors.

Rules, order of nodes and messages are Kubernetes' (docs/spec/cel.md §2, §4 and §5).
What the checker learns (types, overloads, which names are types) is written onto the tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cathedra.cel import _trampoline
from cathedra.cel._trampoline import Descent
from cathedra.cel.checking import types
from cathedra.cel.checking.types import Kind, Type
from cathedra.cel.environment import Environment
from cathedra.cel.errors import Issue
from cathedra.cel.library.overload import Overload
from cathedra.cel.syntax.tree import CallExpr, Comprehension, Const, Expr, Ident, ListLit, MapLit, Select, StructLit
from cathedra.cel.values import TypeValue, UInt


def check(root: Expr, environment: Environment) -> list[Issue]:
    """Type-check ``root``, and store the types in its nodes. Return the errors."""
    checker = _Checker(environment)
    _trampoline.run(checker.whole(root))
    # A tree with errors is never evaluated, so its types need no end.
    if not checker.issues:
        checker.finish()
    return checker.issues


_LITERALS: Final[dict[type, Type]] = {
    bool: types.BOOL,
    bytes: types.BYTES,
    float: types.DOUBLE,
    int: types.INT,
    str: types.STRING,
    UInt: types.UINT,
    type(None): types.NULL,
}
_DYNAMIC: Final = (Kind.DYN, Kind.ANY)
_NULLABLE: Final = (Kind.OPAQUE, Kind.STRUCT, Kind.ANY, Kind.DURATION, Kind.TIMESTAMP)
_NESTED: Final = (Kind.OPAQUE, Kind.LIST, Kind.MAP)


_MAX_RECURSIONS: Final = 30
"""Number of levels that are walked by plain recursion. Parts below them are walked by the trampoline.

Recursion saves 4 % of a compilation of ``cel.bind`` over three attributes (237 instead of 247 µs)."""


class _Checker:
    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.functions = environment.functions
        self.issues: list[Issue] = []
        self.scopes: list[dict[str, Type]] = []
        self.bound: dict[str, Type] = {}
        self.variables = 0
        self.nodes: list[Expr] = []
        self.recursions = _MAX_RECURSIONS

    # --- walking

    def whole(self, root: Expr) -> Descent[None]:
        if (deeper := self.check(root)) is not None:
            yield deeper

    def check(self, node: Expr) -> Descent[None] | None:
        """Find the type of ``node``; what is too deep for recursion answers a walk that does."""
        self.nodes.append(node)
        kind = node.__class__
        if kind is Const:
            node.type = _LITERALS[node.value.__class__]  # type: ignore[attr-defined]  # a Const
            return None
        if kind is Ident:
            self.ident(node)  # type: ignore[arg-type]  # an Ident
            return None
        walk = _VISITS[kind](self, node)
        if not self.recursions:
            return walk
        self.recursions -= 1
        deeper = next(walk, None)
        self.recursions += 1
        return None if deeper is None else _rest(walk, deeper)

    def finish(self) -> None:
        for node in self.nodes:
            # Variables are only known at the end: a later part of the expression may bind them.
            if node.type.generic:
                node.type = self.substitute(node.type, to_dyn=True)

    def report(self, offset: int, message: str) -> None:
        self.issues.append(Issue(offset, message))

    def ident(self, node: Ident) -> None:
        local = self.local(node.name)
        if local is not None:
            node.type = local
            return
        for name in self.environment.candidates(node.name):
            if self.resolve(node, name):
                return
        node.type = types.ERROR
        self.undeclared(node.offset, node.name)

    def local(self, name: str) -> Type | None:
        # Innermost first: a variable of a macro hides one of the same name outside.
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def resolve(self, node: Ident | Select, name: str) -> bool:
        declared = self.environment.variables.get(name)
        if declared is None and name in types.CONSTANTS:
            node.type, node.constant = types.CONSTANTS[name]
        elif declared is None:
            named = self.environment.type_named(name)
            if named is None:
                return False
            node.type = types.type_of(named) if named is not types.TYPE else types.TYPE
            node.constant = TypeValue(named.name)
        else:
            node.type = declared
        if isinstance(node, Ident):
            shadowed = node.name.startswith(".") and self.local(name) is not None
            node.name = f".{name}" if shadowed else name
        else:
            node.qualified = name
        return True

    def undeclared(self, offset: int, name: str) -> None:
        self.report(offset, f"undeclared reference to '{name}' (in container '{self.environment.container}')")

    def select(self, node: Select) -> Descent[None]:
        dotted = None if node.test_only else _dotted(node)
        # A dotted name may be a declared name of its own, unless a macro's variable has its first part.
        if dotted is not None and self.local(dotted.split(".", 1)[0]) is None:
            for name in self.environment.candidates(dotted):
                if self.resolve(node, name):
                    return
        if (deeper := self.check(node.operand)) is not None:
            yield deeper
        found = self.field_type(node.offset, node.operand, node.field, optional=False)
        node.type = types.BOOL if node.test_only else self.substitute(found)

    def field_type(self, offset: int, operand: Expr, name: str, *, optional: bool) -> Type:
        target, is_optional = _unwrap(self.substitute(operand.type))
        found = types.ERROR
        if target.kind is Kind.MAP:
            found = target.params[1]
        elif target.kind is Kind.STRUCT:
            found = self.declared_field(offset, target.name, name)
        elif target.kind is Kind.PARAM:
            self.assignable(types.DYN, target)
            found = types.DYN
        else:
            if target.kind not in _DYNAMIC and target.kind is not Kind.ERROR:
                self.report(offset, f"type '{target.text}' does not support field selection")
            found = types.DYN
        return types.optional_of(found) if is_optional or optional else found

    def declared_field(self, offset: int, object_name: str, name: str) -> Type:
        fields = self.environment.fields_of(object_name)
        if fields is None:
            self.report(offset, f"unexpected failed resolution of '{object_name}'")
            return types.ERROR
        found = fields.get(name)
        if found is None:
            self.report(offset, f"undefined field '{name}'")
            return types.ERROR
        return found

    def call(self, node: CallExpr) -> Descent[None]:
        return self.optional_select(node) if node.function == "_?._" else self.plain_call(node)

    def plain_call(self, node: CallExpr) -> Descent[None]:
        for arg in node.args:
            if (deeper := self.check(arg)) is not None:
                yield deeper
        if node.target is None:
            for name in self.environment.candidates(node.function):
                if name in self.functions:
                    node.function = name
                    self.overload(node, self.functions[name])
                    return
            self.undeclared(node.offset, node.function)
            node.type = types.ERROR
            return
        prefix = _dotted(node.target)
        if prefix is not None:
            for name in self.environment.candidates(f"{prefix}.{node.function}"):
                if name in self.functions:
                    node.function, node.target = name, None
                    self.overload(node, self.functions[name])
                    return
        if (deeper := self.check(node.target)) is not None:
            yield deeper
        overloads = self.functions.get(node.function)
        if overloads is not None:
            self.overload(node, overloads)
            return
        node.type = types.ERROR
        self.undeclared(node.offset, node.function)

    def optional_select(self, node: CallExpr) -> Descent[None]:
        if "_?._" not in self.functions:
            self.undeclared(node.offset, node.function)
            node.type = types.ERROR
            return
        operand, name = node.args
        assert isinstance(name, Const)
        if (deeper := self.check(operand)) is not None:
            yield deeper
        node.type = self.substitute(self.field_type(node.offset, operand, name.value, optional=True))
        name.type = types.STRING
        node.overloads = self.functions["_?._"]

    def overload(self, node: CallExpr, overloads: tuple[Overload, ...]) -> None:
        given = [arg.type for arg in node.args]
        member = node.target is not None
        if node.target is not None:
            given.insert(0, node.target.type)
        if node.function in ("_&&_", "_||_"):
            self.logic(node, overloads, given)
            return
        key = (node.function, member, *given)
        # Selectors of a cluster repeat few combinations of types. Resolving «==» anew would try every overload.
        known = self.environment.resolutions.get(key)
        if known is not None:
            node.type, node.overloads, used = known
            self.variables += used  # their numbers show in reports
            return
        before = self.variables
        self.resolve_overload(node, overloads, given, member=member)
        # Generic types stand for something else in the next expression, so they are not cached.
        if node.type is not types.ERROR and not any(one.generic or one.nullable for one in (node.type, *given)):
            self.environment.remember(key, node.type, node.overloads, self.variables - before)

    def resolve_overload(
        self, node: CallExpr, overloads: tuple[Overload, ...], given: list[Type], *, member: bool
    ) -> None:
        result: Type | None = None
        possible = []
        count = len(given)
        for overload in overloads:
            if overload.member is not member or len(overload.args) != count:
                continue
            wanted, result_type = overload.args, overload.result
            if overload.params:
                wanted, result_type = self.instantiate(overload)
            if not self.all_assignable(given, wanted):
                continue
            possible.append(overload)
            if overload.params:
                result_type = self.substitute(result_type)
            if result is None:
                result = result_type
            # Several overloads fit with different results: only the values decide, at run time.
            elif result.kind not in _DYNAMIC and result_type != result:
                result = types.DYN
        if result is None:
            self.no_overload(node, given, member=member)
            return
        node.type, node.overloads = result, tuple(possible)

    def logic(self, node: CallExpr, overloads: tuple[Overload, ...], given: list[Type]) -> None:
        node.overloads = overloads
        node.type = types.BOOL
        for arg, arg_type in zip(node.args, given, strict=True):
            if not self.assignable(arg_type, types.BOOL):
                self.report(arg.offset, f"expected type 'bool' but found '{arg_type.text}'")
                node.type = types.ERROR

    def no_overload(self, node: CallExpr, given: list[Type], *, member: bool) -> None:
        shown = [self.substitute(t, to_dyn=True).text for t in given]
        applied = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
        self.report(node.offset, f"found no matching overload for '{node.function}' applied to '{applied}'")
        node.type = types.ERROR

    def list_literal(self, node: ListLit) -> Descent[None]:
        joined: Type | None = None
        for position, element in enumerate(node.elements):
            if (deeper := self.check(element)) is not None:
                yield deeper
            one = element.type
            if position in node.optional:
                one = self.unwrapped(element)
            joined = self.join(element.offset, joined, one)
        node.type = types.list_of(joined if joined is not None else self.variable())

    def unwrapped(self, element: Expr) -> Type:
        inner, is_optional = _unwrap(element.type)
        if not is_optional and inner.kind not in _DYNAMIC:
            self.mismatch(element.offset, types.optional_of(inner), inner)
        return inner

    def mismatch(self, offset: int, expected: Type, found: Type) -> None:
        self.report(offset, f"expected type '{expected.text}' but found '{found.text}'")

    def map_literal(self, node: MapLit) -> Descent[None]:
        key_type: Type | None = None
        value_type: Type | None = None
        for entry in node.entries:
            assert entry.key is not None
            if (deeper := self.check(entry.key)) is not None:
                yield deeper
            key_type = self.join(entry.key.offset, key_type, entry.key.type)
            if (deeper := self.check(entry.value)) is not None:
                yield deeper
            one = self.unwrapped(entry.value) if entry.optional else entry.value.type
            value_type = self.join(entry.value.offset, value_type, one)
        if key_type is None or value_type is None:
            key_type, value_type = self.variable(), self.variable()
        node.type = types.map_of(key_type, value_type)

    def join(self, offset: int, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self.assignable(previous, current):
            return _most_general(previous, current)
        # Without the check of literals a mixed list is one of dyn.
        if not self.environment.homogeneous:
            return types.DYN
        self.mismatch(offset, previous, current)
        return types.ERROR

    def struct_literal(self, node: StructLit) -> Descent[None]:
        environment = self.environment
        named = ((name, environment.type_named(name)) for name in environment.candidates(node.name))
        found, declared = next(((name, one) for name, one in named if one is not None), (node.name, None))
        if declared is None:
            self.undeclared(node.offset, node.name)
            node.type = types.ERROR
            return
        node.name = found
        node.type = declared
        if environment.fields_of(found) is None:
            self.report(node.offset, f"'{node.type.name}' is not a message type")
            node.type = types.ERROR
        for entry in node.entries:
            if (deeper := self.check(entry.value)) is not None:
                yield deeper
            wanted = self.declared_field(entry.offset, found, entry.name)
            given = self.unwrapped(entry.value) if entry.optional else entry.value.type
            if not self.assignable(wanted, given):
                self.report(
                    entry.offset,
                    f"expected type of field '{entry.name}' is '{wanted.text}' but provided type is '{given.text}'",
                )

    def comprehension(self, node: Comprehension) -> Descent[None]:
        if (deeper := self.check(node.range)) is not None:
            yield deeper
        if (deeper := self.check(node.init)) is not None:
            yield deeper
        over = self.substitute(node.range.type)
        accu = node.init.type
        self.scopes.append({node.accu: accu})
        first, second = self.range_types(node, over)
        self.scopes.append({node.var: first, node.var2: second} if node.var2 else {node.var: first})
        if (deeper := self.check(node.condition)) is not None:
            yield deeper
        self.assert_type(node.condition, types.BOOL)
        if (deeper := self.check(node.step)) is not None:
            yield deeper
        self.assert_type(node.step, accu)
        self.scopes.pop()
        if (deeper := self.check(node.result)) is not None:
            yield deeper
        self.scopes.pop()
        node.type = self.substitute(node.result.type)

    def range_types(self, node: Comprehension, over: Type) -> tuple[Type, Type]:
        if over.kind is Kind.LIST:
            return (types.INT, over.params[0]) if node.var2 else (over.params[0], over.params[0])
        if over.kind is Kind.MAP:
            return over.params[0], over.params[1]
        if over.kind in (Kind.DYN, Kind.ERROR, Kind.PARAM):
            self.assignable(types.DYN, over)
            return types.DYN, types.DYN
        self.report(
            node.range.offset,
            f"expression of type '{over.text}' cannot be range of a comprehension (must be list, map, or dynamic)",
        )
        return types.ERROR, types.ERROR

    def assert_type(self, node: Expr, wanted: Type) -> None:
        if not self.assignable(wanted, node.type):
            self.mismatch(node.offset, wanted, node.type)

    # --- types

    def variable(self) -> Type:
        self.variables += 1
        return types.param(f"_var{self.variables - 1}")

    def instantiate(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        fresh = {name: self.variable() for name in overload.params}
        return tuple(_replace(arg, fresh) for arg in overload.args), _replace(overload.result, fresh)

    def substitute(self, one: Type, *, to_dyn: bool = False) -> Type:
        """``one`` with the variables replaced that stand for something; all of them with ``to_dyn``."""
        while one.generic and one.kind is Kind.PARAM:
            bound = self.bound.get(one.name)
            if bound is None:
                return types.DYN if to_dyn else one
            one = bound
        return _trampoline.run(self.substituted(one, to_dyn=to_dyn)) if one.generic else one

    def substituted(self, one: Type, *, to_dyn: bool) -> Descent[Type]:
        if not one.generic:
            return one
        if one.kind is Kind.PARAM:
            bound = self.bound.get(one.name)
            if bound is None:
                return types.DYN if to_dyn else one
            found: Type = yield self.substituted(bound, to_dyn=to_dyn)
            return found
        params = []
        for param in one.params:
            params.append((yield self.substituted(param, to_dyn=to_dyn)))
        return Type(one.kind, one.name, tuple(params))

    def assignable(self, left: Type, right: Type) -> bool:
        if left is right and not left.generic:
            return True
        # A failed attempt must leave no variable bound.
        saved = self.bound
        self.bound = dict(saved)
        if self.fits(left, right):
            return True
        self.bound = saved
        return False

    def all_assignable(self, given: list[Type], wanted: tuple[Type, ...]) -> bool:
        saved = self.bound
        copied = False
        for left, right in zip(given, wanted, strict=True):
            # Copied only when a variable may be bound: most calls have none.
            if not copied and (left.generic or right.generic):
                self.bound, copied = dict(saved), True
            if not self.fits(left, right):
                self.bound = saved
                return False
        return True

    def fits(self, left: Type, right: Type) -> bool:
        pairs = [(left, right)]
        while pairs:
            left, right = pairs.pop()
            if left is right and not left.generic:
                continue
            if left.kind is right.kind and left.kind in _NESTED:
                if left.name != right.name or len(left.params) != len(right.params):
                    return False
                pairs.extend(zip(reversed(left.params), reversed(right.params), strict=True))
            elif not self.fits_itself(left, right):
                return False
        return True

    def fits_itself(self, left: Type, right: Type) -> bool:
        """Return True if the types fit; `fits` takes apart two lists, two maps and two opaque types."""
        kind, other = left.kind, right.kind
        if other is Kind.PARAM:
            valid, bound = self.binds(left, right)
            if valid:
                return True
            if bound:
                return False
        if kind is Kind.PARAM:
            return self.binds(right, left)[0]
        if kind in _DYNAMIC or other in _DYNAMIC or kind is Kind.ERROR or other is Kind.ERROR:
            return True
        if kind is Kind.NULL:
            return other in _NULLABLE or other is Kind.NULL or right.nullable
        if other is Kind.NULL:
            return kind in _NULLABLE or left.nullable
        if kind is Kind.TYPE:
            return other is Kind.TYPE
        return kind is other and left.name == right.name

    def binds(self, one: Type, variable: Type) -> tuple[bool, bool]:
        """Return True if ``variable`` may stand for ``one``, and whether it stood for something before."""
        if one == variable:
            return True, True
        bound = self.bound.get(variable.name)
        if bound is not None:
            if one == bound:
                return True, True
            if self.fits(one, bound):
                general = _most_general(one, bound)
                # A variable that stood for a type containing itself would make substitution endless.
                if self.free_of(variable, general):
                    self.bound[variable.name] = general
                return True, True
            return False, True
        if self.free_of(variable, one):
            self.bound[variable.name] = one
            return True, False
        return False, False

    def free_of(self, variable: Type, within: Type) -> bool:
        pending = [within]
        while pending:
            one = pending.pop()
            if variable == one:
                return False
            if one.kind is Kind.PARAM:
                bound = self.bound.get(one.name)
                if bound is not None:
                    pending.append(bound)
            else:
                pending.extend(one.params)
        return True


def _rest(walk: Descent[None], deeper: Any) -> Descent[None]:
    """Continue a walk at ``deeper``, a part that is too deep for recursion."""
    while deeper is not None:
        yield deeper
        deeper = next(walk, None)


_VISITS: Final[dict[type, Callable[[_Checker, Any], Descent[None]]]] = {
    Select: _Checker.select,
    CallExpr: _Checker.call,
    ListLit: _Checker.list_literal,
    MapLit: _Checker.map_literal,
    StructLit: _Checker.struct_literal,
    Comprehension: _Checker.comprehension,
}


def _dotted(node: Expr) -> str | None:
    """``a.b.c`` as one name, if the node is nothing but names and dots."""
    parts: list[str] = []
    while isinstance(node, Select):
        if node.test_only:
            return None
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    parts.append(node.name)
    return ".".join(reversed(parts))


def _unwrap(one: Type) -> tuple[Type, bool]:
    if one.kind is Kind.OPAQUE and one.name == "optional_type":
        return one.params[0], True
    return one, False


def _replace(one: Type, fresh: dict[str, Type]) -> Type:
    if not one.generic:
        return one
    if one.kind is Kind.PARAM:
        return fresh.get(one.name, one)
    return Type(one.kind, one.name, tuple(_replace(p, fresh) for p in one.params))


def _less_specific(left: Type, right: Type) -> bool:
    pairs = [(left, right)]
    while pairs:
        left, right = pairs.pop()
        if left.kind in _DYNAMIC or left.kind is Kind.PARAM:
            continue
        if right.kind in _DYNAMIC or right.kind is Kind.PARAM or left.kind is not right.kind:
            return False
        if left.kind in _NESTED:
            if left.name != right.name or len(left.params) != len(right.params):
                return False
            pairs.extend(zip(left.params, right.params, strict=True))
        elif left.kind is not Kind.TYPE and left != right:
            return False
    return True


def _most_general(left: Type, right: Type) -> Type:
    return left if _less_specific(left, right) else right
