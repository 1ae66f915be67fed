"""ValidatingAdmissionPolicies: an administrator's rules in CEL (docs/spec/apimachinery.md §16.6;
docs/spec/cel.md §10).

What an expression means is the business of `cathedra.cel.admission`; here are the policies that exist, the requests
that they are about, their parameters, and what follows from their decisions.
CEL is imported with the first policy: a server without any starts faster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cathedra.api.core.admissionregistration_v1 import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from cathedra.api.core.meta_v1 import StatusCause, StatusDetails
from cathedra.api.field import ErrorList
from cathedra.api.scheme import GroupResource
from cathedra.api.selectors import from_label_selector
from cathedra.api.status import StatusError, failure, forbidden, invalid
from cathedra.api.struct import replace, to_dict
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.matching import Matcher
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.admission.policies.policyerrors import binding_errors, policy_errors
from cathedra.apiserver.admission.versioned import VersionedAttributes
from cathedra.apiserver.authorization.authorizer import Authorizer
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.kinds.definition import ResourceDefinition, VersionDefinition

if TYPE_CHECKING:
    from cathedra.cel.admission import CompiledPolicy, PolicyDecision

__all__ = ["BINDINGS", "POLICIES", "PolicyCheck"]

_GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = GroupResource(_GROUP, "validatingadmissionpolicies")
BINDINGS: Final = GroupResource(_GROUP, "validatingadmissionpolicybindings")
_CODES: Final = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}
_FAILURE_ANNOTATION: Final = "validation.policy.admission.k8s.io/validation_failure"


class Misconfigured(Exception):
    """A policy or binding cannot be applied; the text says why."""


@dataclass(frozen=True, slots=True)
class _Asking:
    """A request on its way through all policies, with the processor time that they share."""

    request: AdmissionAttributes
    view: VersionedAttributes
    interrupted: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class _Policy:
    """A policy with its expressions compiled, and its bindings."""

    object: ValidatingAdmissionPolicy
    compiled: CompiledPolicy
    bindings: tuple[ValidatingAdmissionPolicyBinding, ...]

    @property
    def fails(self) -> bool:
        """Whether it refuses when it cannot be applied."""
        return self.object.spec.failure_policy != "Ignore"


@dataclass(frozen=True, slots=True)
class _Denial:
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

    def __init__(
        self, registry: Registry, authorizer: Authorizer, kinds: Callable[[], Iterator[ResourceDefinition[Any]]]
    ) -> None:
        """``kinds`` lists what is served, to find parameters of any kind."""
        self._registry = registry
        self._authorizer = authorizer
        self._kinds = kinds
        self._matcher = Matcher(registry)
        self._compiled: dict[str, tuple[Any, CompiledPolicy]] = {}
        self._policies: tuple[_Policy, ...] | None = None
        for resource in (POLICIES, BINDINGS):
            registry.observe(resource, lambda _: self._forget())

    async def validate(self, request: AdmissionAttributes) -> None:
        """Ask the policies.

        Raises:
            StatusError: the first denial, with the code that its reason stands for; 422, a policy or binding that is
                written breaks the rules.
        """
        if request.definition.group == _GROUP:
            _check_rules(request)
            return  # no policy about policies: a cluster cannot be locked by its own
        policies = self._known()
        if not policies:
            return
        # start-up time: CEL comes with the first policy
        from cathedra.cel.interruption import CPULimit

        asking = _Asking(request, VersionedAttributes(request), CPULimit())
        denials: list[_Denial] = []
        for policy in policies:
            denials.extend(self._ask(policy, asking))
        if denials:
            raise _refusal(request, denials[0])

    def _ask(self, policy: _Policy, asking: _Asking) -> Iterator[_Denial]:
        request = asking.request
        name = policy.object.metadata.name
        spec = policy.object.spec
        try:
            version = self._matcher.resources(spec.match_constraints, request)
        except StatusError as error:
            if policy.fails:
                yield _Denial(name, "", f"failed to configure policy: {error.status.message}")
            return
        if version is None:
            return
        for binding in policy.bindings:
            try:
                if self._matcher.resources(binding.spec.match_resources, request) is None:
                    continue
                params = self._params(policy.object, binding, request)
            except (Misconfigured, StatusError) as error:
                if policy.fails:
                    yield _Denial(name, binding.metadata.name, f"failed to configure binding: {error}")
                continue
            for param in params:
                yield from self._evaluate(policy, binding, asking, version, param)

    def _evaluate(
        self,
        policy: _Policy,
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

    def _params(
        self, policy: ValidatingAdmissionPolicy, binding: ValidatingAdmissionPolicyBinding, request: AdmissionAttributes
    ) -> list[Any]:
        """The parameter objects, as JSON; one None if there are none to be had."""
        kind, ref = policy.spec.param_kind, binding.spec.param_ref
        if kind is None or ref is None:
            return [None]
        definition, version = self._param_kind(kind.api_version, kind.kind)
        namespace = ref.namespace
        if definition.namespaced and not namespace:
            if not request.namespace:
                raise Misconfigured(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
            namespace = request.namespace
        if not definition.namespaced and namespace:
            raise Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        table = self._registry.table(definition.stored_as or definition.group_resource)
        if ref.name:
            entry = table.get(f"{namespace}/{ref.name}" if namespace else ref.name)
            found = [entry] if entry is not None else []
        elif ref.selector is not None:
            selector = from_label_selector(ref.selector)
            found = [one for one in table.select(Selection(namespace)) if selector.matches(one.object.metadata.labels)]
        else:
            raise Misconfigured("one of name or selector must be provided")
        if not found and ref.parameter_not_found_action == "Deny":
            raise Misconfigured("no params found for policy binding with `Deny` parameterNotFoundAction")
        shown = {"apiVersion": kind.api_version, "kind": kind.kind}
        return [{**shown, **to_dict(one.view(version))} for one in found]

    def _param_kind(self, api_version: str, kind: str) -> tuple[ResourceDefinition[Any], VersionDefinition]:
        for definition in self._kinds():
            if definition.kind != kind:
                continue
            for version in definition.versions:
                if definition.gvk(version.name).api_version == api_version:
                    return definition, version
        raise Misconfigured(f"failed to find resource referenced by paramKind: '{api_version}, Kind={kind}'")

    def _known(self) -> tuple[_Policy, ...]:
        if self._policies is None:
            self._policies = tuple(self._load())
        return self._policies

    def _load(self) -> Iterator[_Policy]:
        bindings: dict[str, list[ValidatingAdmissionPolicyBinding]] = {}
        for binding in self._objects(BINDINGS):
            bindings.setdefault(binding.spec.policy_name, []).append(binding)
        for policy in self._objects(POLICIES):
            bound = bindings.get(policy.metadata.name)
            if bound:
                yield _Policy(policy, self._compile(policy), tuple(bound))

    def _compile(self, policy: ValidatingAdmissionPolicy) -> CompiledPolicy:
        known = self._compiled.get(policy.metadata.name)
        if known is not None and known[0] == policy.spec:
            return known[1]
        from cathedra.cel.admission import compile_policy  # start-up time: as above

        compiled = compile_policy(to_dict(policy.spec))
        self._compiled[policy.metadata.name] = (policy.spec, compiled)
        return compiled

    def _objects(self, resource: GroupResource) -> list[Any]:
        try:
            table = self._registry.table(resource)
        except KeyError:
            return []
        return [entry.object for entry in table.select(Selection(""))]

    def _forget(self) -> None:
        self._policies = None
        names: Mapping[str, Any] = {policy.metadata.name: policy for policy in self._objects(POLICIES)}
        for gone in self._compiled.keys() - names.keys():
            del self._compiled[gone]


def _check_rules(request: AdmissionAttributes) -> None:
    if request.operation not in {"CREATE", "UPDATE"} or request.subresource:
        return
    obj, definition = request.object, request.definition
    errors: ErrorList = ErrorList()
    if definition.group_resource == POLICIES:
        errors = policy_errors(obj)
    elif definition.group_resource == BINDINGS:
        errors = binding_errors(obj)
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
) -> dict[str, Any]:
    """A violation as the audit log shows it."""
    return {
        "message": decision.message,
        "policy": policy,
        "binding": binding,
        "expressionIndex": position,
        "validationActions": list(actions),
    }
