"""A token is requested when it is needed and used for nine tenths of its validity; a missing account is created."""

from __future__ import annotations

from cathedra.client.resources import SERVICEACCOUNTS
from cathedra.client.serviceaccounts import LIFE, USED, AccountTokens
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded

MANAGER = "system:kube-controller-manager"


@run_with(guarded)
async def test_the_controller_managers_own_rights_are_enough(api: Guarded) -> None:
    tokens = AccountTokens(api.of(MANAGER), "kube-system", "job-controller", api.clock)
    token = await tokens.current()
    found = api.server.context.tokens.review(token, ("https://kubernetes.default.svc.cluster.local",))
    accounts = await api.admin.resource(SERVICEACCOUNTS, "kube-system").list()
    assert [account.metadata.name for account in accounts.items] == ["job-controller"]
    assert found is not None
    assert found[0].name == "system:serviceaccount:kube-system:job-controller"


@run_with(guarded)
async def test_a_token_is_kept_until_nine_tenths_of_its_life_are_over(api: Guarded) -> None:
    tokens = AccountTokens(api.of(MANAGER), "kube-system", "job-controller", api.clock)
    first = await tokens.current()
    await api.clock.sleep(LIFE * USED - 5)
    assert await tokens.current() == first
    await api.clock.sleep(10)
    assert await tokens.current() != first


@run_with(guarded)
async def test_a_refused_token_is_replaced_once(api: Guarded) -> None:
    tokens = AccountTokens(api.of(MANAGER), "kube-system", "job-controller", api.clock)
    first = await tokens.current()
    await api.clock.sleep(1)
    assert await tokens.replaced(first)
    second = await tokens.current()
    assert second != first
    assert await tokens.replaced(first), "another request has renewed it meanwhile"
    assert await tokens.current() == second
