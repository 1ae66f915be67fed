"""The selectors of classes and claims, with where they stand and what is asked before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cathedra.api.resource import (
    DeviceClass,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from cathedra.insight.linting.subjects import Given

__all__ = ["SelectorGroup", "claim_spec_of", "selector_groups"]


@dataclass(frozen=True, slots=True)
class SelectorGroup:
    """The selectors of a class or of one request, in order; all of them must be true."""

    path: str
    """Of the class's spec, or of the request."""
    expressions: tuple[str | None, ...]
    """None for a selector that is not of CEL."""
    class_name: str = ""
    """The class whose selectors are asked first; "" for a class itself."""
    derived: tuple[str, ...] = ()
    """Expressions of derived attributes."""

    def selector_path(self, number: int) -> str:
        """The field of a selector's expression."""
        return f"{self.path}.selectors[{number}].cel.expression"

    def derived_path(self, number: int) -> str:
        """The field of a derived attribute's expression."""
        return f"{self.path}.derivedAttributes[{number}].expression"


def claim_spec_of(given: Given) -> tuple[ResourceClaimSpec, str] | None:
    """The spec of a claim or a template, and the path of its ``devices``; None for other kinds."""
    if isinstance(given.object, ResourceClaim):
        return given.object.spec, "spec.devices"
    if isinstance(given.object, ResourceClaimTemplate):
        return given.object.spec.spec, "spec.spec.devices"
    return None


def selector_groups(given: Given) -> Iterator[SelectorGroup]:
    """The groups of a class, a claim or a template."""
    if isinstance(given.object, DeviceClass):
        yield SelectorGroup("spec", _texts(given.object.spec.selectors))
        return
    found = claim_spec_of(given)
    if found is None:
        return
    spec, path = found
    for number, request in enumerate(spec.devices.requests or ()):
        place = f"{path}.requests[{number}]"
        if request.exactly is not None:
            yield _group(f"{place}.exactly", request.exactly)
        for position, one in enumerate(request.first_available or ()):
            yield _group(f"{place}.firstAvailable[{position}]", one)


def _group(path: str, one: ExactDeviceRequest | DeviceSubRequest) -> SelectorGroup:
    derived = tuple(each.expression for each in one.derived_attributes or ())
    return SelectorGroup(path, _texts(one.selectors), one.device_class_name, derived)


def _texts(selectors: Sequence[DeviceSelector] | None) -> tuple[str | None, ...]:
    return tuple(one.cel.expression if one.cel is not None else None for one in selectors or ())
