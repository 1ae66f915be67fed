"""Eviction: a deletion that the pod's disruption budgets must allow (docs/spec/apimachinery.md §12)."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Pod, PodCondition
from cathedra.api.core.meta_v1 import DeleteOptions, ListMeta, Status, StatusCause, StatusDetails
from cathedra.api.core.policy_v1 import Eviction, PodDisruptionBudget
from cathedra.api.scheme import GroupResource
from cathedra.api.selectors import from_label_selector
from cathedra.api.status import StatusError, bad_request, failure, internal_error
from cathedra.api.struct import Time, replace
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs import read
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.delete import delete
from cathedra.apiserver.verbs.update import change
from cathedra.releases import behaviours
from cathedra.semantics.conditions import find_condition, with_condition
from cathedra.semantics.pods import is_ready, is_terminal

BUDGETS = GroupResource("policy", "poddisruptionbudgets")


async def evict(server: ServerContext, call: Call, eviction: Eviction) -> Status:
    """Delete the pod if no budget forbids it.

    Raises:
        StatusError: 429, a budget has nothing left; 404, the pod is not there.
    """
    if eviction.metadata.name and eviction.metadata.name != call.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = eviction.delete_options or DeleteOptions()
    call = call.but(dry_run=call.dry_run or bool(options.dry_run))
    pod: Pod = read.get(server, call).object
    if not _free(pod):
        await _charge(server, call, pod)
    wanted = options.preconditions
    pinned = wanted is not None and (wanted.resource_version is not None or wanted.uid not in (None, pod.metadata.uid))
    if not call.dry_run and not pinned:
        # The condition is a write, and changes the resource version. A deletion with that version as precondition would
        # then be refused, so such a pod gets no condition. Neither does a pod that is not the one that is meant.
        await _mark(server, call)
    answer = await delete(server, call.but(subresource="", verb="delete"), options)
    has_revision = server.gates.has(behaviours.ANSWERS_HAVE_REVISION)
    metadata = ListMeta(resource_version=str(answer.stored.revision)) if has_revision else ListMeta()
    return Status(status="Success", code=201, metadata=metadata)


async def _mark(server: ServerContext, call: Call) -> None:
    """Add the condition DisruptionTarget, the reason for which the pod will end."""

    def marked(entry: StoredObject) -> Pod:
        pod: Pod = entry.object
        condition = PodCondition(
            type="DisruptionTarget",
            status="True",
            last_transition_time=Time(server.clock.now()),
            reason="EvictionByEvictionAPI",
            message="Eviction API: evicting",
        )
        return replace(pod, status=replace(pod.status, conditions=with_condition(pod.status.conditions, condition)))

    await change(server, call.but(subresource="status"), marked)


def _free(pod: Pod) -> bool:
    """Return True if budgets do not count the pod: it has ended, has not started, or is already going."""
    return is_terminal(pod) or pod.status.phase == "Pending" or pod.metadata.deletion_timestamp is not None


async def _charge(server: ServerContext, call: Call, pod: Pod) -> None:
    budgets = _budgets(server, pod)
    if len(budgets) > 1:
        raise internal_error(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if not budgets:
        return
    table = server.registry.table(BUDGETS)
    budget_call = call.but(
        definition=table.definition,
        version=table.definition.versions[0],
        name=budgets[0].metadata.name,
        subresource="status",
    )
    # A pod that is not ready is not among the healthy ones, so its eviction costs the budget nothing.
    if not is_ready(pod) and _unhealthy_may_go(budgets[0]):
        return
    # The budget is charged before the pod is deleted: two evictions at the same time cannot both use the last
    # disruption. The controller drops the entry when it sees the deletion, or after two minutes without one.
    await change(server, budget_call, lambda entry: _charged(entry.object, pod, Time(server.clock.now())))


def _charged(budget: PodDisruptionBudget, pod: Pod, now: Time) -> PodDisruptionBudget:
    """Return the budget with one disruption less.

    Raises:
        StatusError: the budget allows no disruption now.
    """
    name, status = budget.metadata.name, budget.status
    # The numbers in the status are those of an older selector or minimum.
    if status.observed_generation < budget.metadata.generation:
        raise _refused(f"The disruption budget {name} is still being processed by the server.", 10)
    failed = find_condition(status.conditions, "DisruptionAllowed")
    if status.disruptions_allowed <= 0 and failed is not None and failed.reason == "SyncFailed":
        text = f"The disruption budget {name} does not allow evicting pods currently because it failed sync: "
        raise _refused(f"{text}{failed.message}", 0)
    if status.disruptions_allowed <= 0:
        text = f"The disruption budget {name} needs {status.desired_healthy} healthy pods and has "
        raise _refused(f"{text}{status.current_healthy} currently", 0)
    disrupted = {**status.disrupted_pods, pod.metadata.name: now}
    return replace(
        budget, status=replace(status, disruptions_allowed=status.disruptions_allowed - 1, disrupted_pods=disrupted)
    )


def _unhealthy_may_go(budget: PodDisruptionBudget) -> bool:
    policy = budget.spec.unhealthy_pod_eviction_policy if budget.spec else None
    if policy == "AlwaysAllow":
        return True
    return budget.status.current_healthy >= budget.status.desired_healthy > 0


def _budgets(server: ServerContext, pod: Pod) -> list[PodDisruptionBudget]:
    try:
        table = server.registry.table(BUDGETS)
    except KeyError:
        return []
    found: list[PodDisruptionBudget] = []
    for entry in table.select(Selection(pod.metadata.namespace)):
        spec = entry.object.spec
        if (
            spec is not None
            and spec.selector is not None
            and from_label_selector(spec.selector).matches(pod.metadata.labels)
        ):
            found.append(entry.object)
    return found


def _refused(why: str, retry_after: int) -> StatusError:
    cause = StatusCause(reason="DisruptionBudget", message=why)
    details = StatusDetails(causes=(cause,), retry_after_seconds=retry_after)
    return failure(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", details)
