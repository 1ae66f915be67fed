"""FlowSchemas and PriorityLevelConfigurations: the flows and queues of requests.

This module has their rules; `cathedra.apiserver.pipeline.flowcontrol` puts requests into flows and queues by them.
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import flowcontrol_v1 as flowcontrol
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import dns_subdomain
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules

PRECEDENCE: Final = 1_000
MOST_PRECEDENCE: Final = 10_000
_EXEMPT: Final = "exempt"
FLOW_SCHEMA_COLUMNS: Final = (
    NAME,
    Column("PriorityLevel", description="The priority level of matching requests."),
    Column("MatchingPrecedence", description="Lower numbers are tried first."),
    Column("DistinguisherMethod", description="What tells flows apart."),
    AGE,
    Column("MissingPL", description="Whether the priority level does not exist."),
)
PRIORITY_LEVEL_COLUMNS: Final = (
    NAME,
    Column("Type", description="Whether requests are limited."),
    Column("NominalConcurrencyShares", description="Its share of the server's seats."),
    Column("Queues", description="How many queues there are."),
    Column("HandSize", description="How many queues a flow may use."),
    Column("QueueLengthLimit", description="How many requests wait in a queue."),
    AGE,
)


def default_flow_schema(schema: flowcontrol.FlowSchema) -> flowcontrol.FlowSchema:
    """Return the object with its defaults: a precedence in the middle."""
    spec = schema.spec
    return replace(schema, spec=replace(spec, matching_precedence=spec.matching_precedence or PRECEDENCE))


def default_priority_level(level: flowcontrol.PriorityLevelConfiguration) -> flowcontrol.PriorityLevelConfiguration:
    """30 shares, none lent; 64 queues of 50 requests, 8 to a hand."""
    spec = level.spec
    if spec.exempt is not None:
        shares = spec.exempt.nominal_concurrency_shares or 0
        lent = spec.exempt.lendable_percent or 0
        spec = replace(spec, exempt=replace(spec.exempt, nominal_concurrency_shares=shares, lendable_percent=lent))
    if spec.limited is not None:
        spec = replace(spec, limited=_limited(spec.limited))
    return replace(level, spec=spec)


def _limited(limited: flowcontrol.LimitedPriorityLevelConfiguration) -> flowcontrol.LimitedPriorityLevelConfiguration:
    shares = limited.nominal_concurrency_shares
    response = limited.limit_response
    if response.queuing is not None:
        queuing = response.queuing
        filled = replace(
            queuing,
            queues=queuing.queues or 64,
            hand_size=queuing.hand_size or 8,
            queue_length_limit=queuing.queue_length_limit or 50,
        )
        response = replace(response, queuing=filled)
    return replace(
        limited,
        nominal_concurrency_shares=30 if shares is None else shares,
        lendable_percent=limited.lendable_percent or 0,
        limit_response=response,
    )


def validate_flow_schema(schema: flowcontrol.FlowSchema) -> ErrorList:
    """Require a precedence in bounds, a priority level, and rules about subjects and requests (ValidateFlowSchema)."""
    errors = ErrorList()
    spec, path = schema.spec, FieldPath("spec")
    precedence, where = spec.matching_precedence, path.child("matchingPrecedence")
    if precedence <= 0:
        errors.invalid(where, precedence, "must be a positive value")
    if precedence > MOST_PRECEDENCE:
        errors.invalid(where, precedence, f"must not be greater than {MOST_PRECEDENCE}")
    if precedence == 1 and schema.metadata.name != _EXEMPT:
        errors.invalid(where, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = spec.distinguisher_method
    if method is not None and method.type not in {"ByUser", "ByNamespace"}:
        errors.not_supported(path.child("distinguisherMethod", "type"), method, ("ByNamespace", "ByUser"))
    level, named = spec.priority_level_configuration.name, path.child("priorityLevelConfiguration", "name")
    if not level:
        errors.required(named, "must reference a priority level")
    for problem in dns_subdomain(level) if level else ():
        errors.invalid(named, level, problem)
    for position, rule in enumerate(spec.rules):
        at = path.child("rules").index(position)
        if not rule.subjects:
            errors.required(at.child("subjects"), "subjects must contain at least one value")
        if not rule.resource_rules and not rule.non_resource_rules:
            errors.required(at, "at least one of resourceRules and nonResourceRules has to be non-empty")
    return errors


def validate_priority_level(level: flowcontrol.PriorityLevelConfiguration) -> ErrorList:
    """Require a level that is limited or exempt, with the parameters of that and of nothing else
    (ValidatePriorityLevelConfiguration)."""
    errors = ErrorList()
    spec, path = level.spec, FieldPath("spec")
    if spec.type == "Exempt":
        if spec.limited is not None:
            errors.forbidden(path.child("limited"), "must be nil if the type is not Limited")
    elif spec.type == "Limited":
        if spec.exempt is not None:
            errors.forbidden(path.child("exempt"), "must be nil if the type is Limited")
        if spec.limited is None:
            errors.required(path.child("limited"), "must not be empty when type is Limited")
        else:
            _check_limited(errors, path.child("limited"), spec.limited)
    else:
        errors.not_supported(path.child("type"), spec.type, ("Exempt", "Limited"))
    return errors


def _check_limited(errors: ErrorList, path: FieldPath, limited: flowcontrol.LimitedPriorityLevelConfiguration) -> None:
    shares = limited.nominal_concurrency_shares or 0
    if shares < 0:
        errors.invalid(path.child("nominalConcurrencyShares"), shares, "must be a non-negative integer")
    lent = limited.lendable_percent or 0
    if not 0 <= lent <= 100:
        errors.invalid(path.child("lendablePercent"), lent, "must be between 0 and 100, inclusive")
    response, where = limited.limit_response, path.child("limitResponse")
    if response.type == "Reject":
        if response.queuing is not None:
            errors.forbidden(where.child("queuing"), "must be nil if limited.limitResponse.type is not Limited")
    elif response.type == "Queue":
        if response.queuing is None:
            errors.required(where.child("queuing"), "must not be empty if limited.limitResponse.type is Limited")
    else:
        errors.not_supported(where.child("type"), response.type, ("Queue", "Reject"))


def flow_schema_cells(schema: flowcontrol.FlowSchema, now: float) -> list[Any]:
    """Return the cells of a FlowSchema."""
    spec = schema.spec
    dangling = next((one.status for one in schema.status.conditions if one.type == "Dangling"), "?")
    return [
        schema.metadata.name,
        spec.priority_level_configuration.name,
        spec.matching_precedence,
        spec.distinguisher_method.type if spec.distinguisher_method is not None else "<none>",
        age(schema.metadata.creation_timestamp, now),
        dangling,
    ]


def priority_level_cells(level: flowcontrol.PriorityLevelConfiguration, now: float) -> list[Any]:
    """Return the cells of a PriorityLevelConfiguration."""
    limited = level.spec.limited
    queuing = limited.limit_response.queuing if limited is not None else None
    return [
        level.metadata.name,
        level.spec.type,
        "<none>" if limited is None else limited.nominal_concurrency_shares,
        *(("<none>",) * 3 if queuing is None else (queuing.queues, queuing.hand_size, queuing.queue_length_limit)),
        age(level.metadata.creation_timestamp, now),
    ]


def flow_schema_definition() -> ResourceDefinition[flowcontrol.FlowSchema]:
    """Return the definition of flowschemas."""
    return BuiltinKind(
        flowcontrol.FlowSchema,
        "flowschemas",
        namespaced=False,
        default=default_flow_schema,
        rules=ObjectRules(validate_flow_schema, lambda new, old: validate_flow_schema(new)),
        counts_generation=True,
        table=(FLOW_SCHEMA_COLUMNS, flow_schema_cells),
    ).definition()


def priority_level_definition() -> ResourceDefinition[flowcontrol.PriorityLevelConfiguration]:
    """Return the definition of prioritylevelconfigurations."""
    return BuiltinKind(
        flowcontrol.PriorityLevelConfiguration,
        "prioritylevelconfigurations",
        namespaced=False,
        default=default_priority_level,
        rules=ObjectRules(validate_priority_level, lambda new, old: validate_priority_level(new)),
        counts_generation=True,
        table=(PRIORITY_LEVEL_COLUMNS, priority_level_cells),
    ).definition()
