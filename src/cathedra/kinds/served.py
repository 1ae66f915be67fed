"""The kinds that a release serves: the list from which server, discovery, tables and clients are built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cathedra.api.core import core_v1
from cathedra.api.nulltimes import with_null_times
from cathedra.kinds.apps.controllerrevisions import controller_revision_definition
from cathedra.kinds.apps.daemonsets import daemon_set_definition
from cathedra.kinds.apps.deployments import deployment_definition
from cathedra.kinds.apps.replicasets import replica_set_definition
from cathedra.kinds.apps.statefulsets import stateful_set_definition
from cathedra.kinds.batch.cronjobs import cron_job_definition
from cathedra.kinds.batch.jobs.strategy import job_definition
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import NAME_AND_AGE, name_and_age
from cathedra.kinds.core.configuration import config_map_definition, secret_definition
from cathedra.kinds.core.endpoints import endpoint_slice_definition, endpoints_definition
from cathedra.kinds.core.events import event_definition, events_definition
from cathedra.kinds.core.limitranges import limit_range_definition
from cathedra.kinds.core.namespaces import namespace_definition
from cathedra.kinds.core.nodes import node_definition
from cathedra.kinds.core.pods.strategy import pod_definition
from cathedra.kinds.core.pods.templates import pod_template_definition
from cathedra.kinds.core.quotas import quota_definition
from cathedra.kinds.core.replicationcontrollers import replication_controller_definition
from cathedra.kinds.core.services import service_definition
from cathedra.kinds.core.volumes import volume_claim_definition, volume_definition
from cathedra.kinds.definition import AnyDefinition, ConnectedSubresource, VersionDefinition
from cathedra.kinds.machinery.definitions import machinery_definitions
from cathedra.kinds.resource.definitions import device_definitions
from cathedra.kinds.scheduling.definitions import scheduling_definitions
from cathedra.releases import FeatureGates, behaviours


def all_definitions(gates: FeatureGates, devices: tuple[AnyDefinition, ...] | None = None) -> tuple[AnyDefinition, ...]:
    """Return every kind that the release serves, gated kinds only if their gate is on.

    ``devices`` are the kinds of resource.k8s.io, where they are not those that the group has had since 1.32.
    """
    kinds = (
        *core_definitions(),
        *apps_definitions(),
        *batch_definitions(),
        *machinery_definitions(gates),
        *scheduling_definitions(gates),
        *(device_definitions(gates) if devices is None else devices),
    )
    served = tuple(kind for kind in kinds if not kind.gate or gates[kind.gate])
    return served if gates.has(behaviours.CREATION_TIMESTAMP_OMITTED) else tuple(map(_with_null_times, served))


def _with_null_times(definition: AnyDefinition) -> AnyDefinition:
    versions = tuple(msgspec.structs.replace(one, shown=_null_times_of(one)) for one in definition.versions)
    return msgspec.structs.replace(definition, versions=versions)


def _null_times_of(version: VersionDefinition) -> Callable[[Any], Any]:
    shown = version.shown
    return with_null_times if shown is None else lambda obj: with_null_times(shown(obj))


def core_definitions() -> tuple[AnyDefinition, ...]:
    """Return the core group's kinds, with endpoint slices and the events of events.k8s.io beside them."""
    return (
        namespace_definition(),
        node_definition(),
        pod_definition(),
        event_definition(),
        config_map_definition(),
        secret_definition(),
        BuiltinKind(
            core_v1.ServiceAccount,
            "serviceaccounts",
            returns_deleted_object=True,
            namespaced=True,
            connected=(ConnectedSubresource("token", ("create",), "TokenRequest", "authentication.k8s.io", "v1"),),
            table=(NAME_AND_AGE, name_and_age),
            short_names=("sa",),
        ).definition(),
        service_definition(),
        endpoints_definition(),
        endpoint_slice_definition(),
        limit_range_definition(),
        quota_definition(),
        volume_claim_definition(),
        volume_definition(),
        pod_template_definition(),
        replication_controller_definition(),
        events_definition(),
    )


def apps_definitions() -> tuple[AnyDefinition, ...]:
    """Return deployments, replica sets, stateful sets, daemon sets and their revisions."""
    return (
        deployment_definition(),
        replica_set_definition(),
        stateful_set_definition(),
        daemon_set_definition(),
        controller_revision_definition(),
    )


def batch_definitions() -> tuple[AnyDefinition, ...]:
    """Return jobs and cron jobs."""
    return (job_definition(), cron_job_definition())
