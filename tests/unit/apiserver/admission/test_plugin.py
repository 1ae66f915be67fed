"""The chain calls the plugins that handle a write, and no others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from cathedra.api.scheme import GroupResource
from cathedra.apiserver import accesscontrol
from cathedra.apiserver.admission.plugin import NO_PLUGINS, AdmissionAttributes, AdmissionChain, AdmissionPlugin
from cathedra.apiserver.admission.policies.check import PolicyCheck
from cathedra.apiserver.admission.webhooks.mutating import MutatingWebhooks
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.request import Call
from cathedra.kinds.definition import AnyDefinition
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates

DEFINITIONS = {one.plural: one for one in all_definitions(FeatureGates.for_release()) if not one.group}


class Appending(AdmissionPlugin):
    """Appends its letter to the object, and records what it validated."""

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.validated: list[str] = []

    async def admit(self, request: AdmissionAttributes) -> Any:
        return request.object + self.letter

    async def validate(self, request: AdmissionAttributes) -> None:
        self.validated.append(request.object)


async def admitted(chain: AdmissionChain, request: AdmissionAttributes) -> Any:
    return await chain.admit(request, chain.called(request.call, request.operation))


async def validated(chain: AdmissionChain, request: AdmissionAttributes) -> None:
    await chain.validate(request, chain.called(request.call, request.operation))


class OfPods(Appending):
    kinds = frozenset({GroupResource("", "pods")})


class Silent(AdmissionPlugin):
    """Handles nothing."""


def request(plural: str, obj: str, user: str = "ann") -> AdmissionAttributes:
    definition = DEFINITIONS[plural]
    call = Call.on(definition, definition.versions[0], user=UserInfo(user), verb="create", namespace="ns", name="n")
    return AdmissionAttributes(call, "CREATE", obj, None)


async def test_each_plugin_gets_the_object_of_the_one_before() -> None:
    chain = AdmissionChain([Appending("a"), Silent(), OfPods("p"), Appending("b")])
    assert await admitted(chain, request("pods", "")) == "apb"
    assert await admitted(chain, request("configmaps", "")) == "ab"


def test_a_chain_calls_none_of_its_plugins_if_none_handles_the_write() -> None:
    chain = AdmissionChain([Silent(), OfPods("p")])
    assert chain.called(request("configmaps", "").call, "CREATE") is NO_PLUGINS
    assert chain.called(request("pods", "").call, "CREATE") is not NO_PLUGINS


async def test_a_plugin_of_other_kinds_is_not_called() -> None:
    pods = OfPods("p")
    chain = AdmissionChain([pods])
    await validated(chain, request("configmaps", "one"))
    await validated(chain, request("pods", "two"))
    assert pods.validated == ["two"]


async def test_all_plugins_run_again_if_a_webhook_changed_the_object() -> None:
    outside = Appending("o")
    chain = AdmissionChain([Appending("a"), outside], external=[outside])
    assert await admitted(chain, request("pods", "")) == "aoao"


class OfNewOnes(Appending):
    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        return operation == "CREATE" and not subresource


async def test_a_plugin_that_does_not_handle_an_operation_is_not_called() -> None:
    chain = AdmissionChain([OfNewOnes("n"), Appending("a")])
    new = request("pods", "")
    assert await admitted(chain, new) == "na"
    assert await admitted(chain, new.but(operation="UPDATE")) == "a"
    assert await admitted(chain, new.but(call=new.call.but(subresource="status"))) == "a"


class OfLimits(Appending):
    rules = frozenset({GroupResource("", "limitranges")})
    limits = 0

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        return bool(self.limits)


async def test_a_plugin_that_does_not_handle_a_user_is_not_called() -> None:
    class OfBob(Appending):
        users = "bob"

    chain = AdmissionChain([OfBob("b")])
    for _ in range(2):
        assert await admitted(chain, request("pods", "", "bob")) == "b"
        assert await admitted(chain, request("pods", "", "ann")) == ""
        assert chain.called(request("pods", "", "ann").call, "CREATE") is NO_PLUGINS
        assert chain.called(request("pods", "", "bob").call, "CREATE") is not NO_PLUGINS


async def test_handlers_are_found_again_after_a_rule_was_written() -> None:
    observers: dict[GroupResource, Callable[[StoredChange], None]] = {}
    plugin = OfLimits("l")
    chain = AdmissionChain([plugin], observe=observers.__setitem__)
    assert await admitted(chain, request("pods", "")) == ""
    plugin.limits = 1
    change: Any = None
    observers[GroupResource("", "limitranges")](change)
    assert await admitted(chain, request("pods", "")) == "l"


def test_a_plugin_that_reads_stored_objects_names_their_resources() -> None:
    """The result of `handles` is kept until an object of `rules` is written."""
    assert accesscontrol  # it puts the chain together, so all plugins are there
    known = {plugin for plugin in _plugins(AdmissionPlugin) if plugin.__module__.startswith("cathedra.")}
    reading = {plugin for plugin in known if _reads_its_state(plugin)}
    assert {PolicyCheck, MutatingWebhooks} < reading
    assert all(plugin.rules for plugin in reading)


def _reads_its_state(plugin: type[AdmissionPlugin]) -> bool:
    return "self" in inspect.getsource(plugin.handles).partition(":\n")[2]


def _plugins(of: type[AdmissionPlugin]) -> set[type[AdmissionPlugin]]:
    return {of}.union(*(_plugins(below) for below in of.__subclasses__()))


class NotOfPods(Appending):
    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        return definition.plural != "pods"


async def test_a_plugin_that_does_not_handle_a_resource_is_not_called() -> None:
    plugin = NotOfPods("i")
    chain = AdmissionChain([plugin, Appending("a")])
    assert await admitted(chain, request("pods", "")) == "a"
    assert await admitted(chain, request("configmaps", "")) == "ia"
    await validated(chain, request("pods", "one"))
    await validated(chain, request("configmaps", "two"))
    assert plugin.validated == ["two"]
