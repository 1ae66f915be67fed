"""Rules of CEL expressions in claims and classes (docs/spec/api.md §3.3 and §3.4).

The meaning of an expression is not known here; the request context brings a compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api import resource
from cathedra.api.field import ErrorList, ErrorType, FieldPath
from cathedra.api.formats import longer_than
from cathedra.kinds.definition import ExpressionFault, RequestContext
from cathedra.kinds.resource.names import ItemRules, validate_fully_qualified_name, validate_items
from cathedra.releases import behaviours

MAX_EXPRESSION: Final = 10 * 1024
MAX_SELECTORS: Final = 32
FEW_SELECTORS: Final = 4
"""Number of expressions that are compiled together at most: one takes up to 10 ms."""
MAX_DERIVED: Final = 32
MAX_COST: Final = 1_000_000
_UNUSED: Final = (
    "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
)


def validate_selectors(
    errors: ErrorList,
    path: FieldPath,
    selectors: Sequence[resource.DeviceSelector],
    context: RequestContext,
    *,
    stored: bool,
) -> None:
    """Validate selectors of a request or a class; in 1.31 they could be of any length and cost."""
    limited = context.gates.has(behaviours.SELECTORS_LIMITED)

    def selector(where: FieldPath, item: resource.DeviceSelector) -> None:
        where = where.child("cel")
        if item.cel is None:
            errors.required(where)
            return
        expression = item.cel.expression
        where = where.child("expression")
        if limited and longer_than(expression, MAX_EXPRESSION):
            errors.too_long(where, MAX_EXPRESSION)
        elif context.expressions is not None:
            fault = context.expressions.selector(expression, stored=stored)
            # "Forbidden" means too expensive. The first release had no cost limit, and what it accepted must stay
            # acceptable.
            if limited or fault is None or fault.type is not ErrorType.FORBIDDEN:
                _enter(errors, where, expression, fault)

    validate_items(errors, path, selectors, ItemRules(MAX_SELECTORS, selector), context.gates)


def many_selectors(spec: resource.ResourceClaimSpec) -> Sequence[str]:
    """Return the expressions of a claim's selectors if they are many, so that compiling all takes long."""
    found: list[str] = []
    for request in spec.devices.requests or ():
        asked = (request.exactly,) if request.exactly is not None else request.first_available
        for one in asked:
            if one.selectors:
                found += [selector.cel.expression for selector in one.selectors if selector.cel is not None]
    # A few are compiled during validation. Many would hold the event loop, so the server compiles them one by one
    # first, with a chance for other requests in between.
    return found if len(found) > FEW_SELECTORS else ()


def _enter(errors: ErrorList, path: FieldPath, expression: str, fault: ExpressionFault | None) -> None:
    if fault is None:
        return
    if fault.type is ErrorType.FORBIDDEN:
        errors.forbidden(path, fault.detail)
    elif fault.type is ErrorType.INTERNAL:
        errors.internal(path, fault.detail)
    else:
        errors.invalid(path, expression, fault.detail)


def validate_derived_attributes(
    errors: ErrorList,
    path: FieldPath,
    spec: resource.ResourceClaimSpec,
    context: RequestContext,
    *,
    stored: bool,
) -> None:
    """Validate derived attributes of all requests: each well-formed, used by a constraint, and all together cheap
    enough."""
    total = 0
    constrained = _Constrained(spec.devices.constraints)
    for position, request in enumerate(spec.devices.requests or ()):
        where = path.child("requests").index(position)
        if request.exactly is not None and request.exactly.derived_attributes:
            derived = request.exactly.derived_attributes
            used = constrained.of(request.name)
            total += _derived(errors, where.child("exactly"), derived, used, context, stored=stored)
        for number, alternative in enumerate(request.first_available):
            if alternative.derived_attributes:
                used = constrained.of(request.name, f"{request.name}/{alternative.name}")
                item = where.child("firstAvailable").index(number)
                total += _derived(errors, item, alternative.derived_attributes, used, context, stored=stored)
    if total > MAX_COST:
        errors.forbidden(
            path, "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
        )


class _Constrained:
    """The attributes of constraints, by the references to requests that the constraints have."""

    def __init__(self, constraints: Sequence[resource.DeviceConstraint]) -> None:
        self._of_all: set[str] = set()
        self._of_one: dict[str, set[str]] = {}
        for constraint in constraints:
            both = (constraint.match_attribute, constraint.distinct_attribute)
            attributes = [attribute for attribute in both if attribute is not None]
            if not constraint.requests:
                self._of_all.update(attributes)
            for reference in constraint.requests:
                self._of_one.setdefault(reference, set()).update(attributes)

    def of(self, *references: str) -> list[set[str]]:
        """Return the attributes of constraints on all requests, then on each reference.

        The sets are not united: requests may be many.
        """
        return [self._of_all, *(self._of_one.get(reference, set()) for reference in references)]


def _derived(
    errors: ErrorList,
    path: FieldPath,
    derived: Sequence[resource.DeviceDerivedAttribute],
    used: Sequence[set[str]],
    context: RequestContext,
    *,
    stored: bool,
) -> int:
    path = path.child("derivedAttributes")
    if len(derived) > MAX_DERIVED:
        errors.too_many(path, len(derived), MAX_DERIVED)
        return 0
    total = 0
    seen: set[str] = set()
    for position, attribute in enumerate(derived):
        where = path.index(position)
        validate_fully_qualified_name(errors, where.child("name"), attribute.name, context.gates)
        if attribute.name and not any(attribute.name in attributes for attributes in used):
            errors.invalid(where.child("name"), attribute.name, _UNUSED)
        expression = attribute.expression
        if not expression:
            errors.required(where.child("expression"))
        elif longer_than(expression, MAX_EXPRESSION):
            errors.too_long(where.child("expression"), MAX_EXPRESSION)
        elif context.expressions is not None:
            fault, cost = context.expressions.derived_attribute(expression, stored=stored)
            _enter(errors, where.child("expression"), expression, fault)
            # Stored expressions count as well: the limit is one for the whole claim.
            total += cost
        if attribute.name in seen:
            errors.duplicate(where, attribute.name)
        seen.add(attribute.name)
    return total
