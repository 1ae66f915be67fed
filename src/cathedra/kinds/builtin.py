"""Definitions of kinds with one version, written down in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.formats import Format, dns_subdomain
from cathedra.api.scheme import kind_of
from cathedra.kinds.columns import GENERIC_COLUMNS, generic_cells
from cathedra.kinds.definition import (
    ALL_VERBS,
    Column,
    ConnectedSubresource,
    ResourceDefinition,
    Strategy,
    VersionDefinition,
)
from cathedra.kinds.deletion import DeletionRules
from cathedra.kinds.strategies import (
    NO_RULES,
    DefaultedStrategy,
    GenerationStrategy,
    ObjectRules,
    SpecStrategy,
    StatusStrategy,
)

__all__ = ["builtin"]

T = TypeVar("T", bound=KubeObject)
Cells = Callable[[Any, float], list[Any]]


def builtin(
    kind: type[T],
    plural: str,
    *,
    namespaced: bool,
    strategy: Strategy[T] | None = None,
    default: Callable[[Any], Any] = lambda obj: obj,
    rules: ObjectRules = NO_RULES,
    status: Strategy[T] | None = None,
    subresources: Mapping[str, Strategy[T]] = {},
    table: tuple[tuple[Column, ...], Cells] = (GENERIC_COLUMNS, generic_cells),
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    field_selectors: Mapping[str, Callable[[T], str]] = {},
    counts_generation: bool = False,
    served_by_default: bool = True,
    gate: str = "",
    deletion: DeletionRules[T] | None = None,
    verbs: tuple[str, ...] = ALL_VERBS,
    scalable: bool = False,
    name_rule: Format = dns_subdomain,
    created_by_update: bool = False,
    connected: tuple[ConnectedSubresource, ...] = (),
) -> ResourceDefinition[T]:
    """A kind of one version whose struct is its hub; strategies follow from whether it has spec and status.

    ``subresources`` are writable ones besides ``status``, ``connected`` those with kinds of their own;
    ``created_by_update`` says that a PUT creates what is not there.
    """
    gvk = kind_of(kind)
    written: dict[str, Strategy[T]] = {}
    has_status = "status" in kind.__struct_fields__ and "spec" in kind.__struct_fields__
    if has_status:
        written["status"] = status or StatusStrategy(default)
        chosen = strategy or (GenerationStrategy(default, rules) if counts_generation else SpecStrategy(default, rules))
    else:
        chosen = strategy or DefaultedStrategy(default, rules)
    chosen.allow_create_on_update = created_by_update or chosen.allow_create_on_update
    columns, cells = table
    return ResourceDefinition(
        group=gvk.group,
        kind=gvk.kind,
        plural=plural,
        singular=gvk.kind.lower(),
        namespaced=namespaced,
        type=kind,
        versions=(VersionDefinition(gvk.version, kind, served_by_default=served_by_default),),
        strategy=chosen,
        subresources={**written, **subresources},
        connected=connected,
        short_names=short_names,
        categories=categories,
        columns=columns,
        cells=cells,
        field_selectors=field_selectors,
        gate=gate,
        deletion=deletion or DeletionRules(),
        verbs=verbs,
        scalable=scalable,
        name_rule=name_rule,
    )
