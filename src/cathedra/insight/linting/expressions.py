"""Static checks of selectors: those that do not compile, may fail, confuse names or types, or are never true."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cathedra.cel import device, program
from cathedra.cel.errors import CompileError, Issue
from cathedra.cel.library.semver import completed, is_semver
from cathedra.cel.program import Program
from cathedra.cel.selector import COST_LIMIT, MAX_LENGTH, compile_selector
from cathedra.cel.syntax.tree import CallExpr, Const, Expr, Select, walk
from cathedra.insight.linting.findings import Findings, ManifestObject, SelectorGroup, TextRange
from cathedra.insight.selectors.reads import (
    MAPS,
    Condition,
    DriverFacts,
    Facts,
    conditions_of,
    facts_of,
    first_conflict,
    path_of,
    read_of,
    unguarded,
)
from cathedra.releases import FeatureGates
from cathedra.remembering import remembered

NEAR: Final = COST_LIMIT // 2
"""Estimated cost from which a finding is added."""
_VERSION: Final = re.compile(r"v?\d+\.\d+(\.\d+)*([-+].*)?")
_ORDER: Final = frozenset(("_<_", "_<=_", "_>_", "_>=_"))
_OF_QUANTITIES: Final = frozenset(("compareTo", "isGreaterThan", "isLessThan", "add", "sub"))
_QUANTITY_METHODS: Final = frozenset(("asInteger", "asApproximateFloat", "isInteger", "sign"))


@dataclass(frozen=True, slots=True)
class _Compiler:
    """Compiles under the gates of a release; the same text comes often."""

    consumable: bool
    lists: bool

    def selector(self, text: str) -> Program | CompileError:
        return _selector(text, self.consumable, self.lists)

    def derived(self, text: str) -> Program | CompileError:
        declared = device.environment(consumable_capacity=self.consumable, list_attributes=self.lists, mode="new")
        try:
            return program.compile_expression(text, declared)
        except CompileError as error:
            return error


@remembered("insight.linting.expressions.selector", size=1024)
def _selector(text: str, consumable: bool, lists: bool) -> Program | CompileError:
    try:
        found = compile_selector(text, consumable_capacity=consumable, list_attributes=lists, mode="new")
    except CompileError as error:
        return error
    return found.program


class ExpressionRules:
    """Reads the selectors of objects; ``classes`` are the selectors of the classes that are known, by name."""

    def __init__(self, gates: FeatureGates, classes: Mapping[str, tuple[str | None, ...]]) -> None:
        self._classes = classes
        self._compiler = _Compiler(gates.get("DRAConsumableCapacity", False), gates.get("DRAListTypeAttributes", False))

    def check(self, given: ManifestObject, group: SelectorGroup, findings: Findings) -> None:
        """Add the errors of the selectors of a group."""
        known, conditions = self._before(group)
        for number, text in enumerate(group.expressions):
            path = group.selector_path(number)
            if text is None or len(text.encode("utf-8", "surrogatepass")) > MAX_LENGTH:
                continue
            compiled = self._compiler.selector(text)
            if isinstance(compiled, CompileError):
                _enter_issues(given, path, text, compiled, findings)
                continue
            reader = _LintedExpression(given, path, compiled, findings)
            reader.cost()
            reader.mixed_up()
            reader.fields_of_values()
            reader.literals()
            reader.unqualified(known)
            reader.unguarded(known, group.class_name if group.class_name not in self._classes else "")
            conditions.extend(conditions_of(compiled.root, text))
            reader.never_true(conditions)
            known |= facts_of(compiled.root, {}, evaluated=True)
        for number, text in enumerate(group.derived):
            self._derived(given, group.derived_path(number), text, known, findings)

    def _before(self, group: SelectorGroup) -> tuple[Facts, list[Condition]]:
        """Return the facts that the class establishes, and its conditions."""
        known: Facts = frozenset()
        conditions: list[Condition] = []
        for text in self._classes.get(group.class_name, ()):
            compiled = self._compiler.selector(text or "")
            if isinstance(compiled, Program) and text is not None:
                known |= facts_of(compiled.root, {}, evaluated=True)
                conditions.extend(conditions_of(compiled.root, text, f"class {group.class_name}"))
        return known, conditions

    def _derived(self, given: ManifestObject, path: str, text: str, known: Facts, findings: Findings) -> None:
        compiled = self._compiler.derived(text)
        if isinstance(compiled, CompileError):
            _enter_issues(given, path, text, compiled, findings)
            return
        reader = _LintedExpression(given, path, compiled, findings)
        reader.cost()
        reader.mixed_up()
        reader.fields_of_values()
        reader.literals()
        reader.unguarded(known, "")


def _enter_issues(given: ManifestObject, path: str, text: str, error: CompileError, findings: Findings) -> None:
    for issue in error.issues:
        rule, hint = _hint(issue)
        at = max(issue.offset, 0)
        spot = TextRange(at, at + 1) if issue.offset >= 0 else TextRange(0, len(text))
        findings.add(rule, given.manifest, path, issue.message, hint=hint, spot=spot)
    if not error.issues:
        findings.add("cel-error", given.manifest, path, error.text, spot=TextRange(0, len(text)))


_APPLIED: Final = re.compile(r"no matching overload for '(\S+)' applied to '\((.*)\)'")


def _hint(issue: Issue) -> tuple[str, str]:
    """Return the rule for a compiler's message, and a hint on what to write instead; an empty one if there is none."""
    found = _APPLIED.search(issue.message)
    if found is None:
        return "cel-error", ""
    operator, types = found[1].strip("_"), found[2]
    if "kubernetes.Quantity" in types and operator in ("==", "!=", "<", "<=", ">", ">="):
        rule = "quantity-as-literal" if types.count("kubernetes.Quantity") == 1 and "any" not in types else "cel-error"
        rule = "attribute-as-quantity" if "any" in types or "dyn" in types else rule
        return (
            rule,
            f'quantities are compared as in device.capacity["DRIVER"].NAME.compareTo(quantity("40Gi")) {operator} 0',
        )
    if "map(string" in types and operator in ("==", "!=", "<", "<=", ">", ">="):
        return "unqualified-name", 'attributes have a domain: device.attributes["DRIVER"].NAME'
    if "kubernetes.Semver" in types:
        return (
            "cel-error",
            'versions are compared as in device.attributes["DRIVER"].NAME.isGreaterThan(semver("1.2.3"))',
        )
    return "cel-error", ""


@dataclass(frozen=True, slots=True)
class _LintedExpression:
    """One compiled expression in its place."""

    given: ManifestObject
    path: str
    compiled: Program
    findings: Findings

    def _add(self, rule: str, node: Expr, message: str, hint: str = "") -> None:
        self.findings.add(
            rule,
            self.given.manifest,
            self.path,
            message,
            hint=hint,
            spot=TextRange(node.start, max(node.end, node.start + 1)),
        )

    def _text(self, node: Expr) -> str:
        return self.compiled.source[node.start : node.end].strip()

    def cost(self) -> None:
        """Report an estimate near the limit; beyond it, the server's own error is reported."""
        cost = self.compiled.max_cost
        if NEAR <= cost <= COST_LIMIT:
            share = cost * 100 // COST_LIMIT
            why = f"the estimated cost, {cost:,}, is {share} % of the limit of {COST_LIMIT:,}"
            self._add("cel-cost", self.compiled.root, why, "ask simple conditions in a selector of their own, in front")

    def mixed_up(self) -> None:
        """Attributes used as quantities, versions compared as texts."""
        for node in walk(self.compiled.root):
            if not isinstance(node, CallExpr):
                continue
            target = read_of(node.target, {}) if node.target is not None else None
            if target is not None and target.map == "attributes" and _wants_quantity(node):
                why = f"{target} is an attribute, and {node.function} takes quantities: this fails on every device"
                hint = f'amounts are capacities: device.capacity["{target.domain}"].{target.name}'
                self._add("attribute-as-quantity", node.target or node, why, hint)
            if node.function in _ORDER and (text := _version_text(node)) is not None:
                side, value = text
                why = f'"{value}" is compared as a text, letter by letter: "1.10" comes before "1.9", and versions fail'
                method = "isGreaterThan" if ">" in node.function else "isLessThan"
                self._add("version-as-string", node, why, f"{self._text(side)}.{method}({semver_literal(value)})")

    def fields_of_values(self) -> None:
        """Report fields of attributes, as ``.model.string``: the value itself is what an expression sees."""
        for node in walk(self.compiled.root):
            path = path_of(node, {}) if isinstance(node, Select) else None
            if path is None or len(path.steps) != 4 or path.steps[0] not in MAPS:
                continue
            kind, domain, name, field = path.steps
            why = f"{domain}/{name} is a plain value without fields: reading {field} of it fails on every device"
            self._add("field-of-value", node, why, f'device.{kind}["{domain}"].{name}')

    def literals(self) -> None:
        """Report literals that the function that reads them refuses, as ``quantity("40GB")``."""
        for node in walk(self.compiled.root):
            if not isinstance(node, CallExpr) or node.target is not None or not node.function.isidentifier():
                continue
            if not node.args or not all(isinstance(one, Const) for one in node.args):
                continue
            # No variable is read, so that the result is the same on every device.
            outcome = program.compile_expression(self._text(node), self.compiled.environment).evaluate({})
            if outcome.error is not None:
                why = f"{self._text(node)} fails wherever it is evaluated: {outcome.error}"
                self._add("failing-literal", node, why, _mended(node))

    def unqualified(self, known: Facts) -> None:
        """Report domains that are no domains, and names with a domain where the domain is given already."""
        for node in walk(self.compiled.root):
            path, last = path_of(node, {}), ""
            if isinstance(node, CallExpr) and node.function == "@in" and isinstance(node.args[0], Const):
                path, last = path_of(node.args[1], {}), str(node.args[0].value)
            steps = (*path.steps, last) if path is not None and last else path.steps if path is not None else ()
            if len(steps) == 2 and steps[0] in MAPS and DriverFacts(steps[1]) not in known:
                if "/" in steps[1]:
                    domain, _, name = steps[1].partition("/")
                    self._add(
                        "unqualified-name", node, f'"{steps[1]}" is no domain', f'device.{steps[0]}["{domain}"].{name}'
                    )
                elif "." not in steps[1] and DriverFacts(steps[1]) not in facts_of(self.compiled.root, {}):
                    why = f'"{steps[1]}" is taken for a domain, and domains are DNS names, such as that of the driver'
                    self._add("unqualified-name", node, why, f'device.{steps[0]}["DRIVER"].{steps[1]}')
            elif len(steps) == 3 and steps[0] in MAPS and "/" in steps[2]:
                why = f'"{steps[2]}": names below a domain have none of their own'
                self._add(
                    "unqualified-name", node, why, f'device.{steps[0]}["{steps[1]}"].{steps[2].partition("/")[2]}'
                )

    def unguarded(self, known: Facts, unseen_class: str) -> None:
        """Reads that fail where the attribute is missing; ``unseen_class`` may be what makes sure of the driver."""
        for node, read in unguarded(self.compiled.root, known):
            why = f"fails on devices without {read}, and with it the scheduling of the pod on all nodes"
            if unseen_class:
                why += f", unless class {unseen_class}, which is not known here, keeps them out"
            guard = f'"{read.name}" in device.{read.map}["{read.domain}"] && …'
            self._add("unguarded-attribute", node, why, guard)

    def never_true(self, conditions: list[Condition]) -> None:
        """Report conditions that no device satisfies together with those evaluated before."""
        conflict = first_conflict(conditions)
        if conflict is None or conflict.later.origin or not self._is_mine(conflict.later):
            return
        later, earlier = conflict.later, conflict.earlier
        if later is earlier:
            self._add("never-true", later.node, f"{later.text} is never true")
            return
        where = f" of {earlier.origin}" if earlier.origin else ""
        self._add("never-true", later.node, f"{later.text} is never true together with {earlier.text}{where}")

    def _is_mine(self, condition: Condition) -> bool:
        return any(node is condition.node for node in walk(self.compiled.root))


def _wants_quantity(node: CallExpr) -> bool:
    """Return True if a method is certainly one of quantities: some are of versions, too."""
    if node.function in _QUANTITY_METHODS:
        return True
    if node.function not in _OF_QUANTITIES or not node.args:
        return False
    argument = node.args[0]
    return isinstance(argument, CallExpr) and argument.function == "quantity"


def semver_literal(text: str) -> str:
    """Return the version in CEL's form, completed to three numbers; "" for a text that is no version."""
    version = text if is_semver(text) else completed(text)
    return f'semver("{version}")' if version else ""


_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGTPE])(i?)[bB]")


def _mended(node: CallExpr) -> str:
    """Return the call with a literal that it reads; "" if it is not known what is meant."""
    first = node.args[0]
    text = first.value if isinstance(first, Const) and isinstance(first.value, str) else ""
    if node.function == "semver":
        return semver_literal(text)
    found = _AMOUNT.fullmatch(text) if node.function == "quantity" else None
    if found is None:
        return ""
    unit = found[2].upper() if found[3] or found[2] not in "kK" else "k"
    return f'quantity("{found[1]}{unit}{found[3]}")'


def _version_text(node: CallExpr) -> tuple[Expr, str] | None:
    """Return the attribute and the text if an attribute is compared with what looks like a version; otherwise None."""
    for one, other in (node.args, node.args[::-1]):
        if isinstance(other, Const) and isinstance(other.value, str) and _VERSION.fullmatch(other.value):
            read = read_of(one, {})
            if read is not None and read.map == "attributes":
                return one, other.value
    return None
