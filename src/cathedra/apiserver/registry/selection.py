"""Selection of objects by a list or watch: namespace, label selector and field selector as one predicate.

Source: docs/spec/apimachinery.md §8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.selectors import (
    DOUBLE_EQUALS,
    EQUALS,
    IN,
    FieldTerm,
    Selector,
    SelectorError,
    parse_field_selector,
    parse_label_selector,
)
from cathedra.api.status import StatusError, bad_request
from cathedra.kinds.definition import AnyDefinition

_SAYING_EQUAL: Final = frozenset({EQUALS, DOUBLE_EQUALS, IN})


class Selection(msgspec.Struct, frozen=True):
    """The objects of a table that a list or watch selects."""

    namespace: str = ""
    terms: tuple[FieldTerm, ...] = ()
    matches: Callable[[Any], bool] | None = None
    """None if every object of the namespace matches."""
    text: tuple[str, ...] = ()
    """The texts that it was parsed from. In one table equal texts select the same objects."""
    label: tuple[str, str] | None = None
    """A label that every matching object has; None if the label selector requires no certain one."""

    @staticmethod
    def parse(
        definition: AnyDefinition, namespace: str, label_selector: str, field_selector: str, name: str = ""
    ) -> Selection:
        """Parse the texts of a request; ``name`` narrows it to one object.

        Raises:
            StatusError: 400, a selector cannot be understood.
        """
        terms = parse_field_terms(field_selector)
        if name:
            terms = (*terms, FieldTerm("metadata.name", name))
        text = (namespace, label_selector, field_selector, name)
        labels = _parse_labels(label_selector) if label_selector else None
        return Selection(namespace, terms, _predicate(definition, labels, terms), text, _certain_label(labels))

    @property
    def filtered(self) -> bool:
        """Return True if anything but the namespace narrows it."""
        return self.matches is not None

    @property
    def name(self) -> str:
        """The only name that can match, if a field term requires it; else empty."""
        for term in self.terms:
            if term.field == "metadata.name" and not term.negated:
                return term.value
        return ""


def parse_field_terms(text: str) -> tuple[FieldTerm, ...]:
    """Return the terms of a field selector.

    Raises:
        StatusError: 400, it does not parse.
    """
    if not text:
        return ()
    try:
        return parse_field_selector(text).terms
    except SelectorError as error:
        raise bad_request(str(error)) from None


def single_name(field_selector: str) -> str:
    """Return the only name that a field selector admits, or "". Such a list is authorized as a read of that object."""
    try:
        terms = parse_field_terms(field_selector)
    except StatusError:
        return ""  # the verb itself reports what is wrong with it
    names = [term.value for term in terms if term.field == "metadata.name" and not term.negated]
    # Two names contradict each other. The request is then authorized as a list, which needs the wider permission.
    return names[0] if len(names) == 1 else ""


def _parse_labels(text: str) -> Selector:
    try:
        return parse_label_selector(text)
    except SelectorError as error:
        raise bad_request(str(error)) from None


def _certain_label(selector: Selector | None) -> tuple[str, str] | None:
    for requirement in () if selector is None else selector.requirements:
        # Any one label is enough: the table's index narrows the candidates, and the predicate decides.
        if requirement.operator in _SAYING_EQUAL and len(requirement.values) == 1:
            return requirement.key, next(iter(requirement.values))
    return None


def _predicate(
    definition: AnyDefinition, labels: Selector | None, terms: tuple[FieldTerm, ...]
) -> Callable[[Any], bool] | None:
    checks: list[Callable[[Any], bool]] = []
    for term in terms:
        checks.append(_field_check(getter(definition, term.field), term))
    if labels is not None:
        checks.append(lambda obj: labels.matches(obj.metadata.labels))
    if not checks:
        return None
    # The usual watch has one condition, and this function runs for every object or write: a generator costs more than
    # it.
    if len(checks) == 1:
        return checks[0]
    return lambda obj: all(check(obj) for check in checks)


def _field_check(get: Callable[[Any], str], term: FieldTerm) -> Callable[[Any], bool]:
    if term.negated:
        return lambda obj: get(obj) != term.value
    return lambda obj: get(obj) == term.value


def _name(obj: KubeObject) -> str:
    name: str = obj.metadata.name
    return name


def _namespace(obj: KubeObject) -> str:
    namespace: str = obj.metadata.namespace
    return namespace


def getter(definition: AnyDefinition, field: str) -> Callable[[Any], str]:
    """Return the getter of a selectable field.

    Raises:
        StatusError: 400, the kind has no such selectable field.
    """
    if field == "metadata.name":
        return _name
    # Kubernetes registers field labels per kind. Cluster-scoped kinds with labels of their own refuse the namespace;
    # those without use the generic conversion, which accepts it.
    if field == "metadata.namespace" and (definition.namespaced or not definition.field_selectors):
        return _namespace
    found = definition.field_selectors.get(field)
    if found is not None:
        return found
    if definition.field_selectors:
        raise bad_request(f"field label not supported: {field}")
    raise bad_request(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')
