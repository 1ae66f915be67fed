"""Discovery of custom kinds while the cluster runs, for the garbage collector and the namespace controller.

These controllers use metadata alone, of every kind that is served. They watch the definitions, and read custom
resources as metadata (docs/spec/controllers.md §5 and §6).
"""

from __future__ import annotations

from collections.abc import Callable

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition
from cathedra.api.core.meta_v1 import KubeObject, PartialObjectMetadata
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import resource_ref
from cathedra.client.transport import ResourceRef
from cathedra.semantics.conditions import is_true

_DEFINITIONS = resource_ref(CustomResourceDefinition, "customresourcedefinitions", namespaced=False)


class CustomKinds:
    """Calls a handler with every custom kind once it is served."""

    def __init__(self, informers: SharedInformers, on_served: Callable[[ResourceRef[KubeObject]], None]) -> None:
        """``on_served`` is called once per kind, also if its definition is deleted and created again."""
        self._on_served = on_served
        self._known: set[tuple[str, str]] = set()
        self._definitions = informers.of(_DEFINITIONS)
        self._definitions.add_handler(on_add=self._changed, on_update=lambda _, new: self._changed(new))

    async def wait_synced(self) -> None:
        """Wait until all definitions that were there at the start are known."""
        await self._definitions.wait_synced()

    def _changed(self, definition: CustomResourceDefinition) -> None:
        spec = definition.spec
        served = next((version.name for version in spec.versions if version.served), None)
        established = is_true(definition.status.conditions or (), "Established")
        key = (spec.group, spec.names.plural)
        if served is None or not established or key in self._known:
            return
        self._known.add(key)
        names = (spec.group, served, spec.names.plural, spec.names.kind)
        self._on_served(ResourceRef(*names, spec.scope == "Namespaced", PartialObjectMetadata))
