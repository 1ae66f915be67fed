"""The values that a policy's expressions read of a request, and the match conditions that decide whether it applies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from cathedra.cel.admission._declarations import NAMESPACE_METADATA
from cathedra.cel.admission._expressions import EXPRESSION_LIMIT, BudgetExhausted, CostBudget, Expression
from cathedra.cel.library.authorizer import AccessAnswer, AccessQuestion, AuthorizerValue, Decide, ResourceCheck, User
from cathedra.cel.library.times import parse_timestamp
from cathedra.cel.values import CELValue, Failure, Timestamp


def _deny_all(_: AccessQuestion) -> AccessAnswer:
    return AccessAnswer(allowed=False)


class Input(msgspec.Struct, frozen=True):
    """A request as expressions see it. Objects are plain JSON values; ``request`` is an AdmissionRequest without
    objects.

    ``request`` needs ``kind``, ``resource`` (mappings), ``operation``, ``name`` and ``userInfo``; empty fields are left
    out.
    """

    request: Mapping[str, CELValue]
    object: CELValue = None
    old_object: CELValue = None
    params: CELValue = None
    namespace: Mapping[str, CELValue] | None = None
    decide: Decide = msgspec.field(default=_deny_all)
    interrupted: Callable[[], bool] | None = None
    """True if the evaluation has taken too long (`cathedra.cel.interruption`); without it only the cost counts."""


class RequestValues:
    """The variables of one evaluation; composed ones are computed when first used and charged then."""

    def __init__(self, variables: Mapping[str, Expression], given: Input, budget: CostBudget) -> None:
        self.variables, self.given, self.budget = variables, given, budget
        user = given.request.get("userInfo") or {}
        extra = tuple((k, tuple(v)) for k, v in (user.get("extra") or {}).items())
        asked = AccessQuestion(
            User(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups") or ()), extra)
        )
        resource = given.request.get("resource") or {}
        self.authorizer = AuthorizerValue(given.decide, asked)
        self.request_resource = ResourceCheck(
            given.decide,
            AccessQuestion(
                asked.user,
                group=resource.get("group", ""),
                resource=resource.get("resource", ""),
                subresource=given.request.get("subResource", ""),
                namespace=given.request.get("namespace", ""),
                name=given.request.get("name", ""),
            ),
        )

    def _base(self) -> dict[str, CELValue]:
        given = self.given
        return {
            "object": given.object,
            "oldObject": given.old_object,
            "request": dict(given.request),
            "params": given.params,
            "namespaceObject": _namespace(given.namespace),
        }

    def all(self) -> dict[str, CELValue]:
        """With the authorizer and the composed variables."""
        values = self.without_authorizer()
        values["authorizer"] = self.authorizer
        values["authorizer.requestResource"] = self.request_resource
        values["variables"] = _Composed(self.variables, values, self.budget)
        return values

    def without_authorizer(self) -> dict[str, CELValue]:
        """Return the values for messages and annotations."""
        values = self._base()
        values["variables"] = _Composed(self.variables, values, self.budget)
        return values

    def for_conditions(self) -> dict[str, CELValue]:
        """Return the values for match conditions."""
        values = self.all()
        values["namespaceObject"] = None
        return values


class _Composed(dict[str, CELValue]):
    """``variables``: a map whose values are made when they are looked up."""

    def __init__(self, variables: Mapping[str, Expression], values: Mapping[str, CELValue], budget: CostBudget) -> None:
        super().__init__()
        self.variables, self.values_of, self.budget = variables, values, budget

    def get(self, key: CELValue, default: CELValue = None) -> CELValue:
        """Return the value of a variable, computed once, or its failure; ``default`` for an unknown name."""
        if key in self:
            return self[key]
        compiled = self.variables.get(key)
        if compiled is None:
            return default
        self[key] = value = self._compute(key, compiled)
        return value

    def _compute(self, name: str, compiled: Expression) -> CELValue:
        if compiled.program is None:
            return Failure(f'composited variable "{name}" fails to compile: {compiled.error}')
        outcome = compiled.program.evaluate(self.values_of, EXPRESSION_LIMIT, self.budget.interrupted)
        self.budget.composed += outcome.cost
        if outcome.error is not None:
            return Failure(f'composited variable "{name}" fails to evaluate: {outcome.error}')
        return outcome.value


_TIMES: Final = ("creationTimestamp", "deletionTimestamp", "lastTransitionTime")


def _namespace(given: Mapping[str, CELValue] | None) -> CELValue:
    if given is None:
        return None
    metadata = {k: v for k, v in (given.get("metadata") or {}).items() if k in NAMESPACE_METADATA}
    visible = {"metadata": metadata, "spec": given.get("spec") or {}, "status": given.get("status") or {}}
    return _with_times(visible)


def _with_times(value: CELValue) -> CELValue:
    if isinstance(value, Mapping):
        return {k: _moment(v) if k in _TIMES and isinstance(v, str) else _with_times(v) for k, v in value.items()}
    return [_with_times(one) for one in value] if isinstance(value, (list, tuple)) else value


def _moment(text: str) -> CELValue:
    parsed = parse_timestamp(text)
    return parsed if isinstance(parsed, Timestamp) else text


CONDITION_BUDGET: Final = 2_500_000
OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


def objection(
    conditions: Sequence[Expression], variables: Mapping[str, Expression], given: Input, *, fails: bool
) -> str | None:
    """Return None if all conditions hold, "" if one does not, else the error that decides; where the policy does not
    fail on errors, an error is a condition that does not hold."""
    if not conditions:
        return None
    budget = CostBudget(CONDITION_BUDGET, given.interrupted)
    values: Mapping[str, CELValue] = RequestValues(variables, given, budget).for_conditions()
    errors: list[str] = []
    for condition in conditions:
        try:
            outcome = condition.run(values, budget)
        except BudgetExhausted:
            errors = [OUT_OF_BUDGET]
            break
        if outcome.error is not None:
            errors.append(outcome.error)
        elif outcome.value is False:
            return ""
    if not errors:
        return None
    if not fails:
        return ""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
