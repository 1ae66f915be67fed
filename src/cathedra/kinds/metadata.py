"""Rules of object metadata, common to all kinds (docs/spec/apimachinery.md §4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import not_
from typing import Final, Protocol

from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.field import ErrorList, FieldError, FieldPath
from cathedra.api.formats import (
    Format,
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
from cathedra.releases import FeatureGates, behaviours
from cathedra.remembering import IDENTITY, remembered

MAX_ANNOTATIONS: Final = 256 * 1024
METADATA: Final = FieldPath("metadata")
_LABELS: Final = METADATA.child("labels")
_ANNOTATIONS: Final = METADATA.child("annotations")
_OWNERS: Final = METADATA.child("ownerReferences")
_FINALIZERS: Final = METADATA.child("finalizers")
_IMMUTABLE: Final = "field is immutable"
_FEW_LABELS: Final = 8
"""Number of labels up to which it is remembered that they have no errors."""
STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


class NamedKind(Protocol):
    """A kind as far as its metadata is concerned."""

    @property
    def namespaced(self) -> bool:
        """Return True if objects of the kind are in a namespace."""

    @property
    def name_rule(self) -> Format:
        """Return the rule of names."""

    @property
    def checks_generate_name(self) -> bool:
        """Return True if the beginning of a generated name is validated too."""


def validate_new_metadata(definition: NamedKind, metadata: ObjectMeta, gates: FeatureGates) -> ErrorList:
    """Return the errors of a new object's metadata, by its kind's own rule for names."""
    errors = ErrorList()
    problems = definition.name_rule
    if metadata.generate_name and definition.checks_generate_name:
        # Masked, because a prefix may end with a dash that a complete name may not end with.
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
    errors.extend(_shared_errors(metadata, gates))
    if metadata.finalizers:
        errors += _finalizer_errors(metadata.finalizers)
        errors += _standard_finalizer_errors(metadata.finalizers)
    return errors


def validate_path_name(metadata: ObjectMeta) -> ErrorList:
    """Return the errors of any name at all: it must stand in a URL."""
    errors = ErrorList()
    for problem in path_segment(metadata.name):
        errors.invalid(METADATA.child("name"), metadata.name, problem)
    return errors


def validate_changed_metadata(new: ObjectMeta, old: ObjectMeta, gates: FeatureGates, *, rounds: int) -> ErrorList:
    """Return the errors of changed metadata, each as often as Kubernetes reports it.

    The rules of all kinds apply first: those of new metadata, then the comparison with the old. The kind then compares
    again. With two ``rounds`` it also applies the rules of new metadata again. With none, as for sub-resources that
    cannot change metadata, only the comparisons are made. Only kinds know Kubernetes' own finalizers.
    """
    # Kubernetes runs the same rules two to four times. We run each once and repeat its errors.
    compared, shared = _compared(new, old), _shared_errors(new, gates)
    own: Sequence[FieldError] = ()
    standard: Sequence[FieldError] = ()
    if rounds and new.finalizers:
        own, standard = _finalizer_errors(new.finalizers), _standard_finalizer_errors(new.finalizers)
    if not (compared or shared or own or standard):  # as most changes
        return compared
    compared.extend(shared)
    # Clients see the repeated errors in the Status' message, and recorded answers hold them.
    first = (shared, own) if rounds else ()
    second = (shared, own, standard) if rounds > 1 else ()
    return ErrorList(chain(*first, compared, *second, compared, standard))


def _compared(new: ObjectMeta, old: ObjectMeta) -> ErrorList:
    errors = ErrorList()
    if old.deletion_timestamp is not None:
        # Deletion has begun: another finalizer would postpone it for ever. Those that are there may only be removed.
        known = frozenset(old.finalizers)
        added = [finalizer for finalizer in new.finalizers if finalizer not in known]
        if added:
            shown = ", ".join(f'"{finalizer}"' for finalizer in sorted(added))
            errors.forbidden(
                _FINALIZERS,
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{shown}}}",
            )
    if new.generation < old.generation:
        errors.invalid(METADATA.child("generation"), new.generation, "must not be decremented")
    if new.name != old.name:
        errors.invalid(METADATA.child("name"), new.name, _IMMUTABLE)
    if new.namespace != old.namespace:
        errors.invalid(METADATA.child("namespace"), new.namespace, _IMMUTABLE)
    if new.uid != old.uid:
        errors.invalid(METADATA.child("uid"), new.uid, _IMMUTABLE)
    if new.deletion_timestamp != old.deletion_timestamp:
        errors.invalid(METADATA.child("deletionTimestamp"), new.deletion_timestamp, _IMMUTABLE)
    if new.deletion_grace_period_seconds != old.deletion_grace_period_seconds:
        value = new.deletion_grace_period_seconds
        errors.invalid(METADATA.child("deletionGracePeriodSeconds"), value, _IMMUTABLE)
    return errors


def _shared_errors(metadata: ObjectMeta, gates: FeatureGates) -> Sequence[FieldError]:
    """Return the errors in what new and changed metadata have in common."""
    labels, annotations, owners = metadata.labels, metadata.annotations, metadata.owner_references
    if annotations or owners:
        return _errors_of(labels, annotations, owners, gates)
    # Labels alone are remembered by their values: new objects with equal labels are many.
    return _label_errors(_LABELS, labels) if labels else ()


# An object shares these three with the state before nearly every write.
@remembered("metadata without errors", key=IDENTITY, size=512, keep=not_)
def _errors_of(
    labels: Mapping[str, str], annotations: Mapping[str, str], owners: tuple[OwnerReference, ...], gates: FeatureGates
) -> Sequence[FieldError]:
    errors = ErrorList()
    if labels:
        validate_labels(errors, _LABELS, labels)
    if annotations:
        validate_annotations(errors, _ANNOTATIONS, annotations)
    if owners:
        _owner_errors(errors, owners, requires=gates.has(behaviours.METADATA_REQUIRES_FIELDS))
    return tuple(errors)


def _owner_errors(errors: ErrorList, owners: tuple[OwnerReference, ...], *, requires: bool) -> None:
    """Report the errors of owners; with ``requires`` in the form of 1.37."""
    path = _OWNERS
    controller: OwnerReference | None = None
    shown: list[JSONObject] = []  # all owners; one list for all errors that show it
    for position, owner in enumerate(owners):
        version = owner.api_version
        # A text with two slashes is no group and version, so that it has no version either.
        has_version = version[-1:] not in ("", "/") and version.count("/") < 2
        # Fast path: nearly every owner is complete.
        if not (has_version and owner.kind and owner.name and owner.uid) or owner.kind == "Event":
            where = path.index(position) if requires else path
            _owner_field_errors(errors, where, owner, has_version=has_version, requires=requires)
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


def _owner_field_errors(
    errors: ErrorList, where: FieldPath, owner: OwnerReference, *, has_version: bool, requires: bool
) -> None:
    version = owner.api_version
    if requires and not version:
        errors.required(where.child("apiVersion"), "must not be empty")
    elif not has_version:
        text = "must be <group>/<version> or <version>" if requires else "version must not be empty"
        errors.invalid(where.child("apiVersion"), version, text)
    for name, value in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
        if value:
            continue
        if requires:
            errors.required(where.child(name), "must not be empty")
        else:
            errors.invalid(where.child(name), value, "must not be empty")
    # Events expire. The garbage collector would delete their dependents an hour later.
    if owner.kind == "Event" and version == "v1":
        errors.invalid(where, _shown(owner), "/v1, Kind=Event is disallowed from being an owner")


def _finalizer_errors(finalizers: tuple[str, ...]) -> ErrorList:
    errors = ErrorList()
    for finalizer in finalizers:
        for problem in qualified_name(finalizer):
            errors.invalid(_FINALIZERS, finalizer, problem)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        errors.invalid(_FINALIZERS, list(finalizers), "finalizer orphan and foregroundDeletion cannot be both set")
    return errors


def _standard_finalizer_errors(finalizers: tuple[str, ...]) -> ErrorList:
    errors = ErrorList()
    for position, finalizer in enumerate(finalizers):
        check_finalizer(errors, _FINALIZERS.index(position), finalizer)
    return errors


def check_finalizer(errors: ErrorList, path: FieldPath, finalizer: str) -> None:
    """Report a finalizer that is neither one of Kubernetes' own nor has a domain."""
    if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
        errors.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")


def _shown(owner: OwnerReference) -> JSONObject:
    """Return an owner with its fields in the order in which Kubernetes writes them."""
    plain = to_dict(owner)
    order = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    return {key: plain[key] for key in order if key in plain}


def validate_labels(errors: ErrorList, path: FieldPath, labels: Mapping[str, str]) -> None:
    """Validate keys and values of labels."""
    errors.extend(_label_errors(path, labels))


def _items(path: FieldPath, labels: Mapping[str, str]) -> tuple[object, ...] | None:
    # Objects with more labels are rare, and a client could fill the memo with megabytes of them.
    return (path, *labels.items()) if len(labels) <= _FEW_LABELS else None


# Objects of one workload have equal labels. By identity, each new object would be validated anew.
@remembered("labels without errors", key=_items, size=64, keep=not_)
def _label_errors(path: FieldPath, labels: Mapping[str, str]) -> ErrorList:
    errors = ErrorList()
    for key, value in sorted(labels.items()):
        check(errors, path, key, label_key)
        check(errors, path, value, label_value)
    return errors


def validate_annotations(errors: ErrorList, path: FieldPath, annotations: Mapping[str, str]) -> None:
    """Validate keys of annotations, and the size of all together."""
    length = 0
    # Keys are few and remembered each.
    for key in sorted(annotations) if len(annotations) > 1 else annotations:
        length += len(key) + len(annotations[key])
        # Annotation keys may have upper-case letters in their prefix.
        for problem in qualified_name(key.lower()):
            errors.invalid(path, key, problem)
    # A character has at most four bytes. Encoding every text would cost more than all other rules of metadata.
    if 4 * length > MAX_ANNOTATIONS and _bytes(annotations) > MAX_ANNOTATIONS:
        errors.too_long(path, MAX_ANNOTATIONS)


def _bytes(annotations: Mapping[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
