"""ValidatingAdmissionPolicies: what their expressions may mention, and what they decide.

A policy is compiled once (`compile_policy`) and asked per request (`CompiledPolicy.evaluate`). Everything here is pure:
the API server brings objects as plain JSON values and a function that answers permission checks, and applies the
decisions (docs/spec/cel.md §10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from cathedra.cel import program
from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type
from cathedra.cel.environment import Environment
from cathedra.cel.errors import CompileError
from cathedra.cel.library.authorizer import AccessAnswer, AccessQuestion, AuthorizerValue, Decide, ResourceCheck, User
from cathedra.cel.library.times import parse_timestamp
from cathedra.cel.program import Evaluation, Program
from cathedra.cel.values import Failure, Timestamp

__all__ = [
    "Annotation",
    "CompiledPolicy",
    "Input",
    "PolicyCompileError",
    "PolicyDecision",
    "Result",
    "compile_policy",
    "environment",
]

EXPRESSION_LIMIT: Final = 1_000_000
POLICY_BUDGET: Final = 10_000_000
CONDITION_BUDGET: Final = 2_500_000
MAX_MESSAGE: Final = 5 * 1024
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")

_TEXTS: Final = types.list_of(types.STRING)
_TEXT_MAP: Final = types.map_of(types.STRING, types.STRING)


def _texts(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, types.STRING)


_GVK: Final = types.struct("kubernetes.GroupVersionKind")
_GVR: Final = types.struct("kubernetes.GroupVersionResource")
_OBJECTS: Final[dict[str, dict[str, Type]]] = {
    "kubernetes.GroupVersionKind": _texts("group", "version", "kind"),
    "kubernetes.GroupVersionResource": _texts("group", "version", "resource"),
    "kubernetes.UserInfo": {
        **_texts("username", "uid"),
        "groups": _TEXTS,
        "extra": types.map_of(types.STRING, _TEXTS),
    },
    "kubernetes.AdmissionRequest": {
        **_texts("subResource", "requestSubResource", "name", "namespace", "operation"),
        "kind": _GVK,
        "resource": _GVR,
        "requestKind": _GVK,
        "requestResource": _GVR,
        "userInfo": types.struct("kubernetes.UserInfo"),
        "dryRun": types.BOOL,
        "options": types.DYN,
    },
    "kubernetes.NamespaceMetadata": {
        **_texts("name", "generateName", "namespace", "UID", "resourceVersion"),
        "labels": _TEXT_MAP,
        "annotations": _TEXT_MAP,
        "creationTimestamp": types.TIMESTAMP,
        "deletionTimestamp": types.TIMESTAMP,
        "deletionGracePeriodSeconds": types.INT,
        "generation": types.INT,
        "finalizers": _TEXTS,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _TEXTS},
    "kubernetes.NamespaceCondition": {
        **_texts("type", "status", "reason", "message"),
        "lastTransitionTime": types.TIMESTAMP,
    },
    "kubernetes.NamespaceStatus": {
        "phase": types.STRING,
        "conditions": types.list_of(types.struct("kubernetes.NamespaceCondition")),
    },
    "kubernetes.Namespace": {
        "metadata": types.struct("kubernetes.NamespaceMetadata"),
        "spec": types.struct("kubernetes.NamespaceSpec"),
        "status": types.struct("kubernetes.NamespaceStatus"),
    },
}
_VARIABLES: Final = "kubernetes.variables"


def environment(*, params: bool, authorizer: bool, variables: Mapping[str, Type] | None = None) -> Environment:
    """What an expression of a policy may mention; ``variables`` are the composed ones before it, by type."""
    declared: dict[str, Type] = {
        "object": types.DYN,
        "oldObject": types.DYN,
        "request": types.struct("kubernetes.AdmissionRequest"),
        "namespaceObject": types.struct("kubernetes.Namespace"),
    }
    if params:
        declared["params"] = types.DYN
    if authorizer:
        declared["authorizer"] = types.AUTHORIZER
        declared["authorizer.requestResource"] = types.RESOURCE_CHECK
    objects: dict[str, Mapping[str, Type]] = dict(_OBJECTS)
    if variables is not None:
        declared["variables"] = types.struct(_VARIABLES)
        objects[_VARIABLES] = dict(variables)
    return Environment(variables=declared, objects=objects)


@dataclass(frozen=True, slots=True)
class PolicyCompileError:
    """What validation says about one field of a policy's spec: path, reason (`FieldValueInvalid`, …), text."""

    field: str
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}: {self.text}"


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """What a policy decides about one request (one per validation)."""

    action: Literal["admit", "deny"]
    evaluation: Literal["admit", "deny", "error"]
    message: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Annotation:
    """An audit annotation, to be published, left out, or in error."""

    key: str
    action: Literal["publish", "exclude", "error"]
    value: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """All decisions and audit annotations; empty when a match condition is false."""

    decisions: tuple[PolicyDecision, ...] = ()
    annotations: tuple[Annotation, ...] = ()


def _deny_all(_: AccessQuestion) -> AccessAnswer:
    return AccessAnswer(allowed=False)


@dataclass(frozen=True, slots=True)
class Input:
    """A request as expressions see it. Objects are plain JSON values; ``request`` is an AdmissionRequest without
    objects.

    ``request`` needs ``kind``, ``resource`` (mappings), ``operation``, ``name`` and ``userInfo``; empty fields are left
    out.
    """

    request: Mapping[str, Any]
    object: Any = None
    old_object: Any = None
    params: Any = None
    namespace: Mapping[str, Any] | None = None
    decide: Decide = field(default=_deny_all)
    interrupted: Callable[[], bool] | None = None
    """Whether the evaluation has taken too long (`cathedra.cel.interruption`); without it only the cost counts."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    source: str
    program: Program | None
    error: str
    reason: str = "FieldValueInvalid"


def _compile(source: str, declared: Environment, wanted: Sequence[Type]) -> _Compiled:
    try:
        compiled = program.compile_expression(source, declared)
        if wanted and compiled.type not in wanted:
            names = " ".join(one.name for one in wanted)
            needed = names if len(wanted) == 1 else f"one of [{names}]"
            raise CompileError("RuleInvalid", f"must evaluate to {needed} but got {compiled.type.declared}")
        compiled.instantiate()
    except CompileError as error:
        reason = "InternalError" if error.type == "InternalError" else "FieldValueInvalid"
        return _Compiled(source, None, error.text, reason)
    return _Compiled(source, compiled, "")


class _Budget:
    def __init__(self, amount: int, interrupted: Callable[[], bool] | None) -> None:
        self.left = amount
        self.interrupted = interrupted
        self.composed = 0


class _Exhausted(Exception):
    pass


class CompiledPolicy:
    """A policy's expressions, compiled. ``errors`` is what creating the policy would report; it can run
    nevertheless."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.fails = spec.get("failurePolicy", "Fail") != "Ignore"
        self.validations: Sequence[Mapping[str, Any]] = spec.get("validations") or ()
        params = bool(spec.get("paramKind"))
        self.variables: dict[str, _Compiled] = {}
        known: dict[str, Type] = {}
        for variable in spec.get("variables") or ():
            declared = environment(params=params, authorizer=True, variables=known)
            compiled = _compile(variable["expression"], declared, ())
            self.variables[variable["name"]] = compiled
            known[variable["name"]] = compiled.program.type if compiled.program is not None else types.DYN
        full = environment(params=params, authorizer=True, variables=known)
        silent = environment(params=params, authorizer=False, variables=known)
        self.conditions = [_compile(c["expression"], full, (types.BOOL,)) for c in spec.get("matchConditions") or ()]
        self.rules = [_compile(v["expression"], full, (types.BOOL,)) for v in self.validations]
        self.messages = [
            _compile(v["messageExpression"], silent, (types.STRING,)) if v.get("messageExpression") else None
            for v in self.validations
        ]
        annotations = spec.get("auditAnnotations") or ()
        self.keys = [a["key"] for a in annotations]
        self.annotations = [_compile(a["valueExpression"], full, (types.STRING, types.NULL)) for a in annotations]
        self.errors = tuple(self._errors(spec, params=params))

    def _errors(self, spec: Mapping[str, Any], *, params: bool) -> list[PolicyCompileError]:
        found: list[PolicyCompileError] = []

        def add(path: str, compiled: _Compiled) -> None:
            if compiled.error:
                found.append(PolicyCompileError(f"spec.{path}", compiled.reason, compiled.error))

        plain = environment(params=params, authorizer=True)
        for position, condition in enumerate(spec.get("matchConditions") or ()):
            path = f"matchConditions[{position}].expression"
            add(path, _compile(condition["expression"], plain, (types.BOOL,)))
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
        error = self._refused_by_conditions(given)
        if error is not None:
            return self._whole(error) if error else Result()
        budget = _Budget(POLICY_BUDGET, given.interrupted)
        values = _Values(self, given, budget)
        with_authorizer, without = values.all(), values.without_authorizer()
        try:
            outcomes = [self._run(rule, with_authorizer, budget) for rule in self.rules]
        except _Exhausted:
            return self._whole(_OUT_OF_BUDGET)
        failed = ""
        messages: list[Evaluation | None] = []
        try:
            messages = [self._run(m, without, budget) if m is not None else None for m in self.messages]
        except _Exhausted:
            failed = f"failed messageExpression: {_OUT_OF_BUDGET}"
        decisions = []
        for position, outcome in enumerate(outcomes):
            message = messages[position] if position < len(messages) else None
            decisions.append(self._decision(position, outcome, message, failed))
        annotation_budget = _Budget(POLICY_BUDGET, given.interrupted)
        annotation_values = _Values(self, given, annotation_budget).without_authorizer()
        try:
            found = [self._annotation(p, annotation_values, annotation_budget) for p in range(len(self.keys))]
        except _Exhausted:
            return self._whole(_OUT_OF_BUDGET)
        return Result(tuple(decisions), tuple(found))

    def _whole(self, error: str) -> Result:
        return Result((PolicyDecision("deny" if self.fails else "admit", "error", error),))

    def _refused_by_conditions(self, given: Input) -> str | None:
        """None if the policy applies, "" if it does not, else the error that decides."""
        if not self.conditions:
            return None
        budget = _Budget(CONDITION_BUDGET, given.interrupted)
        values = _Values(self, given, budget).for_conditions()
        errors = []
        for condition in self.conditions:
            try:
                outcome = self._run(condition, values, budget)
            except _Exhausted:
                errors = [_OUT_OF_BUDGET]
                break
            if outcome.error is not None:
                errors.append(outcome.error)
            elif outcome.value is False:
                return ""
        if not errors:
            return None
        if not self.fails:
            return ""
        unique = list(dict.fromkeys(errors))
        return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"

    def _run(self, compiled: _Compiled, values: Mapping[str, Any], budget: _Budget) -> Evaluation:
        if compiled.program is None:
            return Evaluation(None, f"compilation error: {compiled.error}", 0)
        outcome = compiled.program.evaluate(values, EXPRESSION_LIMIT, budget.interrupted)
        spent = outcome.cost + budget.composed
        budget.composed = 0
        if spent > budget.left:
            raise _Exhausted
        budget.left -= spent
        if outcome.error is not None:
            text = f"expression '{compiled.source}' resulted in error: {outcome.error}"
            return Evaluation(None, text, outcome.cost)
        return outcome

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

    def _annotation(self, position: int, values: Mapping[str, Any], budget: _Budget) -> Annotation:
        key = self.keys[position]
        outcome = self._run(self.annotations[position], values, budget)
        if outcome.error is not None:
            return Annotation(key, "error" if self.fails else "exclude", error=outcome.error)
        if outcome.value is None:
            return Annotation(key, "exclude")
        value = str(outcome.value).strip()
        return Annotation(key, "publish", value=value) if value else Annotation(key, "exclude")


class _Values:
    """The variables of one evaluation; composed ones are computed when first used and charged then."""

    def __init__(self, policy: CompiledPolicy, given: Input, budget: _Budget) -> None:
        self.policy, self.given, self.budget = policy, given, budget
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

    def base(self) -> dict[str, Any]:
        given = self.given
        return {
            "object": given.object,
            "oldObject": given.old_object,
            "request": dict(given.request),
            "params": given.params,
            "namespaceObject": _namespace(given.namespace),
        }

    def all(self) -> dict[str, Any]:
        values = self.without_authorizer()
        values["authorizer"] = self.authorizer
        values["authorizer.requestResource"] = self.request_resource
        values["variables"] = _Composed(self.policy, values, self.budget)
        return values

    def without_authorizer(self) -> dict[str, Any]:
        values = self.base()
        values["variables"] = _Composed(self.policy, values, self.budget)
        return values

    def for_conditions(self) -> dict[str, Any]:
        values = self.all()
        values["namespaceObject"] = None
        return values


class _Composed(dict[str, Any]):
    """``variables``: a map whose values are made when they are looked up."""

    def __init__(self, policy: CompiledPolicy, values: Mapping[str, Any], budget: _Budget) -> None:
        super().__init__()
        self.policy, self.values_of, self.budget = policy, values, budget

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a variable, or its failure."""
        if key in self:
            return self[key]
        compiled = self.policy.variables.get(key)
        if compiled is None:
            return default
        self[key] = value = self._compute(key, compiled)
        return value

    def _compute(self, name: str, compiled: _Compiled) -> Any:
        if compiled.program is None:
            return Failure(f'composited variable "{name}" fails to compile: {compiled.error}')
        outcome = compiled.program.evaluate(self.values_of, EXPRESSION_LIMIT, self.budget.interrupted)
        self.budget.composed += outcome.cost
        if outcome.error is not None:
            return Failure(f'composited variable "{name}" fails to evaluate: {outcome.error}')
        return outcome.value


_TIMES: Final = ("creationTimestamp", "deletionTimestamp", "lastTransitionTime")
_NAMESPACE_METADATA: Final = frozenset(_OBJECTS["kubernetes.NamespaceMetadata"]) | {"uid"}


def _namespace(given: Mapping[str, Any] | None) -> Any:
    if given is None:
        return None
    metadata = {k: v for k, v in (given.get("metadata") or {}).items() if k in _NAMESPACE_METADATA}
    visible = {"metadata": metadata, "spec": given.get("spec") or {}, "status": given.get("status") or {}}
    return _with_times(visible)


def _with_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _moment(v) if k in _TIMES and isinstance(v, str) else _with_times(v) for k, v in value.items()}
    return [_with_times(one) for one in value] if isinstance(value, (list, tuple)) else value


def _moment(text: str) -> Any:
    parsed = parse_timestamp(text)
    return parsed if isinstance(parsed, Timestamp) else text


def compile_policy(spec: Mapping[str, Any]) -> CompiledPolicy:
    """Compile a policy's spec, given as its JSON form. Never raises for what a user wrote: see ``errors``."""
    return CompiledPolicy(spec)


PolicyFunction = Callable[[Input], Result]
"""What the API server keeps per policy."""
