"""Definitions of the core group besides pods: namespaces, nodes, events, configuration, services, volumes, quotas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from cathedra.api.core import coordination_v1, core_v1, discovery_v1, events_v1
from cathedra.api.defaulting import machinery, workloads
from cathedra.api.definition import RequestContext, ResourceDefinition, Strategy, VersionDefinition
from cathedra.api.definitions.names import builtin
from cathedra.api.definitions.strategies import Rules, SpecStrategy
from cathedra.api.field import ErrorList
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace, reshape
from cathedra.api.tables import core as tables
from cathedra.api.tables import devices as plain
from cathedra.api.tables import machinery as machinery_tables
from cathedra.api.validation import core as rules

__all__ = ["core_definitions"]


EVENT_FIELDS: Final[Mapping[str, Callable[[core_v1.Event], str]]] = {
    "involvedObject.kind": lambda event: event.involved_object.kind,
    "involvedObject.namespace": lambda event: event.involved_object.namespace,
    "involvedObject.name": lambda event: event.involved_object.name,
    "involvedObject.uid": lambda event: event.involved_object.uid,
    "involvedObject.apiVersion": lambda event: event.involved_object.api_version,
    "involvedObject.resourceVersion": lambda event: event.involved_object.resource_version,
    "involvedObject.fieldPath": lambda event: event.involved_object.field_path,
    "reason": lambda event: event.reason,
    "reportingComponent": lambda event: event.reporting_component,
    "source": lambda event: event.source.component or event.reporting_component,
    "type": lambda event: event.type,
}


class NamespaceStrategy(SpecStrategy[core_v1.Namespace]):
    """Namespaces begin active and hold Kubernetes' finalizer until they are empty."""

    def prepare_create(self, obj: core_v1.Namespace, context: RequestContext) -> core_v1.Namespace:
        """Put the finalizer in and set the phase."""
        finalizers = (
            obj.spec.finalizers if "kubernetes" in obj.spec.finalizers else (*obj.spec.finalizers, "kubernetes")
        )
        return replace(
            obj, spec=replace(obj.spec, finalizers=finalizers), status=core_v1.NamespaceStatus(phase="Active")
        )

    def prepare_update(
        self, new: core_v1.Namespace, old: core_v1.Namespace, context: RequestContext
    ) -> core_v1.Namespace:
        """Finalizers change through ``finalize`` only."""
        return replace(new, spec=replace(new.spec, finalizers=old.spec.finalizers), status=old.status)


class EventStrategy(Strategy[core_v1.Event]):
    """Events have nothing that is kept apart."""

    def validate_create(self, obj: core_v1.Event, context: RequestContext) -> ErrorList:
        """An event lies in the namespace of what it is about."""
        errors = ErrorList()
        about = obj.involved_object.namespace
        if about and about != obj.metadata.namespace:
            errors.invalid("involvedObject.namespace", about, "does not match event.namespace")
        return errors


class NodeStrategy(SpecStrategy[core_v1.Node]):
    """A node agent registers its node together with the status: unlike others, this one is kept on create."""

    def prepare_create(self, obj: core_v1.Node, context: RequestContext) -> core_v1.Node:
        """The status stays."""
        return obj


def core_definitions() -> tuple[ResourceDefinition[Any], ...]:
    """The core group's kinds besides pods, with leases, endpoint slices and new-style events beside them."""
    return (
        builtin(
            core_v1.Namespace,
            "namespaces",
            namespaced=False,
            default=machinery.default_namespace,
            strategy=NamespaceStrategy(machinery.default_namespace),
            table=(tables.NAMESPACE_COLUMNS, tables.namespace_cells),
            short_names=("ns",),
            field_selectors={"status.phase": lambda namespace: namespace.status.phase},
        ),
        builtin(
            core_v1.Node,
            "nodes",
            namespaced=False,
            strategy=NodeStrategy(),
            table=(tables.NODE_COLUMNS, tables.node_cells),
            short_names=("no",),
            field_selectors={"spec.unschedulable": lambda node: "true" if node.spec.unschedulable else "false"},
        ),
        builtin(
            core_v1.Event,
            "events",
            namespaced=True,
            strategy=EventStrategy(),
            table=(tables.EVENT_COLUMNS, tables.event_cells),
            short_names=("ev",),
            field_selectors=EVENT_FIELDS,
        ),
        builtin(
            core_v1.ConfigMap,
            "configmaps",
            namespaced=True,
            rules=Rules(rules.validate_config_map, rules.validate_config_map_update),
            table=(tables.CONFIGMAP_COLUMNS, tables.configmap_cells),
            short_names=("cm",),
        ),
        builtin(
            core_v1.Secret,
            "secrets",
            namespaced=True,
            default=machinery.default_secret,
            rules=Rules(rules.validate_secret, rules.validate_secret_update),
            table=(tables.SECRET_COLUMNS, tables.secret_cells),
            field_selectors={"type": lambda secret: secret.type},
        ),
        builtin(
            core_v1.ServiceAccount,
            "serviceaccounts",
            namespaced=True,
            table=(plain.NAME_AND_AGE, plain.name_and_age),
            short_names=("sa",),
        ),
        builtin(
            core_v1.Service,
            "services",
            namespaced=True,
            default=machinery.default_service,
            table=(tables.SERVICE_COLUMNS, tables.service_cells),
            short_names=("svc",),
            categories=("all",),
            field_selectors={
                "spec.clusterIP": lambda service: service.spec.cluster_ip,
                "spec.type": lambda service: service.spec.type,
            },
        ),
        builtin(core_v1.Endpoints, "endpoints", namespaced=True, short_names=("ep",)),
        builtin(core_v1.LimitRange, "limitranges", namespaced=True, short_names=("limits",)),
        builtin(
            core_v1.ResourceQuota,
            "resourcequotas",
            namespaced=True,
            table=(tables.QUOTA_COLUMNS, tables.quota_cells),
            short_names=("quota",),
        ),
        builtin(
            core_v1.PersistentVolumeClaim,
            "persistentvolumeclaims",
            namespaced=True,
            default=machinery.default_volume_claim,
            short_names=("pvc",),
        ),
        builtin(
            core_v1.PersistentVolume,
            "persistentvolumes",
            namespaced=False,
            default=machinery.default_volume,
            short_names=("pv",),
        ),
        builtin(core_v1.PodTemplate, "podtemplates", namespaced=True),
        builtin(
            core_v1.ReplicationController,
            "replicationcontrollers",
            namespaced=True,
            default=workloads.default_replication_controller,
            counts_generation=True,
            short_names=("rc",),
            categories=("all",),
            field_selectors={"status.replicas": lambda replicas: str(replicas.status.replicas)},
        ),
        builtin(
            coordination_v1.Lease,
            "leases",
            namespaced=True,
            rules=Rules(rules.validate_lease, lambda new, old: rules.validate_lease(new)),
            table=(machinery_tables.LEASE_COLUMNS, machinery_tables.lease_cells),
        ),
        builtin(discovery_v1.EndpointSlice, "endpointslices", namespaced=True),
        events_definition(),
    )


def events_definition() -> ResourceDefinition[core_v1.Event]:
    """The same events in the group events.k8s.io, with its names for their fields (spec: apimachinery.md, section
    18)."""
    return ResourceDefinition(
        group="events.k8s.io",
        kind="Event",
        plural="events",
        singular="event",
        namespaced=True,
        type=core_v1.Event,
        versions=(VersionDefinition("v1", events_v1.Event, event_to_core, event_from_core),),
        strategy=EventStrategy(),
        short_names=("ev",),
        columns=tables.EVENT_COLUMNS,
        cells=tables.event_cells,
        field_selectors=EVENT_FIELDS,
        stored_as=GroupResource("", "events"),
    )


def event_to_core(event: events_v1.Event) -> core_v1.Event:
    """A new-style event in the form in which it is kept."""
    series = event.series
    return core_v1.Event(
        metadata=event.metadata,
        involved_object=event.regarding,
        related=event.related,
        message=event.note,
        source=event.deprecated_source,
        first_timestamp=event.deprecated_first_timestamp,
        last_timestamp=event.deprecated_last_timestamp,
        count=event.deprecated_count,
        event_time=event.event_time,
        series=reshape(series, core_v1.EventSeries) if series is not None else None,
        action=event.action,
        reason=event.reason,
        type=event.type,
        reporting_component=event.reporting_controller,
        reporting_instance=event.reporting_instance,
    )


def event_from_core(event: core_v1.Event) -> events_v1.Event:
    """An event as the group events.k8s.io shows it."""
    series = event.series
    return events_v1.Event(
        metadata=event.metadata,
        regarding=event.involved_object,
        related=event.related,
        note=event.message,
        deprecated_source=event.source,
        deprecated_first_timestamp=event.first_timestamp,
        deprecated_last_timestamp=event.last_timestamp,
        deprecated_count=event.count,
        event_time=event.event_time,
        series=reshape(series, events_v1.EventSeries) if series is not None else None,
        action=event.action,
        reason=event.reason,
        type=event.type,
        reporting_controller=event.reporting_component,
        reporting_instance=event.reporting_instance,
    )
