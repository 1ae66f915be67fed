"""Definitions of built-in kinds with one version.

Most kinds have the same strategies: those that follow from whether their objects have a spec and a status. A kind that
needs others passes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, TypeVar

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.field import ErrorList
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
from cathedra.releases import FeatureGates

T = TypeVar("T", bound=KubeObject)
Cells = Callable[[Any, float], list[Any]]


def _unchanged(obj: Any) -> Any:
    return obj


@dataclass(frozen=True, slots=True)
class BuiltinKind(Generic[T]):
    """A kind of one version. Its struct is both the form of that version and the stored form."""

    type: type[T]
    plural: str
    _: KW_ONLY
    namespaced: bool
    default: Callable[[Any], Any] = _unchanged
    """Return the object with its defaults."""
    rules: ObjectRules = NO_RULES
    drop_disabled: Callable[[Any, Any, FeatureGates], Any] | None = None
    """Return a new or changed object without fields behind closed gates; the second is the stored object or None."""
    strategy: Strategy[T] | None = None
    """The strategy of the resource itself, instead of one made of ``default`` and ``rules``."""
    status: Strategy[T] | None = None
    """The strategy of ``status``, instead of the usual one."""
    status_rules: Callable[[Any, Any], ErrorList] | None = None
    """Return the errors of a changed status, given the new object and the old one."""
    subresources: Mapping[str, Strategy[T]] = field(default_factory=dict)
    """Writable sub-resources besides ``status``."""
    connected: tuple[ConnectedSubresource, ...] = ()
    """Sub-resources with kinds of their own."""
    table: tuple[tuple[Column, ...], Cells] = (GENERIC_COLUMNS, generic_cells)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    field_selectors: Mapping[str, Callable[[T], str]] = field(default_factory=dict)
    indexed_fields: tuple[str, ...] = ()
    """Selectable fields that the API server indexes, as in `ResourceDefinition`."""
    counts_generation: bool = False
    """True if a changed spec increments ``metadata.generation``."""
    created_by_update: bool = False
    """True if a PUT of an object that does not exist creates it."""
    returns_deleted_object: bool = False
    """True if DELETE answers with the object that is gone, False if with a Status."""
    served_by_default: bool = True
    gate: str = ""
    """The feature gate without which the kind is not served."""
    deletion: DeletionRules[T] = field(default_factory=DeletionRules)
    verbs: tuple[str, ...] = ALL_VERBS
    scalable: bool = False
    name_rule: Format = dns_subdomain

    def definition(self) -> ResourceDefinition[T]:
        """Return the definition that API server, discovery, OpenAPI and tables use."""
        gvk = kind_of(self.type)
        columns, cells = self.table
        return ResourceDefinition(
            group=gvk.group,
            kind=gvk.kind,
            plural=self.plural,
            singular=gvk.kind.lower(),
            namespaced=self.namespaced,
            type=self.type,
            versions=(VersionDefinition(gvk.version, self.type, served_by_default=self.served_by_default),),
            strategy=self._chosen_strategy(),
            subresources={**self._status_strategy(), **self.subresources},
            connected=self.connected,
            short_names=self.short_names,
            categories=self.categories,
            columns=columns,
            cells=cells,
            field_selectors=self.field_selectors,
            indexed_fields=self.indexed_fields,
            gate=self.gate,
            deletion=self.deletion,
            verbs=self.verbs,
            scalable=self.scalable,
            name_rule=self.name_rule,
        )

    def _has_status(self) -> bool:
        # Both are needed: a kind with a spec alone, as NetworkPolicy, has no sub-resource for controllers to write.
        return {"spec", "status"} <= set(self.type.__struct_fields__)

    def _status_strategy(self) -> dict[str, Strategy[T]]:
        if not self._has_status():
            return {}
        if self.status is not None:
            return {"status": self.status}
        if self.status_rules is None:
            return {"status": StatusStrategy(self.default)}
        return {"status": StatusStrategy(self.default, self.status_rules)}

    def _chosen_strategy(self) -> Strategy[T]:
        chosen = self.strategy
        if chosen is None:
            kind = GenerationStrategy if self.counts_generation else SpecStrategy
            chosen = (kind if self._has_status() else DefaultedStrategy)(self.default, self.rules)
        if self.drop_disabled is not None and isinstance(chosen, DefaultedStrategy):
            chosen.drop_disabled = self.drop_disabled
        # Strategies are made for one definition each, so writing to the instance affects no other kind.
        chosen.returns_deleted_object = self.returns_deleted_object
        chosen.allow_create_on_update = self.created_by_update or chosen.allow_create_on_update
        return chosen
