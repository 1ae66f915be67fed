"""The kinds of the group apps, in one list."""

from __future__ import annotations

from cathedra.kinds.apps.controllerrevisions import controller_revision_definition
from cathedra.kinds.apps.daemonsets import daemon_set_definition
from cathedra.kinds.apps.deployments import deployment_definition
from cathedra.kinds.apps.replicasets import replica_set_definition
from cathedra.kinds.apps.statefulsets import stateful_set_definition
from cathedra.kinds.definition import AnyDefinition


def apps_definitions() -> tuple[AnyDefinition, ...]:
    """Deployments, replica sets, stateful sets, daemon sets and their revisions."""
    return (
        deployment_definition(),
        replica_set_definition(),
        stateful_set_definition(),
        daemon_set_definition(),
        controller_revision_definition(),
    )
