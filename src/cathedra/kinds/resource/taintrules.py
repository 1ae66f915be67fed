"""Device taint rules, written by administrators (docs/spec/api.md §3.9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cathedra.api import formats, resource
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check
from cathedra.api.struct import Time, json_names, replace
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.conditions import validate_conditions
from cathedra.kinds.definition import Column, RequestContext, ResourceDefinition, Strategy, VersionDefinition
from cathedra.kinds.resource.declared import TAINT_RULE_TAGS, with_declared
from cathedra.kinds.resource.expressions import validate_selectors
from cathedra.kinds.resource.names import dated_taint, validate_driver_name, validate_pool_name, validate_taint
from cathedra.kinds.resource.versions import GROUP
from cathedra.kinds.strategies import first_generation, kept_metadata
from cathedra.releases import FeatureGates, behaviours
from cathedra.releases.served import deprecation_warning, versions

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
MAX_RULE_CONDITIONS: Final = 8
TAINT_RULE_COLUMNS: Final = (
    NAME,
    Column("Key", description="The taint's key."),
    Column("Value", description="The taint's value."),
    Column("Effect", description="What the taint does."),
    Column("TimeAdded", description="How long the taint has been in force."),
    AGE,
)


def default_taint_rule(rule: resource.DeviceTaintRule, now: float) -> resource.DeviceTaintRule:
    """Return a rule whose taint has a time."""
    taint = dated_taint(rule.spec.taint, now)
    return rule if taint is rule.spec.taint else replace(rule, spec=replace(rule.spec, taint=taint))


def validate_taint_rule(
    new: resource.DeviceTaintRule, old: resource.DeviceTaintRule | None, context: RequestContext
) -> ErrorList:
    """Return the errors of a taint rule."""
    errors = ErrorList()
    if new.spec.device_selector is not None:
        known = old.spec.device_selector if old is not None else None
        _validate_selector(errors, new.spec.device_selector, known, context)
    before = old.spec.taint if old is not None else None
    validate_taint(errors, _SPEC.child("taint"), new.spec.taint, context.gates, old=before)
    return errors


def _validate_selector(
    errors: ErrorList,
    selector: resource.DeviceTaintSelector,
    old: resource.DeviceTaintSelector | None,
    context: RequestContext,
) -> None:
    """Names, and the expressions of 1.33 and 1.34, which count as stored while they are what they were."""
    path = _SPEC.child("deviceSelector")
    if selector.device_class_name is not None:
        check(errors, path.child("deviceClassName"), selector.device_class_name, formats.dns_subdomain)
    if selector.driver is not None:
        validate_driver_name(errors, path.child("driver"), selector.driver)
    if selector.pool is not None:
        validate_pool_name(errors, path.child("pool"), selector.pool)
    if selector.device is not None:
        check(errors, path.child("device"), selector.device, formats.dns_label)
    # Stored expressions compile in the permissive environment. An expression of a later release would otherwise make
    # the rule unwritable after a downgrade.
    stored = old is not None and old.selectors == selector.selectors
    validate_selectors(errors, path.child("selectors"), selector.selectors, context, stored=stored)


def validate_taint_rule_status(new: resource.DeviceTaintRule, gates: FeatureGates) -> ErrorList:
    """Return the errors of a taint rule's status."""
    errors = ErrorList()
    path = _STATUS.child("conditions")
    if len(new.status.conditions) > MAX_RULE_CONDITIONS:
        errors.too_many(path, len(new.status.conditions), MAX_RULE_CONDITIONS)
    validate_conditions(errors, path, new.status.conditions, gates)
    return errors


class TaintRuleStrategy(Strategy[resource.DeviceTaintRule]):
    """A rule that taints devices, written by an administrator."""

    def default(self, obj: resource.DeviceTaintRule, context: RequestContext) -> resource.DeviceTaintRule:
        """Set the time of the taint."""
        return default_taint_rule(obj, context.now)

    def prepare_create(self, obj: resource.DeviceTaintRule, context: RequestContext) -> resource.DeviceTaintRule:
        """Empty the status, start counting."""
        return first_generation(replace(obj, status=resource.DeviceTaintRuleStatus()))

    def validate_create(self, obj: resource.DeviceTaintRule, context: RequestContext) -> ErrorList:
        """Check all rules of a taint rule."""
        found = validate_taint_rule(obj, None, context)
        return with_declared(found, TAINT_RULE_TAGS, None, obj, None, context)

    def prepare_update(
        self, new: resource.DeviceTaintRule, old: resource.DeviceTaintRule, context: RequestContext
    ) -> resource.DeviceTaintRule:
        """Set the time of a changed effect, keep the status, and increase the generation."""
        taint, before = new.spec.taint, old.spec.taint
        spec = new.spec
        # Toleration periods count from this time. With the time of the former effect, pods that tolerate the new one
        # for a while would be evicted at once.
        if taint.effect != before.effect and taint.time_added == before.time_added:
            spec = replace(spec, taint=replace(taint, time_added=Time(context.now)))
        # Counted after the time was set: the date is part of the spec, and controllers compare observedGeneration with
        # it.
        generation = old.metadata.generation + (spec != old.spec)
        return replace(new, metadata=replace(new.metadata, generation=generation), spec=spec, status=old.status)

    def validate_update(
        self, new: resource.DeviceTaintRule, old: resource.DeviceTaintRule, context: RequestContext
    ) -> ErrorList:
        """Check all rules of a taint rule; an unchanged effect is left alone."""
        found = validate_taint_rule(new, old, context)
        return with_declared(found, TAINT_RULE_TAGS, None, new, old, context)

    def warnings(
        self, new: resource.DeviceTaintRule, old: resource.DeviceTaintRule | None, context: RequestContext
    ) -> Sequence[str]:
        """Warn of a selector without any condition, which taints every device."""
        empty = new.spec.device_selector == resource.DeviceTaintSelector()
        if not (empty and context.gates.has(behaviours.EMPTY_TAINT_SELECTOR_WARNS)):
            return ()
        return ("spec.deviceSelector: an empty selector matches every device from every driver in the cluster",)


class TaintRuleStatusStrategy(Strategy[resource.DeviceTaintRule]):
    """The status of a rule, which the eviction controller reports."""

    reset_fields = ("spec", "metadata")

    def default(self, obj: resource.DeviceTaintRule, context: RequestContext) -> resource.DeviceTaintRule:
        """Set the time of the taint."""
        return default_taint_rule(obj, context.now)

    def prepare_update(
        self, new: resource.DeviceTaintRule, old: resource.DeviceTaintRule, context: RequestContext
    ) -> resource.DeviceTaintRule:
        """Keep spec and metadata."""
        return replace(new, metadata=kept_metadata(new.metadata, old.metadata), spec=old.spec)

    def validate_update(
        self, new: resource.DeviceTaintRule, old: resource.DeviceTaintRule, context: RequestContext
    ) -> ErrorList:
        """Check the rules of conditions."""
        return validate_taint_rule_status(new, context.gates)


class _RuleWithoutStatus(resource.DeviceTaintRule, frozen=True, rename=json_names(resource.DeviceTaintRule)):
    """A rule as 1.33 and 1.34 show it."""

    status: resource.DeviceTaintRuleStatus = resource.DeviceTaintRuleStatus()


def _without_status(rule: resource.DeviceTaintRule) -> resource.DeviceTaintRule:
    return _RuleWithoutStatus(kind=rule.kind, api_version=rule.api_version, metadata=rule.metadata, spec=rule.spec)


def taint_rule_cells(rule: resource.DeviceTaintRule, now: float) -> list[Any]:
    """Return the cells of a DeviceTaintRule."""
    taint = rule.spec.taint
    added = age(taint.time_added, now) if taint.time_added else ""
    return [rule.metadata.name, taint.key, taint.value, taint.effect, added, age(rule.metadata.creation_timestamp, now)]


def taint_rule_definition(gates: FeatureGates) -> ResourceDefinition[resource.DeviceTaintRule]:
    has_status = gates.has(behaviours.TAINT_RULES_HAVE_STATUS)
    names = versions(gates.release, GROUP, "DeviceTaintRule")
    made = tuple(
        VersionDefinition(
            name,
            resource.DeviceTaintRule,
            served_by_default=name == "v1",
            deprecation_warning=deprecation_warning(gates.release, GROUP, name, "DeviceTaintRule"),
            shown=None if has_status else _without_status,
        )
        for name in names
    )
    return ResourceDefinition(
        group=GROUP,
        kind="DeviceTaintRule",
        plural="devicetaintrules",
        singular="devicetaintrule",
        namespaced=False,
        type=resource.DeviceTaintRule,
        versions=made,
        # The newest version is unknown to the release before, which has to read what is stored.
        storage_version=names[min(1, len(names) - 1)],
        strategy=TaintRuleStrategy(),
        subresources={"status": TaintRuleStatusStrategy()} if has_status else {},
        columns=TAINT_RULE_COLUMNS,
        cells=taint_rule_cells,
    )
