"""Rights to approve and sign requests for certificates."""

from __future__ import annotations

from cathedra.api.struct import replace
from cathedra.client.resources import CERTIFICATESIGNINGREQUESTS
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded, refused, rule, user
from tests.unit.controllers.certificates.requests import APPROVED, KUBELET_CLIENT, asked, request


@run_with(guarded)
async def test_to_approve_takes_the_right_to_approve_for_that_signer(api: Guarded) -> None:
    made = await api.admin.resource(CERTIFICATESIGNINGREQUESTS).create(request(asked("system:node:n1")))
    approved = replace(made, status=replace(made.status, conditions=(APPROVED,)))
    doors = "certificatesigningrequests/approval certificatesigningrequests/status"
    await api.role("doors", rule("update", doors, "certificates.k8s.io"))
    await api.bind("doors", user("alice"))
    alice = api.of("alice").resource(CERTIFICATESIGNINGREQUESTS)
    assert "user not permitted to approve requests with signerName" in await refused(
        alice.update(approved, subresource="approval")
    )
    issued = replace(made, status=replace(made.status, certificate=b"forged"))
    assert "user not permitted to sign requests" in await refused(alice.update(issued, subresource="status"))
    kept = await api.admin.resource(CERTIFICATESIGNINGREQUESTS).update(approved, subresource="status")
    assert kept.status.conditions == (), "approving has a sub-resource of its own"


@run_with(guarded)
async def test_the_right_may_be_given_for_one_signer_or_for_all_of_a_domain(api: Guarded) -> None:
    requests = api.admin.resource(CERTIFICATESIGNINGREQUESTS)
    for name, signers in (("one", KUBELET_CLIENT), ("domain", "kubernetes.io/*"), ("other", "example.com/*")):
        approving = rule("approve", "signers", "certificates.k8s.io", names=signers)
        changing = rule("update", "certificatesigningrequests/approval", "certificates.k8s.io")
        await api.role(name, approving, changing)
        await api.bind(name, user(name))
    for name, allowed in (("one", True), ("domain", True), ("other", False)):
        await requests.delete_collection()
        made = await requests.create(request(asked("system:node:n1")))
        approved = replace(made, status=replace(made.status, conditions=(APPROVED,)))
        attempt = api.of(name).resource(CERTIFICATESIGNINGREQUESTS).update(approved, subresource="approval")
        if allowed:
            assert (await attempt).status.conditions
        else:
            assert "user not permitted to approve" in await refused(attempt)


@run_with(guarded)
async def test_a_client_certificate_of_masters_is_never_asked_for(api: Guarded) -> None:
    wanted = request(asked("me", group="system:masters"), signer="kubernetes.io/kube-apiserver-client")
    message = await refused(api.admin.resource(CERTIFICATESIGNINGREQUESTS).create(wanted))
    assert "signer with system:masters group is not allowed" in message
