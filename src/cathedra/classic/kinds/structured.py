"""The three kinds that 1.30 added for structured parameters: slices, and parameters of claims and classes.

Their rules are in docs/spec/api.md §7.2; selectors must compile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cathedra.api import formats
from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check
from cathedra.cel.errors import CompileError
from cathedra.classic.kinds.definitions import classic_kind
from cathedra.classic.structured import compile_selector
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import AnyDefinition, Column, RequestContext, Strategy, VersionDefinition
from cathedra.kinds.resource.names import validate_driver_name

IMMUTABLE: Final = "field is immutable"
_ROOT: Final = FieldPath("")
_GENERATED: Final = (NAME, Column("GeneratedFrom", description="The object these were generated from."), AGE)
_SLICE: Final = (
    NAME,
    Column("Node", description="The node that has the resources."),
    Column("Driver", description="The driver that published them."),
    AGE,
)


class NamedResourcesSliceStrategy(Strategy[v1alpha2.ResourceSlice]):
    """A slice: the devices of a driver on a node; driver and node never change."""

    def validate_create(self, obj: v1alpha2.ResourceSlice, context: RequestContext) -> ErrorList:
        """Check all rules of a new slice."""
        errors = ErrorList()
        if obj.node_name:
            check(errors, FieldPath("nodeName"), obj.node_name, formats.dns_subdomain)
        validate_driver_name(errors, FieldPath("driverName"), obj.driver_name)
        if obj.named_resources is None:
            errors.required(_ROOT, "exactly one structured model field must be set")
        else:
            _instances(errors, FieldPath("namedResources.instances"), obj.named_resources.instances)
        return errors

    def validate_update(
        self, new: v1alpha2.ResourceSlice, old: v1alpha2.ResourceSlice, context: RequestContext
    ) -> ErrorList:
        """Check all rules of a new slice, and that node and driver have not changed."""
        errors = self.validate_create(new, context)
        for name, value, before in (
            ("nodeName", new.node_name, old.node_name),
            ("driverName", new.driver_name, old.driver_name),
        ):
            if value != before:
                errors.invalid(name, value, IMMUTABLE)
        return errors


def _instances(errors: ErrorList, path: FieldPath, instances: Sequence[v1alpha2.NamedResourcesInstance]) -> None:
    seen: set[str] = set()
    for position, instance in enumerate(instances):
        where = path.index(position)
        check(errors, where.child("name"), instance.name, formats.dns_subdomain)
        if instance.name in seen:
            errors.duplicate(where.child("name"), instance.name)
        seen.add(instance.name)
        known: set[str] = set()
        for number, attribute in enumerate(instance.attributes):
            _attribute(errors, where.child("attributes").index(number), attribute, known)


def _attribute(
    errors: ErrorList, path: FieldPath, attribute: v1alpha2.NamedResourcesAttribute, known: set[str]
) -> None:
    check(errors, path.child("name"), attribute.name, formats.dns_subdomain)
    if attribute.name in known:
        errors.duplicate(path.child("name"), attribute.name)
    known.add(attribute.name)
    if attribute.version is not None:
        check(errors, path.child("version"), attribute.version, formats.semver)
    values = {
        "quantity": attribute.quantity,
        "bool": attribute.bool_,
        "int": attribute.int_,
        "intSlice": attribute.int_slice,
        "string": attribute.string,
        "stringSlice": attribute.string_slice,
        "version": attribute.version,
    }
    given = sorted(name for name, value in values.items() if value is not None)
    if not given:
        errors.required(path, "exactly one value must be set")
    elif len(given) > 1:
        errors.invalid(path, given, f"exactly one field must be set, not several: {', '.join(given)}")


def _selector(errors: ErrorList, path: FieldPath, expression: str, *, stored: bool) -> None:
    if not expression:
        errors.required(path)
    elif not stored:
        try:
            compile_selector(expression)
        except CompileError as error:
            errors.invalid(path, expression, error.text)


def _unique_driver(errors: ErrorList, path: FieldPath, driver: str, seen: set[str]) -> None:
    validate_driver_name(errors, path, driver)
    if driver in seen:
        errors.duplicate(path, driver)
    seen.add(driver)


def _generated_from(
    errors: ErrorList,
    reference: v1alpha2.ResourceClaimParametersReference | v1alpha2.ResourceClassParametersReference | None,
) -> None:
    if reference is None:
        return
    for name, value in (("kind", reference.kind), ("name", reference.name)):
        if not value:
            errors.required(FieldPath("generatedFrom").child(name))


class ClaimParametersStrategy(Strategy[v1alpha2.ResourceClaimParameters]):
    """Requests of a claim to drivers. Unchanged requests are accepted."""

    def validate_create(self, obj: v1alpha2.ResourceClaimParameters, context: RequestContext) -> ErrorList:
        """Check all rules of new parameters."""
        return self._validate(obj, stored=False)

    def validate_update(
        self, new: v1alpha2.ResourceClaimParameters, old: v1alpha2.ResourceClaimParameters, context: RequestContext
    ) -> ErrorList:
        """Apply the rules of a new object."""
        return self._validate(new, stored=new.driver_requests == old.driver_requests)

    @staticmethod
    def _validate(parameters: v1alpha2.ResourceClaimParameters, *, stored: bool) -> ErrorList:
        errors = ErrorList()
        _generated_from(errors, parameters.generated_from)
        seen: set[str] = set()
        for position, requests in enumerate(parameters.driver_requests):
            where = FieldPath("driverRequests").index(position)
            _unique_driver(errors, where.child("driverName"), requests.driver_name, seen)
            if not requests.requests:
                errors.required(where.child("requests"), "empty entries with no requests are not allowed")
            for number, request in enumerate(requests.requests):
                path = where.child("requests").index(number)
                if request.named_resources is None:
                    errors.required(path, "exactly one structured model field must be set")
                else:
                    selector = request.named_resources.selector
                    _selector(errors, path.child("namedResources", "selector"), selector, stored=stored)
        return errors


class ClassParametersStrategy(Strategy[v1alpha2.ResourceClassParameters]):
    """Conditions of a class on instances, and its parameters for drivers."""

    def validate_create(self, obj: v1alpha2.ResourceClassParameters, context: RequestContext) -> ErrorList:
        """Check all rules of new parameters."""
        errors = ErrorList()
        _generated_from(errors, obj.generated_from)
        seen: set[str] = set()
        for position, one in enumerate(obj.filters):
            where = FieldPath("filters").index(position)
            _unique_driver(errors, where.child("driverName"), one.driver_name, seen)
            if one.named_resources is None:
                errors.required(where, "exactly one structured model field must be set")
            else:
                selector = one.named_resources.selector
                _selector(errors, where.child("namedResources", "selector"), selector, stored=False)
        named: set[str] = set()
        for position, vendor in enumerate(obj.vendor_parameters):
            where = FieldPath("vendorParameters").index(position)
            _unique_driver(errors, where.child("driverName"), vendor.driver_name, named)
        return errors

    def validate_update(
        self, new: v1alpha2.ResourceClassParameters, old: v1alpha2.ResourceClassParameters, context: RequestContext
    ) -> ErrorList:
        """Apply the rules of a new object."""
        return self.validate_create(new, context)


def _generated_cells(
    parameters: v1alpha2.ResourceClaimParameters | v1alpha2.ResourceClassParameters, now: float
) -> list[Any]:
    reference, metadata = parameters.generated_from, parameters.metadata
    shown = f"{reference.kind}.{reference.api_group} {reference.name}" if reference is not None else ""
    return [metadata.name, shown, age(metadata.creation_timestamp, now)]


def _slice_cells(piece: v1alpha2.ResourceSlice, now: float) -> list[Any]:
    metadata = piece.metadata
    return [metadata.name, piece.node_name, piece.driver_name, age(metadata.creation_timestamp, now)]


def structured_definitions() -> tuple[AnyDefinition, ...]:
    """Return the definitions of the three kinds."""
    fields = {"nodeName": lambda piece: piece.node_name, "driverName": lambda piece: piece.driver_name}
    generated: dict[str, Any] = {"columns": _GENERATED, "cells": _generated_cells}
    return (
        classic_kind(
            v1alpha2.ResourceSlice,
            _versions(v1alpha2.ResourceSlice),
            NamedResourcesSliceStrategy(),
            columns=_SLICE,
            cells=_slice_cells,
            field_selectors=fields,
            namespaced=False,
        ),
        classic_kind(
            v1alpha2.ResourceClaimParameters,
            _versions(v1alpha2.ResourceClaimParameters),
            ClaimParametersStrategy(),
            plural="resourceclaimparameters",
            **generated,
        ),
        classic_kind(
            v1alpha2.ResourceClassParameters,
            _versions(v1alpha2.ResourceClassParameters),
            ClassParametersStrategy(),
            plural="resourceclassparameters",
            **generated,
        ),
    )


def _versions(kind: type[KubeObject]) -> tuple[VersionDefinition, ...]:
    return (VersionDefinition("v1alpha2", kind, served_by_default=False),)
