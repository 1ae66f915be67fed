"""The kinds of the core group, in one list."""

from __future__ import annotations

from cathedra.api.core import core_v1
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
from cathedra.kinds.definition import AnyDefinition, ConnectedSubresource


def core_definitions() -> tuple[AnyDefinition, ...]:
    """The core group's kinds, with endpoint slices and the events of events.k8s.io beside them."""
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
