"""Creation of claims from templates, for pods and pod groups; never two for one entry (docs/spec/controllers.md §2.4).

Four things prevent a second claim: the name recorded in the owner's status, the annotation on a claim that was created
before a crash, the memory of claims created recently that the informer has not shown yet, and, after a request without
response, a read from the API server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.resource import ResourceClaim, ResourceClaimTemplate
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, not_found
from cathedra.api.undecodable import Undecodable, UndecodableObject
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from cathedra.clock import Clock
from cathedra.releases import FeatureGates, UnknownGate, behaviours
from cathedra.semantics.owners import BY_OWNER, controller_of, controller_reference, owner_uids, same_owners
from cathedra.semantics.podclaims import pod_group_name

_Key = tuple[str, str]
"""Namespace and name of a claim: a plain pair, since making an `ObjectKey` costs more than looking it up."""

_REMEMBERED_SECONDS: Final = 60.0
_GROUP_GATES: Final = ("GenericWorkload", "DRAWorkloadResourceClaims")


class TemplateMissing(Exception):
    """The template does not exist (yet)."""

    def __init__(self, name: str) -> None:
        missing = not_found(GroupResource("resource.k8s.io", "resourceclaimtemplate"), name)
        super().__init__(f'resource claim template "{name}": {missing}')


class ClaimRefused(Exception):
    """The API server refused a claim; its name is not known, as the API server would have made it."""

    def __init__(self, why: str) -> None:
        super().__init__(f"create ResourceClaim : {why}")


class ClaimUndecodable(Exception):
    """A claim that may have been made for the owner cannot be decoded; another one is not made beside it."""


class ClaimMaker:
    """All claims, as the informer shows them and as this process has just made them."""

    def __init__(self, client: Client, informers: SharedInformers, clock: Clock, gates: FeatureGates) -> None:
        self._client = client
        self._clock = clock
        self._gates = gates
        self._claims = informers.of(RESOURCECLAIMS)
        self._claims.store.add_index(BY_OWNER, owner_uids, same_owners)
        self._templates = informers.of(RESOURCECLAIMTEMPLATES)
        # Claims that the informer has not shown yet. Without them the next reconciliation would create a second claim.
        self._fresh: dict[_Key, _Made] = {}
        self._fresh_by_owner: dict[tuple[str, str], _Key] = {}
        self._made_at: dict[_Key, float] = {}
        """Creation times of claims (monotonic seconds), including deleted ones."""
        self.created: Counter[tuple[str, ...]] = Counter()
        """Outcome (``success`` or ``failure``) and admin access → number of claims that were to be created."""
        self._uncertain: set[tuple[str, str]] = set()
        """Owners and entries whose claim may have been created although no answer came."""
        self._claims.add_handler(on_add=self._forget, on_delete=self._forget)

    def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return the claim of that name, cached or made recently; None if it is not known here."""
        return self._claims.store.by_key.get((namespace, name)) or self._recent((namespace, name))

    def find(self, owner: KubeObject, entry: str) -> ResourceClaim | None:
        """Return the claim that was generated for this owner and entry; None if there is none.

        Raises:
            ClaimUndecodable: there may be one, which cannot be decoded.
        """
        made_for = (owner.metadata.uid, entry)
        for claim in self._claims.store.by_index(BY_OWNER, owner.metadata.uid):
            if claim.metadata.deletion_timestamp is None and _owner_and_entry(claim) == made_for:
                return claim
        key = self._fresh_by_owner.get(made_for)
        if key is not None and (recent := self._recent(key)) is not None:
            return recent
        if self._claims.store.undecodable:
            _refuse_beside(owner, self._claims.store.undecodable.values())
        return None

    def made_lately(self, namespace: str, name: str) -> bool:
        """Return True if the claim was created here less than a minute ago. It is then not created again, even if it is
        gone.

        Kubernetes' controller finds such a claim in its cache of recent writes.
        """
        made_at = self._made_at.get((namespace, name))
        return made_at is not None and self._clock.monotonic() - made_at < _REMEMBERED_SECONDS

    async def make(self, owner: KubeObject, entry: str, template_name: str) -> ResourceClaim:
        """Create the claim from its template.

        Raises:
            TemplateMissing: no such template.
            FeatureDisabled: the template uses what is off.
            ClaimRefused: the API server refused the claim.
            ClaimUndecodable: it has been made, and cannot be decoded.
            ConnectionError: it is not known whether it was created; the next call finds out.
        """
        namespace = owner.metadata.namespace
        template = self._templates.store.by_key.get((namespace, template_name))
        if template is None:
            raise TemplateMissing(template_name)
        claims = self._client.resource(RESOURCECLAIMS, namespace)
        made_for = (owner.metadata.uid, entry)
        # The last attempt had no answer: the claim may exist although the informer does not show it yet.
        if made_for in self._uncertain:
            page = await claims.list()
            _refuse_beside(owner, page.undecodable)
            existing = next((c for c in page.items if _owner_and_entry(c) == made_for), None)
            self._uncertain.discard(made_for)
            if existing is not None:
                key = (namespace, existing.metadata.name)
                self._remember(key, _Made(self._clock.monotonic(), existing, made_for))
                return existing
        wanted = claim_from_template(template, owner, entry, self._gates)
        outcome = "failure"
        try:
            created = await claims.create(wanted)
            outcome = "success"
        except ConnectionError:
            self._uncertain.add(made_for)
            raise
        except UndecodableObject as error:
            self._uncertain.add(made_for)
            raise ClaimUndecodable(str(error)) from error
        except StatusError as error:
            raise ClaimRefused(str(error)) from error
        finally:
            self.created[outcome, admin_access(wanted)] += 1
        key, now = (namespace, created.metadata.name), self._clock.monotonic()
        self._made_at[key] = now
        # The oldest stand first.
        while now - self._made_at[oldest := next(iter(self._made_at))] >= _REMEMBERED_SECONDS:
            del self._made_at[oldest]
        # The informer may have been faster than the answer; then the memory would never be cleared by its event.
        if key not in self._claims.store.by_key:
            self._remember(key, _Made(now, created, made_for))
        return created

    def _remember(self, key: _Key, made: _Made) -> None:
        self._fresh[key] = made
        self._fresh_by_owner[made.made_for] = key

    def _forget(self, claim: ResourceClaim) -> None:
        made = self._fresh.pop((claim.metadata.namespace, claim.metadata.name), None)
        if made is not None:
            self._fresh_by_owner.pop(made.made_for, None)

    def _recent(self, key: _Key) -> ResourceClaim | None:
        made = self._fresh.get(key)
        if made is None:
            return None
        if self._clock.monotonic() - made.at > _REMEMBERED_SECONDS:
            self._forget(made.claim)
            return None
        return made.claim


class _Made(msgspec.Struct, frozen=True):
    """A claim that was created here, when (monotonic seconds), and for which owner's UID and entry."""

    at: float
    claim: ResourceClaim
    made_for: tuple[str, str]


def _refuse_beside(owner: KubeObject, others: Iterable[Undecodable]) -> None:
    """Raise where a claim of the owner may be among ``others``: a second one would hold devices for nothing.

    Raises:
        ClaimUndecodable: one of them names the owner.
    """
    for what in others:
        if what.namespace == owner.metadata.namespace and what.mentions(owner.metadata.uid):
            raise ClaimUndecodable(str(what))


def _owner_and_entry(claim: ResourceClaim) -> tuple[str, str] | None:
    """Return the owner's UID and the entry that a claim was generated for; None if it was not generated."""
    entry = claim.metadata.annotations.get(POD_CLAIM_NAME)
    owner = controller_of(claim) if entry else None
    return (owner.uid, entry) if entry and owner is not None else None


POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a generated claim: the entry of the pod that it was made for."""

_LONGEST_PREFIX: Final = 57
"""Maximum length of a name's prefix: a DNS label less the API server's five random characters, less one."""


class FeatureDisabled(Exception):
    """The template uses a feature that is disabled."""


class GroupFeatureDisabled(Exception):
    """It is unknown whether the claim belongs to the pod or to its group while the feature is disabled; no
    retry helps.
    """

    def __init__(self, gate: str, group: str) -> None:
        self.gate, self.group = gate, group
        super().__init__(f"{gate} feature is disabled but Pod is in PodGroup {group}")


def closed_group_gate(gates: FeatureGates) -> str:
    """Return the first gate for claims of PodGroups that is off or unknown; "" if all are on."""
    for gate in _GROUP_GATES:
        try:
            if not gates[gate]:
                return gate
        except UnknownGate:  # releases before 1.35 do not have these gates
            return gate
    return ""


def check_group_gate(pod: Pod, gates: FeatureGates) -> None:
    """Check that the release makes claims of templates for the pod: a pod of a group needs the gates for claims of
    groups.

    Raises:
        GroupFeatureDisabled: it does not.
    """
    group = pod_group_name(pod)
    # 1.36 made a claim of its own for a pod whose group's claims it could not see.
    if not group or not gates.has(behaviours.GROUP_CLAIMS_BLOCKED_WITHOUT_GATE):
        return
    if closed := closed_group_gate(gates):
        raise GroupFeatureDisabled(closed, group)


def generate_name(owner: str, entry: str) -> str:
    """Return the prefix of a generated claim's name; both parts are cut in proportion if it is too long."""
    prefix = f"{owner}-{entry}-"
    total = len(prefix)
    if total <= _LONGEST_PREFIX:
        return prefix
    return f"{owner[: len(owner) * _LONGEST_PREFIX // total]}-{entry[: len(entry) * _LONGEST_PREFIX // total]}"


def claim_from_template(
    template: ResourceClaimTemplate, owner: KubeObject, entry: str, gates: FeatureGates
) -> ResourceClaim:
    """Return the claim to create for the entry of ``owner``.

    Raises:
        FeatureDisabled: the template uses a feature that is off.
    """
    admin = choice = False
    for request in template.spec.spec.devices.requests or ():
        if request.exactly is not None and request.exactly.admin_access:
            admin = True
        if request.first_available:
            choice = True
    if admin and not gates.admin_access:
        raise FeatureDisabled("admin access is requested, but the feature is disabled")
    if choice and not gates["DRAPrioritizedList"]:
        raise FeatureDisabled("template includes a prioritized list of subrequests, but the feature is disabled")
    metadata = owner.metadata
    # The deletion of a pod need not wait for its claims.
    reference = controller_reference(owner, block_owner_deletion=None)
    return ResourceClaim(
        metadata=ObjectMeta(
            generate_name=generate_name(metadata.name, entry),
            namespace=metadata.namespace,
            labels=template.spec.metadata.labels,
            annotations={**template.spec.metadata.annotations, POD_CLAIM_NAME: entry},
            owner_references=(reference,),
        ),
        spec=template.spec.spec,
    )


def admin_access(claim: ResourceClaim) -> str:
    """Return the label for admin access: ``true`` if a request of the claim has it, otherwise ``false``."""
    for request in claim.spec.devices.requests or ():
        if request.exactly is not None and request.exactly.admin_access:
            return "true"
    return "false"
