"""ValidatingAdmissionPolicies: an administrator's rules in CEL (docs/spec/apimachinery.md §16.6;
docs/spec/cel.md §10).

`cathedra.cel.admission` evaluates expressions. This module finds the bound policies that match a request and their
parameters, and turns decisions into refusals, warnings and audit annotations. CEL is imported with the first policy: a
server without any starts faster.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cathedra.api.core.admissionregistration_v1 import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from cathedra.api.core.meta_v1 import StatusCause, StatusDetails
from cathedra.api.field import ErrorList
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, failure, forbidden, invalid
from cathedra.api.struct import replace, to_dict
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.matching import Matcher, may_match
from cathedra.apiserver.admission.metrics import AdmissionMetrics
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.admission.policies.bound import BoundPolicies, BoundPolicy, compiled_in_time
from cathedra.apiserver.admission.policies.parameters import Misconfigured, ParameterAccess, Parameters
from cathedra.apiserver.admission.policies.policyerrors import binding_errors, policy_errors
from cathedra.apiserver.admission.versioned import VersionedAttributes, size_of
from cathedra.apiserver.authorization.authorizer import Authorizer
from cathedra.apiserver.computation import EXPRESSION_SECONDS, Computations, Limit
from cathedra.apiserver.registry.registry import Registry
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

if TYPE_CHECKING:
    from cathedra.cel.admission import CompiledPolicy, Input, PolicyDecision, Result

_GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = GroupResource(_GROUP, "validatingadmissionpolicies")
BINDINGS: Final = GroupResource(_GROUP, "validatingadmissionpolicybindings")
_CODES: Final = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}
_FAILURE_ANNOTATION: Final = "validation.policy.admission.k8s.io/validation_failure"


Policy = BoundPolicy[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding]


class _Evaluation(msgspec.Struct, frozen=True):
    """A policy to be evaluated for one of its bindings and one parameter object."""

    policy: Policy
    compiled: Any
    """A `cathedra.cel.admission.CompiledPolicy`, whose type would load CEL."""
    binding: ValidatingAdmissionPolicyBinding
    given: Any
    """Input of the expressions, a `cathedra.cel.admission.Input`."""


class _Denial(msgspec.Struct, frozen=True):
    """A refusal of a request by a policy and its binding."""

    policy: str
    binding: str
    message: str
    reason: str = ""

    @property
    def text(self) -> str:
        with_binding = f" with binding '{self.binding}'" if self.binding else ""
        return f"ValidatingAdmissionPolicy '{self.policy}'{with_binding} denied request: {self.message}"


class PolicyCheck(AdmissionPlugin):
    """Evaluates every bound policy."""

    name = "ValidatingAdmissionPolicy"
    rules = frozenset({POLICIES, BINDINGS})

    def __init__(
        self,
        registry: Registry,
        authorizer: Authorizer,
        kinds: Callable[[], Iterator[AnyDefinition]],
        computations: Computations,
        metrics: AdmissionMetrics,
    ) -> None:
        """``kinds`` lists what is served, to find parameters of any kind."""
        self._computations = computations
        self._metrics = metrics
        self._authorizer = authorizer
        self._parameters = Parameters(registry, kinds)
        self._access = ParameterAccess(registry, authorizer, kinds, POLICIES)
        self._matcher = Matcher(registry)
        self._bound: BoundPolicies[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, CompiledPolicy]
        self._bound = BoundPolicies(registry, POLICIES, BINDINGS, _compile, computations)

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle policies and bindings themselves, and what a bound policy may match."""
        return definition.group == _GROUP or any(
            may_match(policy.object.spec.match_constraints, definition, subresource, operation)
            for policy in self._bound()
        )

    async def validate(self, request: AdmissionAttributes) -> None:
        """Evaluate the policies that match the request.

        Raises:
            StatusError: the first denial, with the code that its reason stands for; 422, a policy or binding that is
                written breaks the rules.
        """
        if request.definition.group == _GROUP:
            await self._check_rules(request)
            # Policies do not apply to policies and bindings: one that denies everything could not be removed.
            return
        policies = self._bound()
        if not policies:
            return
        view = VersionedAttributes(request)
        steps = [one for policy in policies async for one in self._evaluations(policy, request, view)]
        evaluations = [one for one in steps if isinstance(one, _Evaluation)]
        results = iter(await self._evaluated(request, evaluations) if evaluations else ())
        outcome = _PolicyOutcome(self._metrics)
        for one in steps:
            if isinstance(one, _Evaluation):
                outcome.add(one, next(results))
            else:
                outcome.denials.append(one)
        # Warnings and annotations are published even if another policy denies the request.
        outcome.publish(request)
        if outcome.denials:
            raise _refusal(request, outcome.denials[0])

    async def _check_rules(self, request: AdmissionAttributes) -> None:
        if request.operation not in {"CREATE", "UPDATE"} or request.subresource:
            return
        obj, definition = request.object, request.definition
        errors: ErrorList = ErrorList()
        if definition.group_resource == POLICIES:
            errors = await compiled_in_time(
                self._computations, request.user.name, lambda check: policy_errors(obj, check)
            )
            errors = errors or self._access.policy_errors(request)
        elif definition.group_resource == BINDINGS:
            errors = binding_errors(obj) or self._access.binding_errors(request)
        if errors:
            raise invalid(definition.group, definition.kind, obj.metadata.name, errors)

    async def _evaluated(self, request: AdmissionAttributes, evaluations: list[_Evaluation]) -> list[Result]:
        """Evaluate policies beside the event loop, all within the processor time of one request."""

        def evaluate(limit: Limit) -> list[Result]:
            return [one.compiled.evaluate(msgspec.structs.replace(one.given, interrupted=limit)) for one in evaluations]

        # Expressions of an administrator run over objects of any user: without a limit one request could stop the
        # event loop for minutes.
        allowance = self._computations.allowance(request.user.name, EXPRESSION_SECONDS)
        return await allowance.complete(evaluate, size=size_of(request))

    async def _evaluations(
        self, policy: Policy, request: AdmissionAttributes, view: VersionedAttributes
    ) -> AsyncIterator[_Evaluation | _Denial]:
        """Evaluations that a policy needs, or the reason why it refuses without them."""
        name = policy.object.metadata.name
        spec = policy.object.spec
        try:
            version = self._matcher.resources(spec.match_constraints, request)
        except StatusError as error:
            if _fails(policy):
                yield _Denial(name, "", f"failed to configure policy: {error.status.message}")
            return
        if version is None:
            return
        for binding in policy.bindings:
            try:
                if self._matcher.resources(binding.spec.match_resources, request) is None:
                    continue
                params = await self._parameters.of(policy.object.spec.param_kind, binding.spec.param_ref, request)
            except (Misconfigured, StatusError) as error:
                if _fails(policy):
                    yield _Denial(name, binding.metadata.name, f"failed to configure binding: {error}")
                continue
            try:
                await view.convert(version)
            except StatusError as error:
                if _fails(policy):
                    why = f"failed to configure binding: failed to convert object version: {error.status.message}"
                    yield _Denial(name, binding.metadata.name, why)
                continue
            given = self._input(request, view, version)
            compiled = await self._bound.compiled(policy, request.user.name)
            for param in params:
                yield _Evaluation(policy, compiled, binding, msgspec.structs.replace(given, params=param))

    def _input(self, request: AdmissionAttributes, view: VersionedAttributes, version: VersionDefinition) -> Input:
        from cathedra.apiserver.authorization.celauthorizer import decider  # start-up time: CEL, with the first policy
        from cathedra.cel.admission import Input  # start-up time: as above

        namespace = self._matcher.namespace(request)
        return Input(
            request=view.attributes(version),
            object=view.object(version),
            old_object=view.old_object(version),
            namespace=to_dict(namespace) if namespace is not None else None,
            decide=decider(self._authorizer),
        )


class _PolicyOutcome:
    """Outcome of the decisions of policies about one request."""

    def __init__(self, metrics: AdmissionMetrics) -> None:
        self._metrics = metrics
        self.denials: list[_Denial] = []
        self._failures: list[JSONObject] = []
        self._warnings: list[str] = []
        self._annotations: dict[str, str] = {}

    def add(self, evaluation: _Evaluation, result: Result) -> None:
        """Add the result of one evaluation."""
        binding = evaluation.binding
        name, bound, actions = evaluation.policy.name, binding.metadata.name, binding.spec.validation_actions
        for position, decision in enumerate(result.decisions):
            if decision.action != "deny":
                continue
            for action in actions:
                self._metrics.checked(name, bound, "no_error", action.lower())
            if "Audit" in actions:
                self._failures.append(_failure(name, bound, position, decision, actions))
            if "Warn" in actions:
                self._warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{bound}': "
                    f"{decision.message}"
                )
            if "Deny" in actions:
                self.denials.append(_Denial(name, bound, decision.message, decision.reason))
        for annotation in result.annotations:
            if annotation.action == "publish":
                self._annotations[f"{name}/{annotation.key}"] = annotation.value
            elif annotation.action == "error" and "Deny" in actions:
                self.denials.append(_Denial(name, bound, annotation.error))

    def publish(self, request: AdmissionAttributes) -> None:
        """Write warnings and audit annotations."""
        request.warnings.extend(self._warnings)
        request.annotations.update(self._annotations)
        if self._failures:
            before = json.loads(request.annotations.get(_FAILURE_ANNOTATION, "[]"))
            request.annotations[_FAILURE_ANNOTATION] = json.dumps(before + self._failures)


def _compile(spec: JSONObject, check: Callable[[], object]) -> CompiledPolicy:
    from cathedra.cel.admission import compile_policy  # start-up time: as above

    return compile_policy(spec, check)


def _fails(policy: Policy) -> bool:
    """Return True if it refuses when it cannot be applied."""
    return policy.object.spec.failure_policy != "Ignore"


def _refusal(request: AdmissionAttributes, denial: _Denial) -> StatusError:
    error = forbidden(request.definition.group_resource, request.name, denial.text)
    reason = denial.reason or "Invalid"
    details = replace(error.status.details or StatusDetails(), causes=(StatusCause(message=denial.text),))
    return failure(_CODES.get(reason, 422), reason, error.status.message, details)


def _failure(
    policy: str, binding: str, position: int, decision: PolicyDecision, actions: tuple[str, ...]
) -> JSONObject:
    """Return a violation in the form of the audit annotation."""
    return {
        "message": decision.message,
        "policy": policy,
        "binding": binding,
        "expressionIndex": position,
        "validationActions": list(actions),
    }
