"""AdmissionReviews: requests to a webhook, its answers, and their validation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from cathedra.api.core.admission_v1 import AdmissionResponse
from cathedra.api.core.meta_v1 import Status
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.nesting import WRAPPED_DEPTH, load_json
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict, replace
from cathedra.apiserver.admission.versioned import VersionedAttributes
from cathedra.kinds.definition import VersionDefinition

GROUP: Final = "admission.k8s.io"
KIND: Final = "AdmissionReview"
VERSIONS: Final = ("v1", "v1beta1")
"""Supported versions of the review, the preferred one first."""
_BAD_REQUEST: Final = 400


class WebhookCallFailed(Exception):
    """A webhook could not be called, or its answer is invalid; the failure policy decides what follows."""


class WebhookAnswer(msgspec.Struct, frozen=True):
    """The answer of a webhook."""

    allowed: bool
    status: Status
    patch: Any = None
    """JSON patch operations; None leaves the object as it is."""
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = {}


def review_of(view: VersionedAttributes, shown: VersionDefinition, version: str, uid: str) -> JSONObject:
    """Return the review of a request, with its objects in the version that the webhook takes."""
    request = {"uid": uid, **view.attributes(shown)}
    request["object"] = view.object(shown)
    request["oldObject"] = view.old_object(shown)
    return {"kind": KIND, "apiVersion": f"{GROUP}/{version}", "request": request}


def verdict_of(body: bytes, version: str, uid: str, *, may_patch: bool) -> WebhookAnswer:
    """Decode the answer in a body.

    Raises:
        WebhookCallFailed: it is not a valid review.
    """
    try:
        review = load_json(body, WRAPPED_DEPTH)
    except (msgspec.DecodeError, ValueError) as error:
        raise WebhookCallFailed(f"failed to call webhook: {error}") from None
    wanted = (f"{GROUP}/{version}", KIND)
    found = (review.get("apiVersion"), review.get("kind")) if isinstance(review, dict) else (None, None)
    if found != wanted:
        raise _invalid(f"expected webhook response of {wanted[0]}, Kind={wanted[1]}, got {found[0]}, Kind={found[1]}")
    if not isinstance(review.get("response"), dict):
        raise _invalid("webhook response was absent")
    try:
        response = from_dict(AdmissionResponse, review["response"])
    except (msgspec.ValidationError, ValueError) as error:
        raise WebhookCallFailed(f"failed to call webhook: {error}") from None
    # An answer to another review, as from a confused proxy, must not decide about this request.
    if response.uid != uid:
        raise _invalid(f"expected response.uid={json.dumps(uid)}, got {json.dumps(response.uid)}")
    return WebhookAnswer(
        allowed=response.allowed,
        status=response.status or Status(),
        patch=_patch(response) if may_patch else None,
        warnings=response.warnings,
        annotations=response.audit_annotations,
    )


def rejection(webhook: str, said: Status) -> StatusError:
    """Return the error of a request that a webhook denied."""
    denied = f"admission webhook {json.dumps(webhook)} denied the request"
    why = said.message or said.reason
    return StatusError(
        replace(
            said,
            status="Failure",
            # A webhook may set no code, or one of success: Kubernetes answers 400 then.
            code=said.code if said.code >= _BAD_REQUEST else _BAD_REQUEST,
            message=f"{denied}: {why}" if why else f"{denied} without explanation",
        )
    )


def _patch(response: AdmissionResponse) -> Any:
    kind = response.patch_type
    if not response.patch and kind is None:
        return None
    if not response.patch:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if kind is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if kind != "JSONPatch":
        raise _invalid(f'invalid value of response.patchType "{kind}"')
    try:
        return load_json(response.patch)
    except (ValueError, msgspec.DecodeError) as error:
        raise _invalid(f"response.patch cannot be decoded: {error}") from None


def _invalid(why: str) -> WebhookCallFailed:
    return WebhookCallFailed(f"received invalid webhook response: {why}")
