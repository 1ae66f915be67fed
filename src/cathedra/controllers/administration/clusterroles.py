"""Aggregated cluster roles get the rules of the roles that their selectors gather (docs/spec/controllers.md §11).

So ``view`` comes to include what a custom resource's author lets viewers see, by a label on a role of its own.
"""

from __future__ import annotations

from cathedra.api.core.rbac_v1 import ClusterRole, PolicyRule
from cathedra.api.selectors import from_label_selector
from cathedra.api.struct import replace
from cathedra.client.resources import CLUSTERROLES
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext


class ClusterRoleAggregationController:
    """Keeps the rules of aggregated roles."""

    name = "clusterrole-aggregation-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._queue: WorkQueue[str] = context.queue()
        self._roles = context.informers.of(CLUSTERROLES)
        self._roles.add_handler(
            on_add=lambda _: self._enqueue_all(),
            on_update=lambda _, __: self._enqueue_all(),
            on_delete=lambda _: self._enqueue_all(),
        )

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._roles.wait_synced()
        self._enqueue_all()
        await run_workers(self._queue, self._reconcile)

    def _enqueue_all(self) -> None:
        if not self._roles.synced:
            return
        for role in self._roles.store.list():
            if role.aggregation_rule is not None:
                self._queue.add(role.metadata.name)

    async def _reconcile(self, name: str) -> None:
        role = self._roles.store.get("", name)
        if role is None or role.aggregation_rule is None:
            return
        rules = tuple(self._gathered(role))
        if rules != (role.rules or ()):
            await self._client.resource(CLUSTERROLES).update(replace(role, rules=rules))

    def _gathered(self, role: ClusterRole) -> list[PolicyRule]:
        """Return each rule of the selected roles once, in the order of the selectors, then of the roles' names."""
        rules: dict[PolicyRule, None] = {}
        assert role.aggregation_rule is not None, "the role aggregates"
        others = sorted(self._roles.store.list(), key=lambda one: one.metadata.name)
        for selector in role.aggregation_rule.cluster_role_selectors:
            matches = from_label_selector(selector).matches
            for other in others:
                if other.metadata.name != role.metadata.name and matches(other.metadata.labels):
                    rules |= dict.fromkeys(other.rules or ())
        return list(rules)
