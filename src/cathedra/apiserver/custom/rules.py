"""The CEL rules of a schema (``x-kubernetes-validations``): compiled with the definition, evaluated at each write.

``self`` is the value of the rule's schema, ``oldSelf`` its previous value. A rule that uses ``oldSelf`` is evaluated
only where both values can be matched with each other (docs/spec/apimachinery.md §17).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from cathedra.api.field import OMITTED, ErrorList, ErrorType, FieldError
from cathedra.apiserver.custom.costs import (
    EXPRESSION_LIMIT,
    TOTAL_LIMIT,
    Cardinality,
    Extent,
    TotalCost,
    excess,
    extent_of,
)
from cathedra.apiserver.custom.goforms import rule_form
from cathedra.apiserver.custom.schema import Correlated, Schema
from cathedra.apiserver.custom.validation import MAX_ERRORS
from cathedra.cel.fieldnames import escaped
from cathedra.deadline import CPULimit
from cathedra.offload import DeadlineExceeded

Interrupted = Callable[[], bool]


def _never() -> bool:
    """Return False: the work is not to be interrupted."""
    return False


CALL_LIMIT: Final = 1_000_000
BUDGET: Final = 10_000_000
_REASONS: Final = {
    "": ErrorType.INVALID,
    "FieldValueInvalid": ErrorType.INVALID,
    "FieldValueForbidden": ErrorType.FORBIDDEN,
    "FieldValueRequired": ErrorType.REQUIRED,
    "FieldValueDuplicate": ErrorType.DUPLICATE,
}
_TOO_DEAR: Final = "operation cancelled: actual cost limit exceeded"
_INTERRUPTED: Final = "operation interrupted"
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_OLD: Final = re.compile(r"\boldSelf\b")


class RuleFault(msgspec.Struct, frozen=True):
    """A rule that does not compile: its path in the schema, and the error."""

    path: str
    rule: Any
    detail: str
    type: ErrorType = ErrorType.INVALID
    dear: bool = False
    """True if a single expression may cost too much."""


class _CompiledRule(msgspec.Struct, frozen=True):
    source: Mapping[str, Any]
    program: Any
    message: Any
    transition: bool


class _RuleNode(msgspec.Struct):
    """The rules of one node of a schema, and the nodes below that have any."""

    schema: Schema
    rules: list[_CompiledRule] = msgspec.field(default_factory=list)
    properties: dict[str, _RuleNode] = msgspec.field(default_factory=dict)
    additional: _RuleNode | None = None
    items: _RuleNode | None = None

    @property
    def any(self) -> bool:
        return bool(self.rules or self.properties or self.additional is not None or self.items is not None)


class ValidationRules:
    """All rules of one version's schema."""

    def __init__(self, root: _RuleNode) -> None:
        self._root = root
        self.any = root.any
        """True if there are any rules at all."""

    def broken(
        self, new: Mapping[str, Any], old: Mapping[str, Any] | None, interrupted: Interrupted = _never
    ) -> ErrorList:
        """Return the errors of the rules that a valid object breaks, outer ones first, at most `MAX_ERRORS`.

        A rule that the previous value broke too is no error, unless it is about the change (Kubernetes' ratcheting).

        The evaluation ends when ``interrupted`` returns True, or when it has taken a second of processor time.
        """
        run = _RuleRun(interrupted)
        if self.any:
            run.visit(self._root, new, old, "", None, has_old=old is not None)
        return run.errors


class _RuleRun:
    """One evaluation of all rules, and the rest of its cost budget."""

    def __init__(self, interrupted: Interrupted) -> None:
        self.errors = ErrorList()
        self._left = BUDGET
        # Estimates bound the cost in steps, not in time: one step on a long text can take a second.
        used_up = CPULimit()
        self._interrupted: Interrupted = lambda: interrupted() or used_up()

    def visit(self, node: _RuleNode, new: Any, old: Any, path: str, above: Correlated | None, *, has_old: bool) -> None:
        """Evaluate the rules of this node and of those below; ``above`` is the closest value with a previous one."""
        if new is None:
            return  # Rules are about values that are there.
        nearest = Correlated(node.schema, new, old) if has_old else above
        celled = _CelledPair(node.schema, new, old, self._interrupted)
        for rule in node.rules:
            if self._left <= 0 or len(self.errors) >= MAX_ERRORS:
                return
            if not rule.transition or has_old or rule.source.get("optionalOldSelf"):
                self._evaluate(rule, celled, path, nearest, has_old=has_old)
        if isinstance(new, dict):
            if not node.properties and node.additional is None:
                return  # without rules below there is nothing to walk over
            for name, item in new.items():
                if self._is_over():
                    return
                inner = node.properties.get(name) or node.additional
                if inner is not None:
                    known = has_old and isinstance(old, dict) and name in old
                    where = f"{path}.{name}" if path else name
                    self.visit(inner, item, old[name] if known else None, where, nearest, has_old=known)
        elif isinstance(new, list) and node.items is not None:
            # Only elements of keyed lists have a previous value: after an insertion positions are different.
            elements = nearest.elements if has_old and nearest is not None else [None] * len(new)
            for position, (item, found) in enumerate(zip(new, elements, strict=True)):
                if self._is_over():
                    return
                before = None if found is None else found.old
                self.visit(node.items, item, before, f"{path}[{position}]", nearest, has_old=found is not None)

    def _is_over(self) -> bool:
        """Return True if no more rules are evaluated."""
        if self._left > 0 and self._interrupted():
            self._left = 0
            self.errors.append(FieldError(ErrorType.INVALID, "<nil>", OMITTED, _OUT_OF_BUDGET))
        return self._left <= 0 or len(self.errors) >= MAX_ERRORS

    def _evaluate(
        self, rule: _CompiledRule, celled: _CelledPair, path: str, nearest: Correlated | None, *, has_old: bool
    ) -> None:
        # start-up time: CEL comes with the first rule
        from cathedra.cel.values import NONE, Optional

        variables: dict[str, Any] = {"self": celled.new()}
        if rule.source.get("optionalOldSelf"):
            variables["oldSelf"] = Optional(celled.old()) if has_old else NONE
        elif has_old:
            variables["oldSelf"] = celled.old()
        outcome = rule.program.evaluate(variables, min(CALL_LIMIT, self._left), self._interrupted)
        self._left -= outcome.cost
        if outcome.error is not None:
            self._failed(outcome.error, rule, path, celled.type)
        elif outcome.value is not True:
            text = self._message(rule, variables)
            if not rule.transition and nearest is not None and nearest.is_unchanged:
                return
            where = path + _relative(rule.source.get("fieldPath", ""))
            kind = _REASONS.get(rule.source.get("reason", ""), ErrorType.INVALID)
            self.errors.append(FieldError(kind, where.lstrip(".") or "<nil>", celled.shown, text))

    def _failed(self, error: str, rule: _CompiledRule, path: str, kind: str) -> None:
        """Add the error of a rule that could not be evaluated; no rule runs after one that cost too much."""
        shown = (rule.source.get("message") or rule.source["rule"]).strip()
        # After such an error no further rule is evaluated, as in Kubernetes: the budget is that of the whole object.
        if self._left <= 0 or error == _INTERRUPTED:
            text = _OUT_OF_BUDGET
            self._left = 0
        elif error.startswith("no such overload"):
            text = (
                f"'{error}': call arguments did not match a supported operator, function or macro signature for rule: "
                f"{shown}"
            )
        elif error == _TOO_DEAR:
            text = (
                f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
            )
            self._left = 0
        else:
            text = f"{error} evaluating rule: {shown}"
        # Kubernetes shows the type of the value here, not the value.
        self.errors.append(FieldError(ErrorType.INVALID, path or "<nil>", kind, text))

    def _message(self, rule: _CompiledRule, variables: dict[str, Any]) -> str:
        if rule.message is not None:
            outcome = rule.message.evaluate(variables, min(CALL_LIMIT, max(self._left, 1)), self._interrupted)
            self._left -= outcome.cost
            if outcome.error is None and isinstance(outcome.value, str):
                text = outcome.value.strip()
                # Kubernetes drops messages of several lines, and then uses the static one.
                if text and "\n" not in text:
                    return text
        given: str = rule.source.get("message", "")
        return given or f"failed rule: {rule.source['rule'].strip()}"


def _relative(path: str) -> str:
    return re.sub(r"\['([^']*)'\]", r"[\1]", path)


class _CelledPair:
    """The new and the old value of one node as CEL values, converted for the first rule that reads them."""

    __slots__ = ("_interrupted", "_made", "_new", "_old", "_schema")

    def __init__(self, schema: Schema, new: Any, old: Any, interrupted: Interrupted) -> None:
        self._schema, self._new, self._old, self._interrupted = schema, new, old, interrupted
        self._made: dict[str, Any] = {}

    @property
    def type(self) -> str:
        """The type that the schema gives the values."""
        return self._schema.type

    @property
    def shown(self) -> Any:
        """The value in an error; objects and lists are not shown."""
        return OMITTED if self._schema.type in {"object", "array"} else self._new

    def new(self) -> Any:
        """Return the value after the write, as CEL sees it."""
        return self._celled("new", self._new)

    def old(self) -> Any:
        """Return the value before the write, as CEL sees it."""
        return self._celled("old", self._old)

    def _celled(self, which: str, value: Any) -> Any:
        if which not in self._made:
            self._made[which] = _celled(self._schema, value, self._interrupted)
        return self._made[which]


def _celled(schema: Schema, value: Any, interrupted: Interrupted) -> Any:
    """Return a value as CEL sees it: numbers by their schema, times and durations as such.

    The calls of ``interrupted`` only yield to other threads. The result is complete even after an interruption, which
    the evaluation then notices.
    """
    if isinstance(value, dict):
        interrupted()
        if schema.additional is not None:
            return {name: _celled(schema.additional, item, interrupted) for name, item in value.items()}
        return {
            escaped(name): _celled(schema.properties[name], item, interrupted) if name in schema.properties else item
            for name, item in value.items()
        }
    if isinstance(value, list):
        interrupted()
        return [_celled(schema.items, item, interrupted) for item in value] if schema.items is not None else value
    if schema.type == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and schema.source.get("format") in {"date-time", "datetime", "duration"}:
        return _moment(schema.source["format"], value)
    return value


def _moment(form: str, text: str) -> Any:
    # start-up time: CEL comes with the first rule
    from cathedra.cel.library.times import parse_duration, parse_timestamp
    from cathedra.cel.values import Failure

    parsed: Any = parse_duration(text) if form == "duration" else parse_timestamp(text)
    return text if parsed is None or isinstance(parsed, Failure) else parsed


class LazyRules:
    """The rules of an accepted schema, compiled when the first instance is written."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._compiled: ValidationRules | None = None

    def compiled(self, interrupted: Interrupted = _never) -> ValidationRules:
        """Return the rules; compiled once, unless an interruption raises an exception meanwhile."""
        if self._compiled is None:
            self._compiled = compile_rules(self._schema, interrupted)[0]
        return self._compiled


def compile_rules(
    schema: Schema, interrupted: Interrupted = _never, where: str = ""
) -> tuple[ValidationRules, list[RuleFault]]:
    """Return the rules of the schema at ``where``, and those that do not compile or may cost too much.

    Raises:
        DeadlineExceeded: ``interrupted`` has returned True.
    """
    compiler = _RuleCompiler(interrupted, where)
    root = compiler.node(schema, _Spot("", root=True), Cardinality(), None)
    total = compiler.total
    if total.total > TOTAL_LIMIT:
        words = (
            "contributed to estimated rule & messageExpression cost total exceeding cost limit for entire OpenAPIv3 "
            "schema"
        )
        compiler.faults += [RuleFault(path, None, words, ErrorType.FORBIDDEN) for _, path in total.most_expensive]
        what = "x-kubernetes-validations estimated rule & messageExpression cost total for entire OpenAPIv3 schema"
        compiler.faults.append(RuleFault("", None, excess(what, total.total, TOTAL_LIMIT), ErrorType.FORBIDDEN))
    return ValidationRules(root), compiler.faults


class _Spot(msgspec.Struct, frozen=True):
    """The place of a schema in the schema of its definition."""

    path: str
    root: bool = False
    uncorrelated_from: str | None = None
    """Path of the outermost container whose elements have no previous value."""

    def below(self, step: str) -> _Spot:
        """Return the place of the schema one level below, at ``step``."""
        return _Spot(f"{self.path}{step}", uncorrelated_from=self.uncorrelated_from)

    def uncorrelated(self) -> _Spot:
        """Return the same place, marked as having elements without previous values."""
        return self if self.uncorrelated_from is not None else _Spot(self.path, self.root, self.path)


class _RuleCompiler:
    """Compiles the rules of one schema, adding up what they may cost."""

    def __init__(self, interrupted: Interrupted, where: str) -> None:
        self.faults: list[RuleFault] = []
        self.total = TotalCost()
        self._interrupted = interrupted
        self._where = where

    def _check(self) -> None:
        if self._interrupted():
            raise DeadlineExceeded(0.0)

    def node(self, schema: Schema, spot: _Spot, cardinality: Cardinality, extent: Extent | None) -> _RuleNode:
        """Return the rules of a node of the schema and below; ``extent`` is known if a node above has rules.

        Faults of the nodes below come before those of the node itself, as in Kubernetes.
        """
        self._check()
        node = _RuleNode(schema)
        sources = schema.source.get("x-kubernetes-validations") or ()
        if sources and extent is None:
            extent = extent_of(schema, escaped, root=spot.root or schema.embedded)
        inside = cardinality.below(schema)
        element = extent.element if extent is not None else None
        if schema.additional is not None and schema.additional.source:
            below = self.node(schema.additional, spot.below(".additionalProperties"), inside, element)
            node.additional = below if below.any else None
        # Kubernetes compares neither atomic maps nor lists without keys element by element.
        fields = spot.uncorrelated() if schema.map_type == "atomic" else spot
        for name, inner in schema.properties.items():
            known = extent.fields.get(escaped(name)) if extent is not None else None
            below = self.node(inner, fields.below(f".properties[{name}]"), inside, known)
            if below.any:
                node.properties[name] = below
        if schema.items is not None:
            elements = spot if schema.list_type == "map" else spot.uncorrelated()
            below = self.node(schema.items, elements.below(".items"), inside, element)
            node.items = below if below.any else None
        if sources:
            self._rules(node, sources, spot, cardinality, extent or Extent(0, 2))
        return node

    def _rules(self, node: _RuleNode, sources: Any, spot: _Spot, cardinality: Cardinality, extent: Extent) -> None:
        # start-up time: CEL comes with the first rule
        from cathedra.cel.checking import types

        objects: dict[str, dict[str, Any]] = {}
        own = _type_of(node.schema, "selfType", objects, root=spot.root)
        for number, source in enumerate(sources):
            self._check()
            if len(self.faults) >= MAX_ERRORS:
                return
            old = types.optional_of(own) if source.get("optionalOldSelf") else own
            declared = _environment(own, old, objects, extent)
            where = f"{spot.path}.x-kubernetes-validations[{number}]"
            rule = self._rule(source, where, declared, cardinality, extent)
            if rule is not None:
                node.rules.append(rule)
            self._old_value(source, where, spot, transition=rule is not None and rule.transition)

    def _old_value(self, source: Mapping[str, Any], where: str, spot: _Spot, *, transition: bool) -> None:
        """Check that a rule about changes is about values that have a previous one."""
        if transition and spot.uncorrelated_from is not None:
            detail = (
                "oldSelf cannot be used on the uncorrelatable portion of the schema within "
                f"{self._where}{spot.uncorrelated_from}"
            )
            self.faults.append(RuleFault(f"{where}.rule", source["rule"], detail))
        elif not transition and source.get("optionalOldSelf") is not None:
            detail = "may not be set if oldSelf is not used in rule"
            self.faults.append(RuleFault(f"{where}.optionalOldSelf", source["optionalOldSelf"], detail))

    def _rule(
        self, source: Mapping[str, Any], where: str, declared: Any, cardinality: Cardinality, extent: Extent
    ) -> _CompiledRule | None:
        # start-up time: CEL comes with the first rule
        from cathedra.cel import program
        from cathedra.cel.checking import types
        from cathedra.cel.errors import CompileError

        rule: str = source.get("rule", "")
        try:
            compiled = program.compile_expression(rule, declared)
            compiled.instantiate()
        except CompileError as error:
            detail = error.text if error.type == "InternalError" else f"compilation failed: {_report(error.text)}"
            self.faults.append(RuleFault(f"{where}.rule", rule_form(source), detail))
            return None
        if compiled.type not in (types.BOOL, types.DYN):
            self.faults.append(RuleFault(f"{where}.rule", rule_form(source), "cel expression must evaluate to a bool"))
            return None
        self._charge("rule", f"{where}.rule", cardinality.cost(compiled.max_cost, extent))
        transition = bool(_OLD.search(rule))
        message = None
        if source.get("messageExpression"):
            place = f"{where}.messageExpression"
            try:
                message = program.compile_expression(source["messageExpression"], declared)
            except CompileError as error:
                detail = f"messageExpression compilation failed: {_report(error.text)}"
                self.faults.append(RuleFault(place, rule_form(source), detail))
                return _CompiledRule(source, compiled, None, transition)
            if message.type != types.STRING:
                detail = "messageExpression must evaluate to a string"
                self.faults.append(RuleFault(place, rule_form(source), detail))
                return _CompiledRule(source, compiled, None, transition)
            # As in Kubernetes: once per object, however often the rule is evaluated.
            self._charge("messageExpression", place, message.max_cost)
        return _CompiledRule(source, compiled, message, transition)

    def _charge(self, what: str, path: str, cost: int) -> None:
        if cost > EXPRESSION_LIMIT:
            detail = excess(f"estimated {what} cost", cost, EXPRESSION_LIMIT)
            self.faults.append(RuleFault(path, None, detail, ErrorType.FORBIDDEN, dear=True))
        self.total.add(path, cost)


def _report(text: str) -> str:
    return text.removeprefix("compilation failed: ")


def _environment(own: Any, old: Any, objects: dict[str, dict[str, Any]], extent: Extent) -> Any:
    # start-up time: CEL comes with the first rule
    from cathedra.cel.environment import Environment

    def size_of(path: tuple[str, ...]) -> int | None:
        # The bounds of the schema hold for the old value, too.
        return extent.at(path)

    return Environment(variables={"self": own, "oldSelf": old}, objects=objects, size_of=size_of)


def _type_of(schema: Schema, name: str, objects: dict[str, dict[str, Any]], *, root: bool = False) -> Any:
    """Return the CEL type of a schema's values."""
    # start-up time: CEL comes with the first rule
    from cathedra.cel.checking import types

    if schema.int_or_string or schema.preserve or not schema.type:
        return types.DYN
    form = schema.source.get("format")
    if schema.type == "string":
        if form in {"date-time", "datetime"}:
            return types.TIMESTAMP
        return types.DURATION if form == "duration" else types.STRING
    scalars = {"integer": types.INT, "number": types.DOUBLE, "boolean": types.BOOL}
    if schema.type in scalars:
        return scalars[schema.type]
    if schema.type == "array":
        inner = types.DYN if schema.items is None else _type_of(schema.items, f"{name}.@idx", objects)
        return types.list_of(inner)
    if schema.additional is not None:
        return types.map_of(types.STRING, _type_of(schema.additional, f"{name}.@elem", objects))
    fields = dict(_fields(schema, name, objects))
    if schema.embedded or root:  # Every resource has these, whether its schema names them or not.
        fields |= {"apiVersion": types.STRING, "kind": types.STRING, "metadata": _metadata(objects)}
    objects[name] = fields
    return types.struct(name)


def _fields(schema: Schema, name: str, objects: dict[str, dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    for field_name, inner in schema.properties.items():
        yield escaped(field_name), _type_of(inner, f"{name}.{field_name}", objects)


def _metadata(objects: dict[str, dict[str, Any]]) -> Any:
    # start-up time: CEL comes with the first rule
    from cathedra.cel.checking import types

    objects["kubernetes.ObjectMeta"] = {"name": types.STRING, "generateName": types.STRING}
    return types.struct("kubernetes.ObjectMeta")
