"""Node selection of slices and devices (docs/spec/allocation.md §5.1).

A node selector is parsed once, when its slice arrives. An error in it is kept and raised only when it is evaluated for
a node, because a selector that is never evaluated does no harm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from cathedra.allocation.errors import FatalError
from cathedra.api.core import core_v1

_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class NodeTarget:
    """The selected nodes: one by name, all, or those that a selector matches; tested in this order."""

    __slots__ = ("all_nodes", "asks_name", "label_keys", "name", "problem", "selector")

    def __init__(self, name: str | None, all_nodes: bool | None, selector: core_v1.NodeSelector | None) -> None:
        self.name = name or ""
        self.all_nodes = bool(all_nodes)
        self.selector = selector
        # Found once. Selectors are evaluated for each pair of slice and node.
        self.problem = "" if selector is None else _what_is_wrong(selector)
        # Only these labels of a node can change the result, so a change of others keeps the node in its class.
        self.label_keys = _keys(selector) if selector and not self.name and not self.all_nodes else frozenset()

        self.asks_name = bool(self.name) or _asks_name(selector)
        """True if the name of a node matters."""

    @property
    def is_set(self) -> bool:
        """True if nodes are selected at all."""
        return bool(self.name) or self.all_nodes or self.selector is not None

    def matches(self, node: core_v1.Node) -> bool:
        """Return True if ``node`` is selected.

        Raises:
            FatalError: the selector cannot be parsed.
        """
        if self.name:
            return self.name == node.metadata.name
        if self.all_nodes:
            return True
        if self.selector is None:
            return False
        if self.problem:
            raise FatalError(f"failed to parse node selector &{self.selector}: {self.problem}")
        return any(_term_matches(term, node) for term in self.selector.node_selector_terms)


def _keys(selector: core_v1.NodeSelector) -> frozenset[str]:
    return frozenset(requirement.key for term in selector.node_selector_terms for requirement in term.match_expressions)


def _asks_name(selector: core_v1.NodeSelector | None) -> bool:
    return selector is not None and any(term.match_fields for term in selector.node_selector_terms)


def _term_matches(term: core_v1.NodeSelectorTerm, node: core_v1.Node) -> bool:
    # An empty term matches nothing, as in Kubernetes, and not everything.
    if not term.match_expressions and not term.match_fields:
        return False
    labels = node.metadata.labels or {}
    return all(_label_matches(requirement, labels) for requirement in term.match_expressions) and all(
        _field_matches(requirement, node.metadata.name) for requirement in term.match_fields
    )


def _label_matches(requirement: core_v1.NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values if value is not None else False
        case "NotIn":
            # A node without the label satisfies NotIn.
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    if value is None or not _INTEGER.fullmatch(value):
        return False
    # The selector's side was validated when the slice arrived; a label with any other text does not match.
    ours, theirs = int(value), int(requirement.values[0])
    return ours > theirs if requirement.operator == "Gt" else ours < theirs


def _field_matches(requirement: core_v1.NodeSelectorRequirement, name: str) -> bool:
    if requirement.key != "metadata.name":
        return False
    return (name == requirement.values[0]) == (requirement.operator == "In")


def _what_is_wrong(selector: core_v1.NodeSelector) -> str:
    for number, term in enumerate(selector.node_selector_terms):
        for index, requirement in enumerate(term.match_expressions):
            if wrong := _wrong_expression(requirement):
                return f"nodeSelectorTerms[{number}].matchExpressions[{index}]{wrong}"
        for index, requirement in enumerate(term.match_fields):
            if requirement.operator not in ("In", "NotIn"):
                return (
                    f"nodeSelectorTerms[{number}].matchFields[{index}].operator: Unsupported value: "
                    f'"{requirement.operator}": supported values: "In", "NotIn"'
                )
            if len(requirement.values) != 1:
                return f"nodeSelectorTerms[{number}].matchFields[{index}].values: Invalid value: must have one element"
    return ""


def _wrong_expression(requirement: core_v1.NodeSelectorRequirement) -> str:
    prefix, slash, name = requirement.key.rpartition("/")
    wrong_prefix = bool(slash) and (not _PREFIX.fullmatch(prefix) or len(prefix) > 253)
    if wrong_prefix or not _NAME.fullmatch(name) or len(name) > 63:
        return f'.key: Invalid value: "{requirement.key}": not a valid label name'
    values = requirement.values
    match requirement.operator:
        case "In" | "NotIn":
            if not values:
                return ".values: Invalid value: for 'in', 'notin' operators, values set can't be empty"
        case "Exists" | "DoesNotExist":
            if values:
                return ".values: Invalid value: values set must be empty for exists and does not exist"
        case "Gt" | "Lt":
            if len(values) != 1:
                return ".values: Invalid value: for 'Gt', 'Lt' operators, exactly one value is required"
            if not _INTEGER.fullmatch(values[0]):
                return ".values[0]: Invalid value: for 'Gt', 'Lt' operators, the value must be an integer"
        case operator:
            return f': Invalid value: "{operator}": "{operator}" is not a valid label selector operator'
    for index, value in enumerate(values):
        if len(value) > 63 or not _VALUE.fullmatch(value):
            return f'.values[{index}]: Invalid value: "{value}": not a valid label value'
    return ""
