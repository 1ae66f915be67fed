"""Client certificates of kubelets are approved for those who may have them."""

from __future__ import annotations

import pytest

from tests.unit.apiserver.guarded import Guarded, guarded
from tests.unit.controllers.certificates.requests import BOOTSTRAPPER, asked, joined


def test_a_bootstrapping_kubelet_is_approved() -> None:
    async def body(api: Guarded) -> None:
        done = await joined(api, asked("system:node:n1"))
        assert (done.spec.username, "forged" in done.spec.groups) == (BOOTSTRAPPER, False)
        (condition,) = done.status.conditions
        assert (condition.type, condition.reason) == ("Approved", "AutoApproved")
        assert condition.message == "Auto approving kubelet client certificate after SubjectAccessReview."
        assert condition.last_update_time is not None

    guarded(body)


@pytest.mark.parametrize("pem", [asked("admin", group="system:masters"), asked("system:node:n1", host="n1")])
def test_other_subjects_are_not_approved(pem: bytes) -> None:
    async def body(api: Guarded) -> None:
        done = await joined(api, pem)
        assert (done.status.conditions, done.status.certificate) == ((), b"")

    guarded(body)


def test_other_signers_are_left_to_people() -> None:
    async def body(api: Guarded) -> None:
        done = await joined(api, asked("system:node:n1"), signer="kubernetes.io/kube-apiserver-client")
        assert done.status.conditions == ()

    guarded(body)
