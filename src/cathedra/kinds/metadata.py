"""Rules of object metadata, common to all kinds (docs/spec/apimachinery.md §4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final

from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import (
    check,
    dns_label,
    label_key,
    label_value,
    masked,
    path_segment,
    problems_of,
    qualified_name,
)
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.struct import to_dict
from cathedra.kinds.definition import AnyDefinition
from cathedra.kinds.identity import KnownValues

__all__ = [
    "METADATA",
    "validate_annotations",
    "validate_changed_metadata",
    "validate_labels",
    "validate_new_metadata",
    "validate_path_name",
]

MAX_ANNOTATIONS: Final = 256 * 1024
METADATA: Final = FieldPath("metadata")
_IMMUTABLE: Final = (
    ("name", "name"),
    ("namespace", "namespace"),
    ("uid", "uid"),
    ("deletion_timestamp", "deletionTimestamp"),
    ("deletion_grace_period_seconds", "deletionGracePeriodSeconds"),
)
_fixed: Final = attrgetter(*(attribute for attribute, _ in _IMMUTABLE))
STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_LONGEST: Final = 317
"""Characters of the longest name with a prefix: a key or a finalizer with more is not sound."""
_SOUND_FINALIZERS: Final = KnownValues()
"""Finalizers, one alone on an object, in which no rule found anything wrong."""
_SOUND_KEYS: Final = KnownValues()
"""Keys of annotations, the same."""
_SOUND_LABELS: Final = KnownValues()
"""Keys of labels with their values, the same."""


def validate_new_metadata(definition: AnyDefinition, metadata: ObjectMeta) -> ErrorList:
    """What is wrong with a new object's metadata, by its kind's own rule for names."""
    errors = ErrorList()
    problems = definition.name_rule
    if metadata.generate_name and definition.checks_generate_name:
        for problem in problems(masked(metadata.generate_name)):
            errors.invalid(METADATA.child("generateName"), metadata.generate_name, problem)
    if not metadata.name:
        errors.required(METADATA.child("name"), "name or generateName is required")
    else:
        for problem in problems(metadata.name):
            errors.invalid(METADATA.child("name"), metadata.name, problem)
    if definition.namespaced:
        if not metadata.namespace:
            errors.required(METADATA.child("namespace"))
        else:
            for problem in problems_of(dns_label, metadata.namespace):
                errors.invalid(METADATA.child("namespace"), metadata.namespace, problem)
    elif metadata.namespace:
        errors.forbidden(METADATA.child("namespace"), "not allowed on this type")
    if metadata.generation < 0:
        errors.invalid(METADATA.child("generation"), metadata.generation, "must be greater than or equal to 0")
    _shared_errors(errors, metadata)
    if metadata.finalizers:
        _all_finalizer_errors(errors, metadata.finalizers)
    return errors


def validate_path_name(metadata: ObjectMeta) -> ErrorList:
    """What is wrong with any name at all: it must stand in a URL."""
    errors = ErrorList()
    for problem in path_segment(metadata.name):
        errors.invalid(METADATA.child("name"), metadata.name, problem)
    return errors


def validate_changed_metadata(new: ObjectMeta, old: ObjectMeta, *, rounds: int) -> ErrorList:
    """What is wrong with a change of metadata, told as often as Kubernetes looks at it.

    What is common to all kinds takes it as if it were new, and compares it with the old one. Then the kind compares
    once more; with two ``rounds`` it also takes it as if it were new once more; with none, for sub-resources that
    cannot change it, all that is done is to compare. Only kinds know the finalizers of Kubernetes itself.
    """
    errors = ErrorList()
    if old.deletion_timestamp is not None or new.generation < old.generation or _fixed(new) != _fixed(old):
        _compare(errors, new, old)
    elif new.labels or new.annotations or new.owner_references:
        _shared_errors(errors, new)
    if rounds and new.finalizers:
        _all_finalizer_errors(errors, new.finalizers)
    return _as_often_as_told(new, old, rounds) if errors else errors


def _as_often_as_told(new: ObjectMeta, old: ObjectMeta, rounds: int) -> ErrorList:
    """Everything that is wrong, with the repetitions. It is worked out for metadata in which something is wrong alone:
    what is fine at the first look is so at every other."""
    errors = ErrorList()
    if rounds:
        _shared_errors(errors, new)
        _finalizer_errors(errors, new.finalizers)
    _compare(errors, new, old)
    if rounds > 1:
        _shared_errors(errors, new)
        _all_finalizer_errors(errors, new.finalizers)
    _compare(errors, new, old)
    if rounds:
        _standard_finalizer_errors(errors, new.finalizers)
    return errors


def _compare(errors: ErrorList, new: ObjectMeta, old: ObjectMeta) -> None:
    if old.deletion_timestamp is not None:
        known = frozenset(old.finalizers)
        added = [finalizer for finalizer in new.finalizers if finalizer not in known]
        if added:
            shown = ", ".join(f'"{finalizer}"' for finalizer in sorted(added))
            errors.forbidden(
                METADATA.child("finalizers"),
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{shown}}}",
            )
    if new.generation < old.generation:
        errors.invalid(METADATA.child("generation"), new.generation, "must not be decremented")
    if _fixed(new) != _fixed(old):
        for attribute, name in _IMMUTABLE:
            if getattr(new, attribute) != getattr(old, attribute):
                errors.invalid(METADATA.child(name), getattr(new, attribute), "field is immutable")
    _shared_errors(errors, new)


def _shared_errors(errors: ErrorList, metadata: ObjectMeta) -> None:
    if metadata.labels:
        validate_labels(errors, METADATA.child("labels"), metadata.labels)
    if metadata.annotations:
        validate_annotations(errors, METADATA.child("annotations"), metadata.annotations)
    if metadata.owner_references:
        _owner_errors(errors, metadata.owner_references)


def _owner_errors(errors: ErrorList, owners: tuple[OwnerReference, ...]) -> None:
    path = METADATA.child("ownerReferences")
    controller: OwnerReference | None = None
    shown: list[JSONObject] = []  # all owners; one list for all errors that show it
    for owner in owners:
        if owner.api_version[-1:] in ("", "/"):
            errors.invalid(path.child("apiVersion"), owner.api_version, "version must not be empty")
        if not owner.kind:
            errors.invalid(path.child("kind"), owner.kind, "must not be empty")
        if not owner.name:
            errors.invalid(path.child("name"), owner.name, "must not be empty")
        if not owner.uid:
            errors.invalid(path.child("uid"), owner.uid, "must not be empty")
        if owner.api_version == "v1" and owner.kind == "Event":
            errors.invalid(path, _shown(owner), "/v1, Kind=Event is disallowed from being an owner")
        if owner.controller:
            if controller is not None:
                shown = shown or [_shown(reference) for reference in owners]
                errors.invalid(
                    path,
                    shown,
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller.kind}/{controller.name} and {owner.kind}/{owner.name}",
                )
            controller = owner


def _all_finalizer_errors(errors: ErrorList, finalizers: tuple[str, ...]) -> None:
    """What the rules of all kinds find, and then what those of Kubernetes' own kinds do."""
    if len(finalizers) == 1 and finalizers[0] in _SOUND_FINALIZERS:
        return
    before = len(errors)
    _finalizer_errors(errors, finalizers)
    _standard_finalizer_errors(errors, finalizers)
    if len(finalizers) == 1 and len(errors) == before:
        _SOUND_FINALIZERS.note(finalizers[0])


def _finalizer_errors(errors: ErrorList, finalizers: tuple[str, ...]) -> None:
    path = METADATA.child("finalizers")
    for finalizer in finalizers:
        for problem in qualified_name(finalizer):
            errors.invalid(path, finalizer, problem)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        errors.invalid(path, list(finalizers), "finalizer orphan and foregroundDeletion cannot be both set")


def _standard_finalizer_errors(errors: ErrorList, finalizers: tuple[str, ...]) -> None:
    for position, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            path = METADATA.child("finalizers").index(position)
            errors.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")


def _shown(owner: OwnerReference) -> JSONObject:
    """An owner in the order in which Kubernetes writes its fields."""
    plain = to_dict(owner)
    order = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    return {key: plain[key] for key in order if key in plain}


def validate_labels(errors: ErrorList, path: FieldPath, labels: Mapping[str, str]) -> None:
    """Keys and values of labels."""
    if _SOUND_LABELS.issuperset(labels.items()):
        return
    before = len(errors)
    for key, value in sorted(labels.items()):
        check(errors, path, key, label_key)
        check(errors, path, value, label_value)
    if len(errors) == before:
        _SOUND_LABELS.note(*labels.items())


def validate_annotations(errors: ErrorList, path: FieldPath, annotations: Mapping[str, str]) -> None:
    """Keys of annotations, and the size of all together."""
    is_known = _SOUND_KEYS.issuperset(annotations)
    if not is_known:
        _key_errors(errors, path, annotations)
    # A character is four bytes at most; to encode them all would cost more than the rest.
    longest = _LONGEST * len(annotations) if is_known else sum(map(len, annotations))
    if 4 * (longest + sum(map(len, annotations.values()))) > MAX_ANNOTATIONS and _bytes(annotations) > MAX_ANNOTATIONS:
        errors.too_long(path, MAX_ANNOTATIONS)


def _key_errors(errors: ErrorList, path: FieldPath, keys: Iterable[str]) -> None:
    before = len(errors)
    for key in sorted(keys):
        # Annotation keys may have upper-case letters in their prefix.
        for problem in qualified_name(key.lower()):
            errors.invalid(path, key, problem)
    if len(errors) == before:
        _SOUND_KEYS.note(*keys)


def _bytes(annotations: Mapping[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
