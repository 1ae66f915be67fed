"""The registered webhooks, and those of them that match a request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cathedra.api.core.admissionregistration_v1 import MutatingWebhook, ValidatingWebhook
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, bad_request, forbidden, internal_error
from cathedra.api.struct import to_dict
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.matching import Matcher
from cathedra.apiserver.admission.policies.bound import compiled_in_time
from cathedra.apiserver.admission.versioned import VersionedAttributes, size_of
from cathedra.apiserver.authorization.authorizer import Authorizer
from cathedra.apiserver.computation import EXPRESSION_SECONDS, Allowance, Computations
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.kinds.definition import VersionDefinition

if TYPE_CHECKING:
    from cathedra.cel.admission import CompiledPolicy

_GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = GroupResource(_GROUP, "mutatingwebhookconfigurations")
VALIDATING: Final = GroupResource(_GROUP, "validatingwebhookconfigurations")
_HARMLESS: Final = frozenset({"None", "NoneOnDryRun"})
"""Side effects of webhooks that may be called in a dry run."""

Webhook = MutatingWebhook | ValidatingWebhook


class ConfiguredWebhook(msgspec.Struct, frozen=True):
    """One webhook of a configuration."""

    configuration: str
    webhook: Webhook

    @property
    def key(self) -> tuple[str, str]:
        """Identity of the webhook: its configuration and its name."""
        return self.configuration, self.webhook.name

    @property
    def fails(self) -> bool:
        """True if a request is refused when the webhook cannot be called."""
        return self.webhook.failure_policy != "Ignore"

    @property
    def timeout_seconds(self) -> float:
        """Seconds until a call of the webhook fails."""
        return float(self.webhook.timeout_seconds or 10)


class Hooks:
    """The webhooks of one kind of configuration, by name of configuration and then in their order."""

    def __init__(
        self, registry: Registry, resource: GroupResource, authorizer: Authorizer, computations: Computations
    ) -> None:
        self._registry = registry
        self._resource = resource
        self._authorizer = authorizer
        self._computations = computations
        self._matcher = Matcher(registry)
        self._known: tuple[ConfiguredWebhook, ...] | None = None
        self._compiled: dict[tuple[str, str], CompiledPolicy] = {}
        """Compiled match conditions by webhook, made with the first request that they may match."""
        registry.observe(resource, lambda _: self._forget())

    def __bool__(self) -> bool:
        return bool(self._hooks())

    async def concerned(
        self, request: AdmissionAttributes, view: VersionedAttributes
    ) -> AsyncIterator[tuple[ConfiguredWebhook, VersionDefinition]]:
        """Return the webhooks to call, each with the version that it takes.

        Raises:
            StatusError: 403, a match condition cannot be evaluated; 400, a webhook cannot be called in a dry run;
                500, the objects could not be converted to the version that a webhook takes.
        """
        if request.definition.group == _GROUP:
            # Webhooks get no webhook configurations: one that refuses everything could not be removed.
            return
        for hook in self._hooks():
            version = await self.version_for(hook, request, view)
            if version is not None:
                yield hook, version

    async def version_for(
        self, hook: ConfiguredWebhook, request: AdmissionAttributes, view: VersionedAttributes
    ) -> VersionDefinition | None:
        """Return the version in which a webhook gets the request; None if it does not match.

        Raises:
            StatusError: as `concerned` does.
        """
        webhook = hook.webhook
        version = self._matcher.rules(webhook.rules, webhook.match_policy, request)
        if version is None:
            return None
        if not self._matcher.selectors(webhook.namespace_selector, webhook.object_selector, request):
            return None
        await _convert(view, version)
        if webhook.match_conditions:
            conditions = await self._conditions(hook, request)
            if not await self._conditions_met(conditions, request, view, version):
                return None
        if request.dry_run and webhook.side_effects not in _HARMLESS:
            raise bad_request(f'admission webhook "{webhook.name}" does not support dry run')
        return version

    async def _conditions(self, hook: ConfiguredWebhook, request: AdmissionAttributes) -> CompiledPolicy:
        found = self._compiled.get(hook.key)
        if found is None:
            found = await compiled_in_time(
                self._computations, request.user.name, lambda check: compile_conditions(hook.webhook, check)
            )
            # Compiling waits for a worker. If the configuration has changed meanwhile, the result is an old one.
            if hook in self._hooks():
                self._compiled[hook.key] = found
        return found

    async def _conditions_met(
        self,
        conditions: CompiledPolicy,
        request: AdmissionAttributes,
        view: VersionedAttributes,
        version: VersionDefinition,
    ) -> bool:
        # Start-up time: CEL is loaded with the first condition.
        from cathedra.apiserver.authorization.celauthorizer import decider
        from cathedra.cel.admission import Input

        given = Input(
            request=view.attributes(version),
            object=view.object(version),
            old_object=view.old_object(version),
            decide=decider(self._authorizer),
        )
        # One allowance for all webhooks and both passes: conditions of many webhooks cannot add up to minutes.
        allowance: Allowance = request.memory.setdefault(
            type(self).__name__, self._computations.allowance(request.user.name, EXPRESSION_SECONDS)
        )
        result = await allowance.complete(
            lambda limit: conditions.evaluate(msgspec.structs.replace(given, interrupted=limit)), size=size_of(request)
        )
        decisions = result.decisions
        for decision in decisions:
            if decision.evaluation == "error" and decision.action == "deny":
                raise forbidden(request.definition.group_resource, request.name, decision.message)
        return any(decision.evaluation == "deny" for decision in decisions)

    def _hooks(self) -> tuple[ConfiguredWebhook, ...]:
        if self._known is None:
            self._known = tuple(self._load())
        return self._known

    def _load(self) -> Iterator[ConfiguredWebhook]:
        try:
            table = self._registry.table(self._resource)
        except KeyError:
            return
        for entry in table.select(Selection("")):
            for webhook in entry.object.webhooks:
                yield ConfiguredWebhook(entry.object.metadata.name, webhook)

    def _forget(self) -> None:
        self._known = None
        self._compiled = {}


async def _convert(view: VersionedAttributes, version: VersionDefinition) -> None:
    try:
        await view.convert(version)
    except StatusError as error:
        raise internal_error(error.status.message) from None


def compile_conditions(webhook: Webhook, check: Callable[[], object]) -> CompiledPolicy:
    """Compile match conditions as a policy that denies every request for which they hold."""
    from cathedra.cel.admission import compile_policy  # start-up time: as above

    conditions: list[Any] = [to_dict(condition) for condition in webhook.match_conditions]
    return compile_policy(
        {
            "failurePolicy": webhook.failure_policy,
            "matchConditions": conditions,
            "validations": [{"expression": "false"}],
        },
        check,
    )
