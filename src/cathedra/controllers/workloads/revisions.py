"""Controller revisions: the versions of a template that stateful sets and daemon sets remember."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from cathedra.api.core.apps_v1 import ControllerRevision
from cathedra.api.core.core_v1 import PodTemplateSpec
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.status import StatusError
from cathedra.api.struct import RawJSON, from_dict, replace, to_dict
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import CONTROLLERREVISIONS
from cathedra.controllers.workloads.templates import REVISION_HASH, template_hash
from cathedra.semantics.owners import controller_reference, controller_uid, same_owners

_BY_OWNER: Final = "revision-controller-uid"
_KEPT: Final = 10


class Revisions:
    """The revisions of all objects of a kind."""

    def __init__(self, client: Client, informers: SharedInformers) -> None:
        self._client = client
        self.informer = informers.of(CONTROLLERREVISIONS)
        self.informer.store.add_index(_BY_OWNER, controller_uid, same_owners)

    async def current(self, owner: KubeObject, template: PodTemplateSpec) -> str:
        """Return the hash of the present template, whose revision exists afterwards and is the newest."""
        metadata = owner.metadata
        known = self._of(owner)
        digest = template_hash(template, 0)
        name = f"{metadata.name}-{digest}"
        newest = known[-1].revision if known else 0
        mine = next((revision for revision in known if revision.metadata.name == name), None)
        resource = self._client.resource(CONTROLLERREVISIONS, metadata.namespace)
        if mine is None:
            made = ControllerRevision(
                metadata=ObjectMeta(
                    name=name,
                    namespace=metadata.namespace,
                    labels={**template.metadata.labels, REVISION_HASH: digest},
                    owner_references=(controller_reference(owner),),
                ),
                data=RawJSON.of({"spec": {"template": {**to_dict(template), "$patch": "replace"}}}),
                revision=newest + 1,
            )
            try:
                await resource.create(made)
            except StatusError as error:
                # Made by the run before, and not yet seen here.
                if not error.is_already_exists:
                    raise
        elif mine.revision < newest:
            # A roll-back: the old template is the newest version again.
            await resource.update(replace(mine, revision=newest + 1))
        return digest

    async def forget(self, owner: KubeObject, kept: int | None, in_use: Collection[str]) -> None:
        """Delete the oldest revisions that are not ``in_use`` (names), except ``kept`` ones."""
        limit = _KEPT if kept is None else kept
        await self._delete(self._unused(owner, in_use)[: -limit or None])

    async def forget_beyond(self, owner: KubeObject, kept: int | None, current: str, in_use: Collection[str]) -> None:
        """Delete the oldest unused revisions, so that ``kept`` are left beside the ``current`` one; used ones count."""
        limit = _KEPT if kept is None else kept
        excess = sum(revision.metadata.name != current for revision in self._of(owner)) - limit
        await self._delete(self._unused(owner, {*in_use, current})[: max(0, excess)])

    def _of(self, owner: KubeObject) -> list[ControllerRevision]:
        return sorted(self.informer.store.by_index(_BY_OWNER, owner.metadata.uid), key=lambda r: r.revision)

    def _unused(self, owner: KubeObject, in_use: Collection[str]) -> list[ControllerRevision]:
        return [revision for revision in self._of(owner) if revision.metadata.name not in in_use]

    async def _delete(self, stale: Iterable[ControllerRevision]) -> None:
        for revision in stale:
            resource = self._client.resource(CONTROLLERREVISIONS, revision.metadata.namespace)
            try:
                await resource.delete(revision.metadata.name, uid=revision.metadata.uid)
            except StatusError as error:
                # Deleted by the run before, and still seen here.
                if not error.is_not_found:
                    raise

    def template(self, owner: KubeObject, digest: str) -> PodTemplateSpec | None:
        """Return the template of an older revision, if it is still remembered."""
        metadata = owner.metadata
        revision = self.informer.store.get(metadata.namespace, f"{metadata.name}-{digest}")
        if revision is None or revision.data is None:
            return None
        template: JSONObject = revision.data.load()["spec"]["template"]
        template.pop("$patch", None)
        return from_dict(PodTemplateSpec, template)
