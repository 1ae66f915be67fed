"""Device classes: selectors and configuration that claims refer to by name (docs/spec/api.md §3.8)."""

from __future__ import annotations

from typing import Final

from cathedra.api import resource
from cathedra.api import resource as v1
from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.api.core import resource_v1beta1 as v1beta1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import dns_subdomain, extended_resource_name, in_bytes
from cathedra.api.struct import replace, reshape
from cathedra.kinds.columns import NAME_AND_AGE, name_and_age
from cathedra.kinds.definition import RequestContext, ResourceDefinition, Strategy
from cathedra.kinds.resource.claims.validation import validate_configuration
from cathedra.kinds.resource.declared import CLASS_TAGS, with_declared
from cathedra.kinds.resource.expressions import validate_selectors
from cathedra.kinds.resource.names import ItemRules, validate_items
from cathedra.kinds.resource.versions import GROUP, Shapes, alpha_version, beta_version, served_versions
from cathedra.kinds.strategies import first_generation
from cathedra.releases import FeatureGates, behaviours

_SPEC: Final = FieldPath("spec")
MAX_CONFIG: Final = 32


def enabled_class_spec(
    spec: resource.DeviceClassSpec, old: resource.DeviceClassSpec | None, gates: FeatureGates
) -> resource.DeviceClassSpec:
    """Return the spec without disabled fields."""
    if gates["DRAExtendedResource"] or (old is not None and old.extended_resource_name is not None):
        return spec
    return replace(spec, extended_resource_name=None)


def validate_class(new: resource.DeviceClass, old: resource.DeviceClass | None, context: RequestContext) -> ErrorList:
    """Return the errors of a class; lists that did not change count as stored."""
    errors = ErrorList()
    spec = new.spec
    stored = old is not None and old.spec.selectors == spec.selectors
    validate_selectors(errors, _SPEC.child("selectors"), spec.selectors, context, stored=stored)
    path = _SPEC.child("config")
    configured = old is not None and old.spec.config == spec.config

    def config(where: FieldPath, item: resource.DeviceClassConfiguration) -> None:
        validate_configuration(errors, where, item.opaque, context.gates, stored=configured)

    validate_items(errors, path, spec.config, ItemRules(MAX_CONFIG, config), context.gates)
    name = spec.extended_resource_name
    if name is not None and not extended_resource_name(name):
        errors.invalid(_SPEC.child("extendedResourceName"), name, "must be a valid extended resource name")
    return errors


class ClassStrategy(Strategy[resource.DeviceClass]):
    """A device class, freely changeable."""

    metadata_checks = 2

    def prepare_create(self, obj: resource.DeviceClass, context: RequestContext) -> resource.DeviceClass:
        """Drop what closed gates forbid, start counting."""
        return first_generation(replace(obj, spec=enabled_class_spec(obj.spec, None, context.gates)))

    def validate_create(self, obj: resource.DeviceClass, context: RequestContext) -> ErrorList:
        """Check all rules of a class."""
        found = validate_class(obj, None, context)
        return with_declared(found, CLASS_TAGS, CLASS_SHAPES, obj, None, context)

    def prepare_update(
        self, new: resource.DeviceClass, old: resource.DeviceClass, context: RequestContext
    ) -> resource.DeviceClass:
        """Drop what closed gates forbid, count the change."""
        spec = enabled_class_spec(new.spec, old.spec, context.gates)
        generation = old.metadata.generation + (spec != old.spec)
        return replace(new, metadata=replace(new.metadata, generation=generation), spec=spec)

    def validate_update(
        self, new: resource.DeviceClass, old: resource.DeviceClass, context: RequestContext
    ) -> ErrorList:
        """Check all rules of a class; unchanged lists count as stored."""
        found = validate_class(new, old, context)
        return with_declared(found, CLASS_TAGS, CLASS_SHAPES, new, old, context)


def class_to_hub(device_class: v1beta1.DeviceClass) -> v1.DeviceClass:
    """Convert a class to its stored form."""
    return v1.DeviceClass(metadata=device_class.metadata, spec=reshape(device_class.spec, v1.DeviceClassSpec))


def class_from_hub(device_class: v1.DeviceClass) -> v1beta1.DeviceClass:
    """Convert a class from its stored form."""
    return v1beta1.DeviceClass(metadata=device_class.metadata, spec=reshape(device_class.spec, v1beta1.DeviceClassSpec))


CLASS_SHAPES: Final = Shapes(
    v1.DeviceClass,
    beta_version(v1beta1.DeviceClass, class_to_hub, class_from_hub),
    alpha_version(v1alpha3.DeviceClass, v1beta1.DeviceClass, class_to_hub, class_from_hub),
)
"""The class in each version."""


def _declared_elsewhere(_: str) -> list[str]:
    """Return no problems: the name is one of the fields with tags (`CLASS_TAGS`)."""
    return []


def class_definition(gates: FeatureGates) -> ResourceDefinition[resource.DeviceClass]:
    """Return the definition of deviceclasses."""
    is_declared = gates.has(behaviours.DECLARED_TAGS_ENFORCED) and gates["DeclarativeValidationBeta"]
    return ResourceDefinition(
        group=GROUP,
        kind="DeviceClass",
        plural="deviceclasses",
        name_rule=_declared_elsewhere if is_declared else in_bytes(dns_subdomain),
        checks_generate_name=False,
        singular="deviceclass",
        namespaced=False,
        type=resource.DeviceClass,
        versions=served_versions(gates, CLASS_SHAPES),
        strategy=ClassStrategy(),
        columns=NAME_AND_AGE,
        cells=name_and_age,
    )
