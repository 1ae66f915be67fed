"""Rules of object metadata, common to all kinds (docs/spec/apimachinery.md §4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cathedra.api import formats
from cathedra.api.core import meta_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check

__all__ = ["validate_annotations", "validate_labels", "validate_metadata", "validate_metadata_update"]

MAX_ANNOTATIONS: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = frozenset(("orphan", "foregroundDeletion", "kubernetes"))
_METADATA: Final = FieldPath("metadata")


def validate_labels(errors: ErrorList, path: FieldPath, labels: Mapping[str, str]) -> None:
    """Keys and values of labels."""
    for key, value in sorted(labels.items()):
        check(errors, path, key, formats.label_key)
        check(errors, path, value, formats.label_value)


def validate_annotations(errors: ErrorList, path: FieldPath, annotations: Mapping[str, str]) -> None:
    """Keys of annotations, and the size of all together."""
    total = 0
    for key, value in sorted(annotations.items()):
        # Annotation keys may have upper-case letters in their prefix.
        for complaint in formats.qualified_name(key.lower()):
            errors.invalid(path, key, complaint)
        total += len(key.encode()) + len(value.encode())
    if total > MAX_ANNOTATIONS:
        errors.too_long(path, MAX_ANNOTATIONS)


def validate_metadata(
    metadata: meta_v1.ObjectMeta, *, namespaced: bool, name_format: formats.Format = formats.dns_subdomain
) -> ErrorList:
    """What is wrong with the metadata of any object."""
    errors = ErrorList()
    if metadata.generate_name:
        for complaint in name_format(formats.masked(metadata.generate_name)):
            errors.invalid(_METADATA.child("generateName"), metadata.generate_name, complaint)
    if not metadata.name:
        errors.required(_METADATA.child("name"), "name or generateName is required")
    else:
        check(errors, _METADATA.child("name"), metadata.name, name_format)
    namespace = _METADATA.child("namespace")
    if namespaced:
        if not metadata.namespace:
            errors.required(namespace)
        else:
            check(errors, namespace, metadata.namespace, formats.dns_label)
    elif metadata.namespace:
        errors.forbidden(namespace, "not allowed on this type")
    _common(errors, metadata)
    return errors


def _common(errors: ErrorList, metadata: meta_v1.ObjectMeta) -> None:
    if metadata.generation < 0:
        errors.invalid(_METADATA.child("generation"), metadata.generation, "must be greater than or equal to 0")
    validate_labels(errors, _METADATA.child("labels"), metadata.labels)
    validate_annotations(errors, _METADATA.child("annotations"), metadata.annotations)
    _owners(errors, metadata.owner_references)
    _finalizers(errors, metadata.finalizers)


def _owners(errors: ErrorList, owners: tuple[meta_v1.OwnerReference, ...]) -> None:
    path = _METADATA.child("ownerReferences")
    controller = ""
    for owner in owners:
        _, _slash, version = owner.api_version.rpartition("/")
        if not version:
            errors.invalid(path.child("apiVersion"), owner.api_version, "version must not be empty")
        for name, value in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
            if not value:
                errors.invalid(path.child(name), value, "must not be empty")
        if owner.api_version == "v1" and owner.kind == "Event":
            errors.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.controller:
            shown = f"{owner.kind}/{owner.name}"
            if controller:
                errors.invalid(
                    path,
                    owners,
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {shown}',
                )
            else:
                controller = shown


def _finalizers(errors: ErrorList, finalizers: tuple[str, ...]) -> None:
    path = _METADATA.child("finalizers")
    for position, finalizer in enumerate(finalizers):
        where = path.index(position)
        check(errors, where, finalizer, formats.qualified_name)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            errors.invalid(where, finalizer, "name is neither a standard finalizer name nor is it fully qualified")
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        errors.invalid(
            path,
            finalizers,
            "finalizer orphan and foregroundDeletion cannot be both set",
        )


def validate_metadata_update(new: meta_v1.ObjectMeta, old: meta_v1.ObjectMeta) -> ErrorList:
    """What metadata may not change; what it changes must be well-formed."""
    errors = ErrorList()
    if old.deletion_timestamp is not None:
        added = [finalizer for finalizer in new.finalizers if finalizer not in old.finalizers]
        if added:
            shown = ", ".join(f'"{finalizer}"' for finalizer in sorted(added))
            errors.forbidden(
                _METADATA.child("finalizers"),
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{shown}}}",
            )
    for name, after, before in (
        ("name", new.name, old.name),
        ("namespace", new.namespace, old.namespace),
        ("uid", new.uid, old.uid),
        ("creationTimestamp", new.creation_timestamp, old.creation_timestamp),
        ("deletionTimestamp", new.deletion_timestamp, old.deletion_timestamp),
        ("deletionGracePeriodSeconds", new.deletion_grace_period_seconds, old.deletion_grace_period_seconds),
    ):
        if after != before:
            errors.invalid(_METADATA.child(name), after, "field is immutable")
    _common(errors, new)
    return errors
