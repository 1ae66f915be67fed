"""The parameters of admission policies: objects of any kind that bindings name or select."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cathedra.api.core.admissionregistration_v1 import ParamKind, ParamRef
from cathedra.api.selectors import from_label_selector
from cathedra.api.struct import to_dict
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

__all__ = ["Misconfigured", "Parameters"]


class Misconfigured(Exception):
    """A policy or binding cannot be applied; the text says why."""


class Parameters:
    """Looks parameters up."""

    def __init__(self, registry: Registry, kinds: Callable[[], Iterator[AnyDefinition]]) -> None:
        """``kinds`` lists what is served, to find parameters of any kind."""
        self._registry = registry
        self._kinds = kinds

    async def of(self, kind: ParamKind | None, ref: ParamRef | None, request: AdmissionAttributes) -> list[Any]:
        """The parameter objects, as JSON; one None if the policy or the binding asks for none.

        Raises:
            Misconfigured: they cannot be looked up, or are not there and must be.
            StatusError: 500, a webhook could not convert them to the version that the policy names.
        """
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
        conversion = definition.seen_in(version.name).conversion
        if conversion is not None:
            found = await conversion.seen(found, kind.api_version)
        shown = {"apiVersion": kind.api_version, "kind": kind.kind}
        return [{**shown, **to_dict(one.view(version))} for one in found]

    def _param_kind(self, api_version: str, kind: str) -> tuple[AnyDefinition, VersionDefinition]:
        for definition in self._kinds():
            if definition.kind != kind:
                continue
            for version in definition.versions:
                if definition.gvk(version.name).api_version == api_version:
                    return definition, version
        raise Misconfigured(f"failed to find resource referenced by paramKind: '{api_version}, Kind={kind}'")
