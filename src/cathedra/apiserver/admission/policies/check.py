"""ValidatingAdmissionPolicies: an administrator's rules in CEL (docs/spec/apimachinery.md §16.6;
docs/spec/cel.md §10).

What an expression means is the business of `cathedra.cel.admission`; here are the policies that exist, the requests
that they are about, their parameters, and what follows from their decisions.
CEL is imported with the first policy: a server without any starts faster.
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
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.admission.policies.bound import BoundPolicies, BoundPolicy
from cathedra.apiserver.admission.policies.parameters import Misconfigured, ParameterAccess, Parameters
from cathedra.apiserver.admission.policies.policyerrors import binding_errors, policy_errors
from cathedra.apiserver.admission.versioned import VersionedAttributes
from cathedra.apiserver.authorization.authorizer import Authorizer
from cathedra.apiserver.registry.registry import Registry
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

if TYPE_CHECKING:
    from cathedra.cel.admission import CompiledPolicy, PolicyDecision

__all__ = ["BINDINGS", "POLICIES", "PolicyCheck"]

_GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = GroupResource(_GROUP, "validatingadmissionpolicies")
BINDINGS: Final = GroupResource(_GROUP, "validatingadmissionpolicybindings")
_CODES: Final = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}
_FAILURE_ANNOTATION: Final = "validation.policy.admission.k8s.io/validation_failure"


class _Asking(msgspec.Struct, frozen=True):
    """A request on its way through all policies, with the processor time that they share."""

    request: AdmissionAttributes
    view: VersionedAttributes
    interrupted: Callable[[], bool]


Policy = BoundPolicy[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, "CompiledPolicy"]


class _Denial(msgspec.Struct, frozen=True):
    """Why a request is refused, and by whom."""

    policy: str
    binding: str
    message: str
    reason: str = ""

    @property
    def text(self) -> str:
        with_binding = f" with binding '{self.binding}'" if self.binding else ""
        return f"ValidatingAdmissionPolicy '{self.policy}'{with_binding} denied request: {self.message}"


class PolicyCheck(AdmissionPlugin):
    """Asks every policy that is bound."""

    rules = frozenset({POLICIES, BINDINGS})

    def __init__(
        self, registry: Registry, authorizer: Authorizer, kinds: Callable[[], Iterator[AnyDefinition]]
    ) -> None:
        """``kinds`` lists what is served, to find parameters of any kind."""
        self._authorizer = authorizer
        self._parameters = Parameters(registry, kinds)
        self._access = ParameterAccess(registry, authorizer, kinds, POLICIES)
        self._matcher = Matcher(registry)
        self._bound: BoundPolicies[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, CompiledPolicy]
        self._bound = BoundPolicies(registry, POLICIES, BINDINGS, _compile)

    def concerns(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Policies themselves, and what some bound policy names."""
        return definition.group == _GROUP or any(
            may_match(policy.object.spec.match_constraints, definition, subresource, operation)
            for policy in self._bound()
        )

    def is_idle(self, definition: AnyDefinition) -> bool:
        """No policy is bound, and what is written is none."""
        return definition.group != _GROUP and not self._bound()

    async def validate(self, request: AdmissionAttributes) -> None:
        """Ask the policies.

        Raises:
            StatusError: the first denial, with the code that its reason stands for; 422, a policy or binding that is
                written breaks the rules.
        """
        if request.definition.group == _GROUP:
            _check_rules(request, self._access)
            return  # no policy about policies: a cluster cannot be locked by its own
        policies = self._bound()
        if not policies:
            return
        # start-up time: CEL comes with the first policy
        from cathedra.cel.interruption import CPULimit

        asking = _Asking(request, VersionedAttributes(request), CPULimit())
        denials: list[_Denial] = []
        for policy in policies:
            denials.extend([denial async for denial in self._ask(policy, asking)])
        if denials:
            raise _refusal(request, denials[0])

    async def _ask(self, policy: Policy, asking: _Asking) -> AsyncIterator[_Denial]:
        request = asking.request
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
                await asking.view.convert(version)
            except StatusError as error:
                if _fails(policy):
                    why = f"failed to configure binding: failed to convert object version: {error.status.message}"
                    yield _Denial(name, binding.metadata.name, why)
                continue
            for param in params:
                for denial in self._evaluate(policy, binding, asking, version, param):
                    yield denial

    def _evaluate(
        self,
        policy: Policy,
        binding: ValidatingAdmissionPolicyBinding,
        asking: _Asking,
        version: VersionDefinition,
        param: Any,
    ) -> Iterator[_Denial]:
        from cathedra.apiserver.authorization.celauthorizer import decider  # start-up time: CEL, with the first policy
        from cathedra.cel.admission import Input  # start-up time: as above

        request, view = asking.request, asking.view
        namespace = self._matcher.namespace(request)
        given = Input(
            request=view.attributes(version),
            object=view.object(version),
            old_object=view.old_object(version),
            params=param,
            namespace=to_dict(namespace) if namespace is not None else None,
            decide=decider(self._authorizer),
            interrupted=asking.interrupted,
        )
        result = policy.compiled.evaluate(given)
        name, bound = policy.object.metadata.name, binding.metadata.name
        failures = json.loads(request.annotations.get(_FAILURE_ANNOTATION, "[]"))
        for position, decision in enumerate(result.decisions):
            if decision.action != "deny":
                continue
            actions = binding.spec.validation_actions
            if "Audit" in actions:
                failures.append(_failure(name, bound, position, decision, actions))
            if "Warn" in actions:
                request.warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{bound}': "
                    f"{decision.message}"
                )
            if "Deny" in actions:
                yield _Denial(name, bound, decision.message, decision.reason)
        if failures:
            request.annotations[_FAILURE_ANNOTATION] = json.dumps(failures)
        for annotation in result.annotations:
            if annotation.action == "publish":
                request.annotations[f"{name}/{annotation.key}"] = annotation.value
            elif annotation.action == "error" and "Deny" in binding.spec.validation_actions:
                yield _Denial(name, bound, annotation.error)


def _compile(spec: JSONObject) -> CompiledPolicy:
    from cathedra.cel.admission import compile_policy  # start-up time: as above

    return compile_policy(spec)


def _fails(policy: Policy) -> bool:
    """Whether it refuses when it cannot be applied."""
    return policy.object.spec.failure_policy != "Ignore"


def _check_rules(request: AdmissionAttributes, access: ParameterAccess) -> None:
    if request.operation not in {"CREATE", "UPDATE"} or request.subresource:
        return
    obj, definition = request.object, request.definition
    errors: ErrorList = ErrorList()
    if definition.group_resource == POLICIES:
        errors = policy_errors(obj) or access.policy_errors(request)
    elif definition.group_resource == BINDINGS:
        errors = binding_errors(obj) or access.binding_errors(request)
    if errors:
        raise invalid(definition.group, definition.kind, obj.metadata.name, errors)


def _refusal(request: AdmissionAttributes, denial: _Denial) -> StatusError:
    name = request.name or (request.object.metadata.name if request.object is not None else "")
    error = forbidden(request.definition.group_resource, name, denial.text)
    reason = denial.reason or "Invalid"
    details = replace(error.status.details or StatusDetails(), causes=(StatusCause(message=denial.text),))
    return failure(_CODES.get(reason, 422), reason, error.status.message, details)


def _failure(
    policy: str, binding: str, position: int, decision: PolicyDecision, actions: tuple[str, ...]
) -> JSONObject:
    """A violation as the audit log shows it."""
    return {
        "message": decision.message,
        "policy": policy,
        "binding": binding,
        "expressionIndex": position,
        "validationActions": list(actions),
    }
