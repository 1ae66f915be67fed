"""Rules of claims and templates (docs/spec/api.md §3.3 to §3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api import formats, resource
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.metadata import validate_annotations, validate_labels
from cathedra.kinds.resource.expressions import validate_derived_attributes, validate_selectors
from cathedra.kinds.resource.names import (
    ItemRules,
    validate_class_name,
    validate_driver_name,
    validate_fully_qualified_name,
    validate_items,
    validate_opaque,
)
from cathedra.releases import FeatureGates, behaviours
from cathedra.remembering import IDENTITY, remembered

MAX_ITEMS: Final = 32
MAX_ALTERNATIVES: Final = 8
ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
"""The label that a namespace must carry, with the value "true", for claims with admin access."""
EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
IMMUTABLE: Final = "field is immutable"
ADMIN_LABEL_OF_133: Final = "resource.k8s.io/admin-access"
RequestNames = dict[str, frozenset[str] | None]
"""Name of a request → names of its alternatives; None for a request that has none."""


def validate_claim(claim: resource.ResourceClaim, context: RequestContext) -> ErrorList:
    """Return the errors of a new claim."""
    errors = ErrorList()
    validate_claim_spec(errors, FieldPath("spec"), claim.spec, context, stored=False)
    return errors


def validate_claim_update(
    new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
) -> ErrorList:
    """Require an unchanged spec. Before 1.35 the spec is validated, too."""
    errors = ErrorList()
    if new.spec != old.spec:
        errors.invalid("spec", new.spec, IMMUTABLE)
    # Until 1.34 an immutable spec was validated once more, so a claim that an older release stored may be stuck.
    if not context.gates.has(behaviours.STORED_SPEC_UNVALIDATED):
        validate_claim_spec(errors, FieldPath("spec"), new.spec, context, stored=True)
    return errors


def validate_template(template: resource.ResourceClaimTemplate, context: RequestContext) -> ErrorList:
    """Return the errors of a new template."""
    errors = ErrorList()
    _template_spec(errors, template.spec, context, stored=False)
    return errors


def validate_template_update(
    new: resource.ResourceClaimTemplate, old: resource.ResourceClaimTemplate, context: RequestContext
) -> ErrorList:
    """Validate the spec, and require that it is unchanged."""
    errors = ErrorList()
    # Templates are validated first, and then compared: the order of the errors is Kubernetes'.
    _template_spec(errors, new.spec, context, stored=True)
    if new.spec != old.spec:
        errors.invalid("spec", new.spec, IMMUTABLE)
    return errors


def admin_access_refusal(namespace: str, context: RequestContext) -> str:
    """Return why claims of a namespace may not have admin access, or "" if they may.

    Since 1.33 the server itself requires a label of the namespace; before, policies were the only way.
    """
    gates = context.gates
    if not gates.has(behaviours.ADMIN_ACCESS_NEEDS_LABEL):
        return ""
    label = ADMIN_LABEL if gates.has(behaviours.ADMIN_LABEL_OF_GROUP) else ADMIN_LABEL_OF_133
    if context.namespace_labels(namespace).get(label) == "true":
        return ""
    return f"admin access to devices requires the `{label}: true` label on the containing namespace"


def validate_admin_access(spec: resource.ResourceClaimSpec, namespace: str, context: RequestContext) -> ErrorList:
    """Return the first request for admin access in a namespace whose claims may not have it."""
    errors = ErrorList()
    for position, request in enumerate(spec.devices.requests or ()):
        if request.exactly is not None and request.exactly.admin_access:
            if refusal := admin_access_refusal(namespace, context):
                path = FieldPath("spec").child("devices", "requests").index(position).child("adminAccess")
                errors.forbidden(path, refusal)
            break
    return errors


_TEMPLATE_METADATA: Final = (
    ("name", "name"),
    ("generateName", "generate_name"),
    ("namespace", "namespace"),
    ("uID", "uid"),
    ("resourceVersion", "resource_version"),
    ("generation", "generation"),
    ("selfLink", "self_link"),
    ("creationTimestamp", "creation_timestamp"),
    ("deletionTimestamp", "deletion_timestamp"),
    ("deletionGracePeriodSeconds", "deletion_grace_period_seconds"),
    ("ownerReferences", "owner_references"),
    ("finalizers", "finalizers"),
    ("managedFields", "managed_fields"),
)


def _template_spec(
    errors: ErrorList, spec: resource.ResourceClaimTemplateSpec, context: RequestContext, *, stored: bool
) -> None:
    path = FieldPath("spec")
    metadata = path.child("metadata")
    validate_labels(errors, metadata.child("labels"), spec.metadata.labels)
    validate_annotations(errors, metadata.child("annotations"), spec.metadata.annotations)
    for name, attribute in _TEMPLATE_METADATA:
        value = getattr(spec.metadata, attribute)
        # The grace period is a pointer in Go, so even a 0 is a value that was set.
        if value not in ("", 0, None, ()) or (attribute == "deletion_grace_period_seconds" and value is not None):
            errors.forbidden(metadata.child(name), "cannot be set")
    validate_claim_spec(errors, path.child("spec"), spec.spec, context, stored=stored)


@remembered("names of requests", key=IDENTITY, size=64)
def request_names(spec: resource.ResourceClaimSpec) -> RequestNames:
    """Return the names that constraints, config and allocation results may refer to."""
    names: RequestNames = {}
    for request in spec.devices.requests or ():
        if request.first_available:
            names[request.name] = frozenset(alternative.name for alternative in request.first_available)
        else:
            names[request.name] = None
    return names


def validate_claim_spec(
    errors: ErrorList, path: FieldPath, spec: resource.ResourceClaimSpec, context: RequestContext, *, stored: bool
) -> None:
    """Return the errors of the spec of a claim."""
    path = path.child("devices")
    names = request_names(spec)
    gates, devices = context.gates, spec.devices

    def request(where: FieldPath, item: resource.DeviceRequest) -> None:
        _request(errors, where, item, context, stored=stored)

    def constraint(where: FieldPath, item: resource.DeviceConstraint) -> None:
        _constraint(errors, where, item, names, context)

    def config(where: FieldPath, item: resource.DeviceClaimConfiguration) -> None:
        validate_request_references(errors, where.child("requests"), item.requests, names, gates)
        validate_configuration(errors, where, item.opaque, gates, stored=stored)

    requests = devices.requests or ()
    validate_items(errors, path.child("requests"), requests, ItemRules(MAX_ITEMS, request, key=lambda r: r.name), gates)
    validate_items(errors, path.child("constraints"), devices.constraints, ItemRules(MAX_ITEMS, constraint), gates)
    validate_items(errors, path.child("config"), devices.config, ItemRules(MAX_ITEMS, config), gates)
    validate_derived_attributes(errors, path, spec, context, stored=stored)


def _request(
    errors: ErrorList, path: FieldPath, request: resource.DeviceRequest, context: RequestContext, *, stored: bool
) -> None:
    check(errors, path.child("name"), request.name, formats.dns_label)
    # The rest is not validated: which of the two was meant is unknown.
    if request.exactly is not None and request.first_available:
        errors.invalid(
            path, None, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        )
        return
    if request.exactly is not None:
        _asked(errors, path.child("exactly"), request.exactly, context, stored=stored)
        return
    if not request.first_available:
        errors.required(path, "exactly one of `exactly` or `firstAvailable` is required")
        return

    def alternative(where: FieldPath, item: resource.DeviceSubRequest) -> None:
        check(errors, where.child("name"), item.name, formats.dns_label)
        _asked(errors, where, item, context, stored=stored)

    alternatives = request.first_available
    where = path.child("firstAvailable")
    validate_items(
        errors, where, alternatives, ItemRules(MAX_ALTERNATIVES, alternative, key=lambda a: a.name), context.gates
    )


def _asked(
    errors: ErrorList,
    path: FieldPath,
    request: resource.ExactDeviceRequest | resource.DeviceSubRequest,
    context: RequestContext,
    *,
    stored: bool,
) -> None:
    validate_class_name(errors, path.child("deviceClassName"), request.device_class_name)
    validate_selectors(errors, path.child("selectors"), request.selectors, context, stored=stored)
    count = path.child("count")
    if request.allocation_mode == "All":
        # 0 counts as absent, because defaulting leaves it so under this mode.
        if request.count:
            errors.invalid(count, request.count, "must not be specified when allocationMode is 'All'")
    elif request.allocation_mode == "ExactCount":
        if request.count <= 0:
            errors.invalid(count, request.count, "must be greater than zero")
    else:
        errors.not_supported(path.child("allocationMode"), request.allocation_mode, ("All", "ExactCount"))
    for position, toleration in enumerate(request.tolerations):
        _toleration(errors, path.child("tolerations").index(position), toleration, context)


def _toleration(
    errors: ErrorList, path: FieldPath, toleration: resource.DeviceToleration, context: RequestContext
) -> None:
    if toleration.key:
        check(errors, path.child("key"), toleration.key, formats.label_key)
    value = path.child("value")
    if toleration.operator == "Exists":
        if toleration.value:
            errors.invalid(value, toleration.value, "must be empty for operator `Exists`")
    elif toleration.operator == "Equal":
        check(errors, value, toleration.value, formats.label_value)
    elif not toleration.operator:
        errors.required(path.child("operator"))
    else:
        errors.not_supported(path.child("operator"), toleration.operator, ("Equal", "Exists"))
    effects = EFFECTS if context.gates.has(behaviours.TAINT_EFFECT_NONE) else EFFECTS[:2]
    if toleration.effect and toleration.effect not in effects:
        errors.not_supported(path.child("effect"), toleration.effect, effects)


def _constraint(
    errors: ErrorList,
    path: FieldPath,
    constraint: resource.DeviceConstraint,
    names: RequestNames,
    context: RequestContext,
) -> None:
    validate_request_references(errors, path.child("requests"), constraint.requests, names, context.gates)
    match, distinct = constraint.match_attribute, constraint.distinct_attribute
    if match is not None:
        validate_fully_qualified_name(errors, path.child("matchAttribute"), match, context.gates)
        # Before, a second attribute beside the first was ignored, so stored claims may have it.
        if distinct is None or not context.gates.has(behaviours.DISTINCT_BESIDE_MATCH_VALIDATED):
            return
    if distinct is not None:
        validate_fully_qualified_name(errors, path.child("distinctAttribute"), distinct, context.gates)
    elif context.gates["DRAConsumableCapacity"]:
        errors.required(
            path,
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set',
        )
    else:
        errors.required(path.child("matchAttribute"))


def validate_request_references(
    errors: ErrorList, path: FieldPath, references: Sequence[str], names: RequestNames, gates: FeatureGates
) -> None:
    """Validate references to requests, each at most once."""

    def reference(where: FieldPath, name: str) -> None:
        validate_request_reference(errors, where, name, names)

    validate_items(errors, path, references, ItemRules(MAX_ITEMS, reference, key=str), gates)


def validate_request_reference(errors: ErrorList, path: FieldPath, reference: str, names: RequestNames) -> None:
    """Validate a reference to a request, or to one of its alternatives as ``request/alternative``."""
    unknown = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
    parts = reference.split("/")
    if len(parts) > 2:
        errors.invalid(path, reference, unknown)
        return
    # Both parts are checked before the whole: Kubernetes reports bad labels and the unknown name.
    for part in parts:
        check(errors, path, part, formats.dns_label)
    alternatives = names.get(parts[0])
    known = parts[0] in names if len(parts) == 1 else alternatives is not None and parts[1] in alternatives
    if not known:
        errors.invalid(path, reference, unknown)


def validate_configuration(
    errors: ErrorList,
    path: FieldPath,
    opaque: resource.OpaqueDeviceConfiguration | None,
    gates: FeatureGates,
    *,
    stored: bool,
) -> None:
    """Validate parameters for a driver; 1.31 had no limit to their size, so what it may have stored counts as
    stored."""
    if opaque is None:
        errors.required(path.child("opaque"))
        return
    where = path.child("opaque")
    validate_driver_name(errors, where.child("driver"), opaque.driver)
    unlimited = stored or not gates.has(behaviours.PARAMETERS_LIMITED)
    validate_opaque(errors, where.child("parameters"), opaque.parameters, stored=unlimited, required=True)
