"""The default roles."""

from __future__ import annotations

from cathedra.api.struct import replace
from cathedra.apiserver.bootstrap.roles import reconcile_roles
from cathedra.client.resources import CLUSTERROLES
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded, rule


@run_with(guarded)
async def test_default_roles_come_back_unless_they_are_to_be_left_alone(api: Guarded) -> None:
    roles = api.admin.resource(CLUSTERROLES)
    for name, automatic in (("system:kube-scheduler", True), ("system:node-proxier", False)):
        role = await roles.get(name)
        metadata = role.metadata
        if not automatic:
            metadata = replace(metadata, annotations={"rbac.authorization.kubernetes.io/autoupdate": "false"})
        await roles.update(replace(role, metadata=metadata, rules=(rule("get", "mine"),)))
    await reconcile_roles(api.server.context)
    scheduler = await roles.get("system:kube-scheduler")
    assert rule("get", "mine") in (scheduler.rules or ())
    assert len(scheduler.rules or ()) > 10
    assert (await roles.get("system:node-proxier")).rules == (rule("get", "mine"),)
    before = api.server.revision
    await reconcile_roles(api.server.context)
    assert api.server.revision == before
