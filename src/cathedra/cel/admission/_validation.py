"""Decisions of ValidatingAdmissionPolicies on a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from cathedra.cel.admission._declarations import environment
from cathedra.cel.admission._expressions import (
    BudgetExhausted,
    CostBudget,
    Expression,
    PolicyCompileError,
    compile_one,
    compile_variables,
)
from cathedra.cel.admission._inputs import OUT_OF_BUDGET, Input, RequestValues, objection
from cathedra.cel.checking import types
from cathedra.cel.program import Evaluation

POLICY_BUDGET: Final = 10_000_000
MAX_MESSAGE: Final = 5 * 1024
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")


class PolicyDecision(msgspec.Struct, frozen=True):
    """Decision of a policy about one request, one for each validation."""

    action: Literal["admit", "deny"]
    evaluation: Literal["admit", "deny", "error"]
    message: str = ""
    reason: str = ""


class Annotation(msgspec.Struct, frozen=True):
    """An audit annotation, to be published, left out, or in error."""

    key: str
    action: Literal["publish", "exclude", "error"]
    value: str = ""
    error: str = ""


class Result(msgspec.Struct, frozen=True):
    """All decisions and audit annotations; empty when a match condition is false."""

    decisions: tuple[PolicyDecision, ...] = ()
    annotations: tuple[Annotation, ...] = ()


class CompiledPolicy:
    """A policy's expressions, compiled. ``errors`` is what creating the policy would report; it can run
    nevertheless."""

    def __init__(self, spec: Mapping[str, Any], check: Callable[[], object] = bool) -> None:
        self.fails = spec.get("failurePolicy", "Fail") != "Ignore"
        self.validations: Sequence[Mapping[str, Any]] = spec.get("validations") or ()
        params = bool(spec.get("paramKind"))
        self.variables, known = compile_variables(spec.get("variables") or (), check, params=params)
        full = environment(params=params, authorizer=True, variables=known)
        silent = environment(params=params, authorizer=False, variables=known)
        self.conditions = []
        for condition in spec.get("matchConditions") or ():
            check()
            self.conditions.append(compile_one(condition["expression"], full, (types.BOOL,)))
        self.rules = []
        for validation in self.validations:
            check()
            self.rules.append(compile_one(validation["expression"], full, (types.BOOL,)))
        self.messages: list[Expression | None] = []
        for validation in self.validations:
            check()
            source = validation.get("messageExpression")
            self.messages.append(compile_one(source, silent, (types.STRING,)) if source else None)
        annotations = spec.get("auditAnnotations") or ()
        self.keys = [a["key"] for a in annotations]
        self.annotations = [compile_one(a["valueExpression"], full, (types.STRING, types.NULL)) for a in annotations]
        check()
        self.errors = tuple(self._errors(spec, params=params))

    def _errors(self, spec: Mapping[str, Any], *, params: bool) -> list[PolicyCompileError]:
        found: list[PolicyCompileError] = []

        def add(path: str, compiled: Expression) -> None:
            if compiled.error:
                found.append(PolicyCompileError(f"spec.{path}", compiled.reason, compiled.error))

        plain = environment(params=params, authorizer=True)
        for position, condition in enumerate(spec.get("matchConditions") or ()):
            # An empty expression is reported as missing, by the rules of the kind.
            if condition["expression"].strip():
                path = f"matchConditions[{position}].expression"
                add(path, compile_one(condition["expression"], plain, (types.BOOL,)))
        for position, compiled in enumerate(self.variables.values()):
            add(f"variables[{position}].expression", compiled)
        for position, rule in enumerate(self.rules):
            path = f"validations[{position}]"
            add(f"{path}.expression", rule)
            self._message_errors(f"spec.{path}", self.validations[position], found)
            message = self.messages[position]
            if message is not None:
                add(f"{path}.messageExpression", message)
            reason = self.validations[position].get("reason")
            if reason is not None and reason not in _REASONS:
                names = ", ".join(f'"{name}"' for name in _REASONS)
                found.append(
                    PolicyCompileError(f"spec.{path}.reason", "FieldValueNotSupported", f"supported values: {names}")
                )
        for position, compiled in enumerate(self.annotations):
            add(f"auditAnnotations[{position}].valueExpression", compiled)
        return found

    def _message_errors(self, path: str, validation: Mapping[str, Any], found: list[PolicyCompileError]) -> None:
        message = validation.get("message", "")
        if "\n" in message:
            found.append(PolicyCompileError(f"{path}.message", "FieldValueInvalid", "must not contain line breaks"))

    def evaluate(self, given: Input) -> Result:
        """Decide about one request, with one parameter object."""
        error = objection(self.conditions, self.variables, given, fails=self.fails)
        if error is not None:
            return self._whole(error) if error else Result()
        budget = CostBudget(POLICY_BUDGET, given.interrupted)
        values = RequestValues(self.variables, given, budget)
        with_authorizer, without = values.all(), values.without_authorizer()
        try:
            outcomes = [rule.run(with_authorizer, budget) for rule in self.rules]
        except BudgetExhausted:
            return self._whole(OUT_OF_BUDGET)
        failed = ""
        messages: list[Evaluation | None] = []
        try:
            messages = [m.run(without, budget) if m is not None else None for m in self.messages]
        except BudgetExhausted:
            failed = f"failed messageExpression: {OUT_OF_BUDGET}"
        decisions = []
        for position, outcome in enumerate(outcomes):
            message = messages[position] if position < len(messages) else None
            decisions.append(self._decision(position, outcome, message, failed))
        annotation_budget = CostBudget(POLICY_BUDGET, given.interrupted)
        annotation_values = RequestValues(self.variables, given, annotation_budget).without_authorizer()
        try:
            found = [self._annotation(p, annotation_values, annotation_budget) for p in range(len(self.keys))]
        except BudgetExhausted:
            return self._whole(OUT_OF_BUDGET)
        return Result(tuple(decisions), tuple(found))

    def _whole(self, error: str) -> Result:
        return Result((PolicyDecision("deny" if self.fails else "admit", "error", error),))

    def _decision(self, position: int, outcome: Evaluation, message: Evaluation | None, failed: str) -> PolicyDecision:
        error = outcome.error if outcome.error is not None else failed
        if error:
            return PolicyDecision("deny" if self.fails else "admit", "error", error)
        if outcome.value is True:
            return PolicyDecision("admit", "admit")
        validation = self.validations[position]
        text = ""
        if message is not None and message.error is None and isinstance(message.value, str):
            text = message.value.strip()
            if len(text.encode("utf-8", "surrogatepass")) > MAX_MESSAGE or "\n" in text:
                text = ""
        text = text or str(validation.get("message") or "").strip()
        text = text or f"failed expression: {validation['expression'].strip()}"
        return PolicyDecision("deny", "deny", text, validation.get("reason") or "Invalid")

    def _annotation(self, position: int, values: Mapping[str, Any], budget: CostBudget) -> Annotation:
        key = self.keys[position]
        outcome = self.annotations[position].run(values, budget)
        if outcome.error is not None:
            return Annotation(key, "error" if self.fails else "exclude", error=outcome.error)
        if outcome.value is None:
            return Annotation(key, "exclude")
        value = str(outcome.value).strip()
        return Annotation(key, "publish", value=value) if value else Annotation(key, "exclude")


def compile_policy(spec: Mapping[str, Any], check: Callable[[], object] = bool) -> CompiledPolicy:
    """Compile a policy's spec, given as its JSON form. Never raises for what a user wrote: see ``errors``. ``check`` is
    called between expressions, and may raise an exception."""
    return CompiledPolicy(spec, check)
