"""What is attached for a claim, kept in the claim itself: an annotation, and a finalizer as long as there is any.

A controller has no disk, and the status forgets the devices when the claim is deallocated; so what has to be detached
is written into the claim before it is attached, in one write with the finalizer that keeps the claim until it is
detached. The record names the claim's UID: in the copy of a claim it says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from cathedra.api.resource import ResourceClaim
from cathedra.client.objects import with_metadata
from cathedra.driver.fabric.driver import Attachment

__all__ = ["annotation_of", "finalizer_of", "recorded", "with_record"]


def annotation_of(driver: str) -> str:
    """The annotation with the record of ``driver``."""
    return f"{driver}/attachments"


def finalizer_of(driver: str) -> str:
    """The finalizer of claims with a record of ``driver``."""
    return f"{driver}/attached"


def recorded(claim: ResourceClaim, driver: str) -> frozenset[Attachment]:
    """What ``driver`` may have attached for the claim; nothing if the record is not one of this claim."""
    try:
        document = json.loads(claim.metadata.annotations.get(annotation_of(driver), "{}"))
        if document.get("uid") != claim.metadata.uid:
            return frozenset()
        return frozenset(map(_decoded, document["devices"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        # Users may write to annotations of their claims; what is written here by another hand is no record.
        return frozenset()


def with_record(claim: ResourceClaim, driver: str, attachments: Iterable[Attachment]) -> ResourceClaim:
    """The claim with that record, and the finalizer if it is not empty."""
    key, finalizer = annotation_of(driver), finalizer_of(driver)
    annotations = {name: text for name, text in claim.metadata.annotations.items() if name != key}
    finalizers = tuple(name for name in claim.metadata.finalizers if name != finalizer)
    devices = [_encoded(one) for one in sorted(attachments, key=lambda one: (one.pool, one.device, one.share_id or ""))]
    if devices:
        annotations[key] = json.dumps({"uid": claim.metadata.uid, "devices": devices}, separators=(",", ":"))
        finalizers = (*finalizers, finalizer)
    return with_metadata(claim, annotations=annotations, finalizers=finalizers)


def _encoded(attachment: Attachment) -> dict[str, str]:
    document = {"pool": attachment.pool, "device": attachment.device, "node": attachment.node}
    return document if attachment.share_id is None else {**document, "shareID": attachment.share_id}


def _decoded(document: dict[str, Any]) -> Attachment:
    return Attachment(document["pool"], document["device"], document["node"], document.get("shareID"))
