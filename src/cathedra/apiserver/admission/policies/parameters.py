"""The parameters of admission policies: objects of any kind that bindings name or select.

`Parameters` looks them up for an evaluation. `ParameterAccess` checks, when a policy or a binding is written, that its
author may read them: an expression can show a parameter's content in its message or patch, so the right to write
policies would otherwise be the right to read all Secrets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

from cathedra.api.core.admissionregistration_v1 import ParamKind, ParamRef
from cathedra.api.field import ErrorList
from cathedra.api.scheme import GroupResource
from cathedra.api.selectors import from_label_selector
from cathedra.api.struct import to_dict
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import Attributes, Authorizer
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

Kinds = Callable[[], Iterator[AnyDefinition]]
_ALL: Final = ("*", "*", "*")
_AT_ONCE: Final = 200
"""Parameters that are converted in one turn of the loop: a selector may find thousands."""


class Misconfigured(Exception):
    """A policy or binding cannot be applied, with the reason as text."""


class Parameters:
    """Finds the parameter objects of a binding."""

    def __init__(self, registry: Registry, kinds: Kinds) -> None:
        """``kinds`` lists what is served, to find parameters of any kind."""
        self._registry = registry
        self._kinds = kinds

    async def of(self, kind: ParamKind | None, ref: ParamRef | None, request: AdmissionAttributes) -> list[Any]:
        """Return the parameter objects as JSON; one None if the policy or the binding has no parameters.

        Raises:
            Misconfigured: they cannot be looked up, or are not there and must be.
            StatusError: 500, a webhook could not convert them to the version that the policy names.
        """
        if kind is None or ref is None:
            return [None]
        definition, version = _param_kind(self._kinds(), kind.api_version, kind.kind)
        namespace = ref.namespace
        if definition.namespaced and not namespace:
            if not request.namespace:
                raise Misconfigured(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
            namespace = request.namespace
        if not definition.namespaced and namespace:
            raise Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        table = self._registry.table(definition.table)
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
        conversion = definition.seen_in(version.name).conversion
        if conversion is not None:
            found = await conversion.seen(found, kind.api_version)
        shown = {"apiVersion": kind.api_version, "kind": kind.kind}
        made = []
        for position, one in enumerate(found):
            if position % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            made.append({**shown, **to_dict(one.view(version))})
        return made


class ParameterAccess:
    """Checks that the author of a policy or binding may read the parameters (Kubernetes'
    pkg/registry/admissionregistration/*/authz.go)."""

    def __init__(self, registry: Registry, authorizer: Authorizer, kinds: Kinds, policies: GroupResource) -> None:
        """``policies`` is the resource that bindings name by ``policyName``."""
        self._registry = registry
        self._authorizer = authorizer
        self._kinds = kinds
        self._policies = policies

    def policy_errors(self, request: AdmissionAttributes) -> ErrorList:
        """Return an error of ``spec.paramKind`` if the user may not get all objects of that kind. An update that keeps
        the kind is not checked."""
        errors = ErrorList()
        kind = request.object.spec.param_kind
        old = request.old_object
        if kind is None or request.user.is_master or (old is not None and old.spec.param_kind == kind):
            return errors
        if not self._may(request.user, "get", kind, namespace="*", name="*"):
            errors.forbidden(
                "spec.paramKind",
                f'user {_go_user(request.user)} must have "get" permission on all objects of the referenced paramKind '
                f"(kind={kind.kind}, apiVersion={kind.api_version})",
            )
        return errors

    def binding_errors(self, request: AdmissionAttributes) -> ErrorList:
        """Return an error of ``spec.paramRef`` if the user may not get the object that a validating policy's binding
        names. Updates are checked too, as in Kubernetes, which compares references by their addresses in memory."""
        errors = ErrorList()
        if self._is_denied(request, "get"):
            detail = (
                f'user {_go_user(request.user)} does not have "get" permission on the object referenced by paramRef'
            )
            errors.forbidden("spec.paramRef", detail)
        return errors

    def mutating_binding_errors(self, request: AdmissionAttributes) -> ErrorList:
        """Return an error of ``spec.paramRef`` if the user may not get the object that a mutating policy's binding
        names, or list the objects that it selects. Verb and user are swapped in the text, as in Kubernetes."""
        errors = ErrorList()
        ref = request.object.spec.param_ref
        verb = "get" if ref is None or ref.name else "list"
        if self._is_denied(request, verb):
            detail = (
                f'user {verb} does not have "{_go_user(request.user)}" permission on the object referenced by paramRef'
            )
            errors.forbidden("spec.paramRef", detail)
        return errors

    def _is_denied(self, request: AdmissionAttributes, verb: str) -> bool:
        ref: ParamRef | None = request.object.spec.param_ref
        if ref is None or request.user.is_master:
            return False
        policy = self._registry.find(self._policies, request.object.spec.policy_name)
        kind = None if policy is None else policy.spec.param_kind
        return not self._may(request.user, verb, kind, namespace=ref.namespace, name=ref.name)

    def _may(self, user: UserInfo, verb: str, kind: ParamKind | None, *, namespace: str, name: str) -> bool:
        group, version, resource = self._resource(kind)
        question = Attributes(user, verb, group, version, resource, namespace=namespace, name=name)
        return self._authorizer.authorize(question).allowed

    def _resource(self, kind: ParamKind | None) -> tuple[str, str, str]:
        """Return group, version and resource of a kind; ``*`` for unknown parts, which require the right to all."""
        if kind is None or kind.api_version.count("/") > 1:
            return _ALL
        group, _, version = kind.api_version.rpartition("/")
        try:
            definition, _ = _param_kind(self._kinds(), kind.api_version, kind.kind)
        except Misconfigured:
            return group, version, "*"
        return group, version, definition.plural


def _param_kind(
    definitions: Iterator[AnyDefinition], api_version: str, kind: str
) -> tuple[AnyDefinition, VersionDefinition]:
    """Return the definition and the version of the kind that a policy names.

    Raises:
        Misconfigured: it is not served.
    """
    for definition in definitions:
        if definition.kind != kind:
            continue
        for version in definition.versions:
            if definition.gvk(version.name).api_version == api_version:
                return definition, version
    raise Misconfigured(f"failed to find resource referenced by paramKind: '{api_version}, Kind={kind}'")


def _go_user(user: UserInfo) -> str:
    """Return a user as Go's ``%v`` prints one."""
    extra = " ".join(f"{key}:[{' '.join(user.extra[key])}]" for key in sorted(user.extra))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
