"""MutatingAdmissionPolicies: an administrator's changes to objects in CEL (plugin MutatingAdmissionPolicy).

`cathedra.cel.admission` evaluates expressions. This module applies their patches to the object: an apply configuration
by structured merge, which must not touch atomic values, or a JSON patch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cathedra.api.core.admissionregistration_v1 import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
)
from cathedra.api.core.meta_v1 import StatusCause, StatusDetails
from cathedra.api.decoding import DecodeError
from cathedra.api.nesting import NestingError, check_value_nesting
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, failure, forbidden, internal_error, invalid
from cathedra.api.struct import replace, to_dict
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.matching import Matcher
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.admission.policies.bound import BoundPolicies, BoundPolicy, compiled_in_time
from cathedra.apiserver.admission.policies.parameters import Misconfigured, ParameterAccess, Parameters
from cathedra.apiserver.admission.policies.policyerrors import mutating_binding_errors, mutating_policy_errors
from cathedra.apiserver.admission.rebuilding import Rebuilder
from cathedra.apiserver.admission.versioned import VersionedAttributes, size_of
from cathedra.apiserver.authorization.authorizer import Authorizer
from cathedra.apiserver.computation import EXPRESSION_SECONDS, Allowance, Computations
from cathedra.apiserver.ownership.applying import NotApplicable, apply_configuration
from cathedra.apiserver.patches.json_patch import JSONPatchError, PatchTestFailed, json_patch
from cathedra.apiserver.patches.schema import struct_shape
from cathedra.apiserver.registry.registry import Registry
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

if TYPE_CHECKING:
    from cathedra.cel.admission import CompiledMutations, Input

_GROUP: Final = "admissionregistration.k8s.io"
MUTATING_POLICIES: Final = GroupResource(_GROUP, "mutatingadmissionpolicies")
MUTATING_BINDINGS: Final = GroupResource(_GROUP, "mutatingadmissionpolicybindings")

Policy = BoundPolicy[MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding]
Key = tuple[str, str, str, str]


class _Failed(Exception):
    """A mutation cannot be made. The failure policy decides whether the request is refused."""


class _Invocation(msgspec.Struct, frozen=True):
    """A policy to be applied for one of its bindings and one parameter object."""

    policy: Policy
    compiled: Any
    """A `cathedra.cel.admission.CompiledMutations`, whose type would load CEL."""
    binding: MutatingAdmissionPolicyBinding
    version: VersionDefinition
    param: Any

    @property
    def key(self) -> Key:
        named = (self.param or {}).get("metadata", {})
        return (self.policy.name, self.binding.metadata.name, named.get("namespace", ""), named.get("name", ""))


class _Passes(msgspec.Struct):
    """The state of one request between its two passes through the plugins."""

    left: Any = None
    """The object as the policies left it."""
    called: set[Key] = msgspec.field(default_factory=set)
    """Invocations to be repeated if the object changes after them (``reinvocationPolicy: IfNeeded``)."""
    again: set[Key] = msgspec.field(default_factory=set)
    """Invocations to be repeated."""

    def changed(self) -> None:
        """Mark all called invocations for repetition, because the object has changed."""
        self.again |= self.called
        self.called = set()


class MutatingPolicies(AdmissionPlugin):
    """Applies every mutating policy that is bound."""

    name = "MutatingAdmissionPolicy"
    rules = frozenset({MUTATING_POLICIES, MUTATING_BINDINGS})

    def __init__(
        self,
        registry: Registry,
        authorizer: Authorizer,
        kinds: Callable[[], Iterator[AnyDefinition]],
        rebuilder: Rebuilder,
        computations: Computations,
    ) -> None:
        """``kinds`` lists what is served, to find parameters of any kind."""
        self._authorizer = authorizer
        self._parameters = Parameters(registry, kinds)
        self._access = ParameterAccess(registry, authorizer, kinds, MUTATING_POLICIES)
        self._matcher = Matcher(registry)
        self._rebuilder = rebuilder
        self._computations = computations
        self._bound: BoundPolicies[MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, CompiledMutations]
        self._bound = BoundPolicies(registry, MUTATING_POLICIES, MUTATING_BINDINGS, _compile, computations)

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle policies and bindings themselves, and everything while a policy is bound."""
        return definition.group == _GROUP or bool(self._bound())

    async def validate(self, request: AdmissionAttributes) -> None:
        """Check policies and bindings that are written.

        Raises:
            StatusError: 422, one breaks the rules.
        """
        definition, obj = request.definition, request.object
        if request.operation not in {"CREATE", "UPDATE"} or request.subresource:
            return
        if definition.group_resource == MUTATING_POLICIES:
            errors = await compiled_in_time(
                self._computations, request.user.name, lambda check: mutating_policy_errors(obj, check)
            )
            errors = errors or self._access.policy_errors(request)
        elif definition.group_resource == MUTATING_BINDINGS:
            errors = mutating_binding_errors(obj) or self._access.mutating_binding_errors(request)
        else:
            return
        if errors:
            raise invalid(definition.group, definition.kind, obj.metadata.name, errors)

    async def admit(self, request: AdmissionAttributes) -> Any:
        """Return the object after the mutations of all policies.

        Raises:
            StatusError: a policy that refuses on errors could not be applied.
        """
        if request.definition.group == _GROUP:
            # Policies do not apply to policies and bindings: one that breaks them could not be removed.
            return request.object
        bound = self._bound()
        if not bound:
            return request.object
        allowance = self._computations.allowance(request.user.name, EXPRESSION_SECONDS)
        passes: _Passes = request.memory.setdefault(type(self).__name__, _Passes())
        # A webhook changed the object after the policies: those with ``reinvocationPolicy: IfNeeded`` run again.
        if request.again and passes.left != request.object:
            passes.changed()
        refusals: list[tuple[str, str]] = []
        invocations = [one async for one in self._invocations(bound, request, refusals)]
        for invocation in invocations:
            request = await self._applied(invocation, request, passes, allowance, refusals)
        passes.left = request.object
        if refusals:
            raise _refusal(request, refusals)
        return request.object

    async def _invocations(
        self, bound: tuple[Policy, ...], request: AdmissionAttributes, refusals: list[tuple[str, str]]
    ) -> AsyncIterator[_Invocation]:
        for policy in bound:
            spec = policy.object.spec
            try:
                version = self._matcher.resources(spec.match_constraints, request)
            except StatusError as error:
                _refuse(refusals, policy, None, f"failed to configure policy: {error.status.message}")
                continue
            if version is None:
                continue
            for binding in policy.bindings:
                try:
                    if self._matcher.resources(binding.spec.match_resources, request) is None:
                        continue
                    params = await self._parameters.of(spec.param_kind, binding.spec.param_ref, request)
                except (Misconfigured, StatusError) as error:
                    _refuse(refusals, policy, binding, f"failed to configure binding: {error}")
                    continue
                compiled = await self._bound.compiled(policy, request.user.name)
                for param in params:
                    yield _Invocation(policy, compiled, binding, version, param)

    async def _applied(
        self,
        invocation: _Invocation,
        request: AdmissionAttributes,
        passes: _Passes,
        allowance: Allowance,
        refusals: list[tuple[str, str]],
    ) -> AdmissionAttributes:
        """Return the request after one policy, unchanged if the conditions do not hold; failures go to ``refusals``."""
        policy = invocation.policy
        try:
            given = await self._given(invocation, request)
        except StatusError as error:
            raise internal_error(error.status.message) from None
        size = size_of(request)
        why = await allowance.complete(
            lambda limit: invocation.compiled.objection(msgspec.structs.replace(given, interrupted=limit)), size=size
        )
        if why is not None:
            if why:
                _refuse(refusals, policy, invocation.binding, why)
            return request
        if request.again and invocation.key not in passes.again:
            return request
        before = request.object
        for position in range(len(policy.object.spec.mutations)):
            if request.object is None:
                break
            try:
                request = request.but(object=await self._mutated(invocation, request, position, allowance))
            except _Failed as error:
                # The other mutations and policies still run: all refusals are reported together.
                _refuse(refusals, policy, invocation.binding, str(error))
        if request.object != before:
            passes.changed()
        if policy.object.spec.reinvocation_policy == "IfNeeded":
            passes.called.add(invocation.key)
        return request

    async def _given(self, invocation: _Invocation, request: AdmissionAttributes) -> Input:
        # start-up time: CEL, with the first policy
        from cathedra.apiserver.authorization.celauthorizer import decider
        from cathedra.cel.admission import Input

        view, version = VersionedAttributes(request), invocation.version
        await view.convert(version)
        namespace = self._matcher.namespace(request)
        return Input(
            request=view.attributes(version),
            object=view.object(version),
            old_object=view.old_object(version),
            params=invocation.param,
            namespace=to_dict(namespace) if namespace is not None else None,
            decide=decider(self._authorizer),
        )

    async def _mutated(
        self, invocation: _Invocation, request: AdmissionAttributes, position: int, allowance: Allowance
    ) -> Any:
        """Return the object after one mutation; the same object if nothing changes.

        Raises:
            _Failed: the expression fails, or its patch cannot be applied.
            StatusError: 500, the patched object cannot be read.
        """
        version = invocation.version
        given = await self._given(invocation, request)
        values, strict = await allowance.complete(
            lambda limit: _patched(invocation, position, msgspec.structs.replace(given, interrupted=limit)),
            size=size_of(request),
        )
        if values is None:
            return request.object
        try:
            obj, problems = await self._rebuilder.object(request, version, values)
        except DecodeError as error:
            raise internal_error(str(error)) from None
        if strict and problems:
            raise internal_error(f"strict decoding error: {', '.join(problems)}")
        return obj if obj != request.object else request.object


def _patched(invocation: _Invocation, position: int, given: Input) -> tuple[Any, bool]:
    """Return the object's values after one mutation, and True if unknown fields in them are errors.

    The values are None if a test in its patch fails.

    Raises:
        _Failed: the expression fails, or its patch cannot be applied.
    """
    wanted = invocation.compiled.mutate(position, given)
    if wanted.error:
        raise _Failed(wanted.error)
    try:
        check_value_nesting(wanted.patch)
    except NestingError as error:
        raise _Failed(str(error)) from None
    if wanted.patch_type == "JSONPatch":
        try:
            return json_patch(given.object, wanted.patch), True
        except PatchTestFailed:
            return None, True
        except JSONPatchError as error:
            raise _Failed(f"JSON Patch: {error}") from None
    try:
        return apply_configuration(given.object, wanted.patch, struct_shape(invocation.version.type)), False
    except NotApplicable as error:
        raise _Failed(f"error applying patch: {error}") from None


def _compile(spec: dict[str, Any], check: Callable[[], object]) -> CompiledMutations:
    # start-up time: CEL, with the first policy
    from cathedra.cel.admission import compile_mutations

    return compile_mutations(spec, check)


def _refuse(
    refusals: list[tuple[str, str]], policy: Policy, binding: MutatingAdmissionPolicyBinding | None, why: str
) -> None:
    """Add a refusal, unless the policy ignores failures."""
    if policy.object.spec.failure_policy == "Ignore":
        return
    if binding is None:
        refusals.append((f'policy "{policy.name}" denied request: {why}', ""))
        return
    text = f"policy '{policy.name}' with binding '{binding.metadata.name}' denied request: {why}"
    refusals.append((text, "" if why.startswith("failed to configure") else "Invalid"))


def _refusal(request: AdmissionAttributes, refusals: list[tuple[str, str]]) -> StatusError:
    """403 with the text and reason of the first refusal, and all of them as causes."""
    error = forbidden(request.definition.group_resource, request.name, "")
    causes = tuple(StatusCause(message=text) for text, _ in refusals)
    details = replace(error.status.details or StatusDetails(), causes=causes)
    message, reason = refusals[0]
    return failure(403, reason or "Forbidden", message, details)
