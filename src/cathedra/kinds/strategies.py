"""Strategies that most kinds share: spec and status kept apart, generations counted.

Most kinds need nothing but these; the others inherit and add their rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.kinds.declarative import TypeTags, with_tags
from cathedra.kinds.definition import RequestContext, Strategy
from cathedra.releases import FeatureGates

T = TypeVar("T", bound=KubeObject)


def _any_object(_: Any) -> ErrorList:
    return ErrorList()


def _any_change(_: Any, __: Any) -> ErrorList:
    return ErrorList()


def _no_warnings(_: Any, __: Any) -> Iterable[str]:
    return ()


def _all_enabled(obj: Any, _: Any, __: FeatureGates) -> Any:
    return obj


class ObjectRules(msgspec.Struct, frozen=True):
    """Validation that needs the objects alone."""

    create: Callable[[Any], ErrorList] = _any_object
    update: Callable[[Any, Any], ErrorList] = _any_change
    """The new object and the old one."""
    warnings: Callable[[Any, Any], Iterable[str]] = _no_warnings
    """The new object and the old one, None on create."""
    tags: TypeTags = TypeTags()
    """The tags of the kind's type."""


NO_RULES: Final = ObjectRules()
"""Whatever decodes is accepted."""


class DefaultedStrategy(Strategy[T]):
    """A kind without status: objects are stored as written, with defaults."""

    def __init__(self, default: Callable[[Any], Any] = lambda obj: obj, rules: ObjectRules = NO_RULES) -> None:
        self._default = default
        self._rules = rules
        self.drop_disabled: Callable[[Any, Any, FeatureGates], Any] = _all_enabled
        """Return a new or changed object without fields behind closed gates; the second is the stored object."""

    def default(self, obj: T, context: RequestContext) -> T:
        """Add the defaults of the kind."""
        filled: T = self._default(obj)
        return filled

    def prepare_create(self, obj: T, context: RequestContext) -> T:
        """Drop fields behind closed gates."""
        kept: T = self.drop_disabled(obj, None, context.gates)
        return kept

    def prepare_update(self, new: T, old: T, context: RequestContext) -> T:
        """Drop fields behind closed gates unless the stored object has them."""
        kept: T = self.drop_disabled(new, old, context.gates)
        return kept

    def validate_create(self, obj: T, context: RequestContext) -> ErrorList:
        """Check the rules of a new object."""
        return with_tags(self._rules.create(obj), self._rules.tags, obj, None, context.gates)

    def validate_update(self, new: T, old: T, context: RequestContext) -> ErrorList:
        """Check the rules of a change."""
        return with_tags(self._rules.update(new, old), self._rules.tags, new, old, context.gates)

    def warnings(self, new: T, old: T | None, context: RequestContext) -> Sequence[str]:
        """Warn of accepted values that are discouraged."""
        return tuple(self._rules.warnings(new, old))


class SpecStrategy(DefaultedStrategy[T]):
    """The main resource of a kind with status: it is emptied on create and kept on update."""

    def prepare_create(self, obj: T, context: RequestContext) -> T:
        """Empty the status: its sub-resource alone writes it."""
        return replace(super().prepare_create(obj, context), status=_empty_status(type(obj)))

    def prepare_update(self, new: T, old: T, context: RequestContext) -> T:
        """Keep the stored status."""
        # Status is written through its sub-resource alone: a client that sends back a whole object, as kubectl apply
        # and replace do, must not overwrite a status that its controller has written in the meantime.
        return replace(super().prepare_update(new, old, context), status=_parts(old).status)


class GenerationStrategy(SpecStrategy[T]):
    """A kind with status whose generation counts the changes of its spec."""

    def prepare_create(self, obj: T, context: RequestContext) -> T:
        """Empty the status and start counting."""
        return first_generation(super().prepare_create(obj, context))

    def prepare_update(self, new: T, old: T, context: RequestContext) -> T:
        """Keep the status, count a change of the spec."""
        return next_generation(super().prepare_update(new, old, context), old)


class StatusStrategy(Strategy[T]):
    """The sub-resource ``status``: everything but status and the freely changeable metadata is kept."""

    kept: Iterable[str] = ("spec",)
    reset_fields: tuple[str, ...] = ("spec",)

    def __init__(
        self,
        default: Callable[[Any], Any] = lambda obj: obj,
        rules: Callable[[Any, Any], ErrorList] = _any_change,
    ) -> None:
        """``rules`` return the errors of a changed status, given the new object and the old one."""
        self._default = default
        self._rules = rules

    def default(self, obj: T, context: RequestContext) -> T:
        """Add the defaults of the kind."""
        filled: T = self._default(obj)
        return filled

    def prepare_update(self, new: T, old: T, context: RequestContext) -> T:
        """Keep the stored spec."""
        return replace(new, **{name: getattr(old, name) for name in self.kept})

    def validate_update(self, new: T, old: T, context: RequestContext) -> ErrorList:
        """Return the errors of the new status."""
        return self._rules(new, old)


def _parts(obj: Any) -> Any:
    """``obj`` as what every kind with these strategies is: something with metadata, spec and status."""
    return obj


@cache
def _empty_status(kind: type[KubeObject]) -> Any:
    return _parts(kind()).status


def first_generation(obj: T) -> T:
    """Return the object as generation 1."""
    metadata = _parts(obj).metadata
    return replace(obj, metadata=replace(metadata, generation=1))


def next_generation(new: T, old: T) -> T:
    """Return the object with the stored generation, one higher if its spec changed."""
    generation = _parts(old).metadata.generation
    # Controllers compare generation with ``status.observedGeneration``. If an unchanged spec incremented it, each write
    # of equal content would make every controller reconcile again.
    if _parts(new).spec != _parts(old).spec:
        generation += 1
    metadata = _parts(new).metadata
    return replace(new, metadata=replace(metadata, generation=generation))


class CountedStrategy(DefaultedStrategy[Any]):
    """A kind without a status of its own whose generation counts."""

    def prepare_create(self, obj: Any, context: RequestContext) -> Any:
        """Start the generation at 1."""
        return first_generation(obj)

    def prepare_update(self, new: Any, old: Any, context: RequestContext) -> Any:
        """Increment the generation if the spec has changed."""
        if hasattr(new, "spec"):
            return next_generation(new, old)
        # Webhook configurations are the only kinds without a spec that count generations; all their content is in
        # ``webhooks``.
        generation = old.metadata.generation + (new.webhooks != old.webhooks)
        return replace(new, metadata=replace(new.metadata, generation=generation))


def kept_metadata(new: ObjectMeta, old: ObjectMeta) -> ObjectMeta:
    """Return the metadata of a status update: labels, annotations, finalizers and owners stay as they are stored."""
    # Compared by identity, not by value: an in-process client passes the stored tuples and dictionaries themselves. If
    # they are equal but not the same, they are replaced, which costs nothing but the copy.
    if (
        new.generation == old.generation
        and new.labels is old.labels
        and new.annotations is old.annotations
        and new.finalizers is old.finalizers
        and new.owner_references is old.owner_references
    ):
        return new
    return replace(
        new,
        generation=old.generation,
        labels=old.labels,
        annotations=old.annotations,
        finalizers=old.finalizers,
        owner_references=old.owner_references,
    )
