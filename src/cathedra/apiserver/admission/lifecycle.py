"""Objects live in namespaces that exist and are not going away (docs/spec/apimachinery.md §5 and §16.1)."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.meta_v1 import StatusCause, StatusDetails
from cathedra.api.status import failure, forbidden, not_found
from cathedra.api.struct import replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.routes import NAMESPACES
from cathedra.kinds.definition import AnyDefinition


class NamespaceLifecycle(AdmissionPlugin):
    """Refuses new content in namespaces that are missing or terminating."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle creations: only they are refused in a namespace that is missing or going."""
        return operation == "CREATE"

    def admit(self, request: AdmissionAttributes) -> Any:
        """Check the namespace before all other plugins."""
        call = request.call
        if not call.namespace or not call.definition.namespaced:
            return request.object
        namespace = self._registry.find(NAMESPACES, call.namespace)
        if namespace is None:
            raise not_found(NAMESPACES, call.namespace)
        if namespace.metadata.deletion_timestamp is not None:
            raise _terminating(request)
        return request.object


def _terminating(request: AdmissionAttributes) -> Exception:
    namespace = request.namespace
    resource = request.definition.group_resource
    error = forbidden(
        resource, request.name, f"unable to create new content in namespace {namespace} because it is being terminated"
    )
    cause = StatusCause(
        reason="NamespaceTerminating", message=f"namespace {namespace} is being terminated", field="metadata.namespace"
    )
    details = error.status.details or StatusDetails()
    return failure(403, "Forbidden", error.status.message, replace(details, causes=(cause,)))
