"""The answers of webhooks, read as Go reads them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from cathedra.apiserver.admission.webhooks.client import WebhookAnswer, WebhookCallFailed, rejection, verdict_of


def verdict(*, may_patch: bool = False, **response: Any) -> WebhookAnswer:
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u", **response}}
    return verdict_of(json.dumps(body).encode(), "v1", "u", may_patch=may_patch)


def test_null_is_nothing() -> None:
    nothing = dict.fromkeys(("status", "patch", "patchType", "auditAnnotations", "warnings"))
    assert verdict(may_patch=True, allowed=True, **nothing) == verdict(may_patch=True, allowed=True)
    assert verdict(allowed=None) == verdict()
    answer = verdict(allowed=True, warnings=["a", None], auditAnnotations={"k": None})
    assert (answer.warnings, answer.annotations) == (("a", ""), {"k": ""})


def test_a_refusal_with_nulls_keeps_its_message() -> None:
    status = {"metadata": None, "message": "no", "reason": None, "details": {"causes": None}, "code": 403}
    refusal = rejection("w", verdict(allowed=False, status=status).status)
    assert (refusal.code, str(refusal)) == (403, 'admission webhook "w" denied the request: no')


def test_a_patch_is_decoded() -> None:
    patch = base64.b64encode(b'[{"op":"add","path":"/a","value":null}]').decode()
    answer = verdict(may_patch=True, allowed=True, patch=patch, patchType="JSONPatch")
    assert answer.patch == [{"op": "add", "path": "/a", "value": None}]


@pytest.mark.parametrize(
    "response", [{"allowed": "yes"}, {"warnings": 7}, {"auditAnnotations": []}, {"patch": "no base64"}, {"status": 1}]
)
def test_an_answer_of_another_form_is_a_failed_call(response: dict[str, Any]) -> None:
    with pytest.raises(WebhookCallFailed, match="failed to call webhook: "):
        verdict(**response)
