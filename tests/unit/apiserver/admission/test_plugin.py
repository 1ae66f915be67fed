"""The chain asks those, and only those, who have something to say."""

from __future__ import annotations

from typing import Any

from cathedra.api.gates import FeatureGates
from cathedra.api.scheme import GroupResource
from cathedra.apiserver.admission.plugin import AdmissionAttributes, AdmissionChain, AdmissionPlugin
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.request import Call
from cathedra.kinds.definition import AnyDefinition
from cathedra.kinds.served import all_definitions

DEFINITIONS = {one.plural: one for one in all_definitions(FeatureGates.for_release()) if not one.group}


class Appending(AdmissionPlugin):
    """Appends its letter to the object, and notes what it was asked."""

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.validated: list[str] = []

    async def admit(self, request: AdmissionAttributes) -> Any:
        return request.object + self.letter

    async def validate(self, request: AdmissionAttributes) -> None:
        self.validated.append(request.object)


class OfPods(Appending):
    kinds = frozenset({GroupResource("", "pods")})


class Silent(AdmissionPlugin):
    """Has nothing to say."""


def request(plural: str, obj: str) -> AdmissionAttributes:
    definition = DEFINITIONS[plural]
    call = Call(
        user=UserInfo("ann"),
        verb="create",
        definition=definition,
        version=definition.versions[0],
        namespace="ns",
        name="n",
    )
    return AdmissionAttributes(call, "CREATE", obj, None)


async def test_each_sees_what_those_before_it_made_of_the_object() -> None:
    chain = AdmissionChain([Appending("a"), Silent(), OfPods("p"), Appending("b")])
    assert await chain.admit(request("pods", "")) == "apb"
    assert await chain.admit(request("configmaps", "")) == "ab"


async def test_who_is_about_other_kinds_is_not_asked() -> None:
    pods = OfPods("p")
    chain = AdmissionChain([pods])
    await chain.validate(request("configmaps", "one"))
    await chain.validate(request("pods", "two"))
    assert pods.validated == ["two"]


async def test_all_plugins_run_again_if_a_webhook_changed_the_object() -> None:
    outside = Appending("o")
    chain = AdmissionChain([Appending("a"), outside], external=[outside])
    assert await chain.admit(request("pods", "")) == "aoao"


class IdleOnPods(Appending):
    def is_idle(self, definition: AnyDefinition) -> bool:
        return definition.plural == "pods"


async def test_who_is_idle_on_a_resource_is_not_asked_about_it() -> None:
    plugin = IdleOnPods("i")
    chain = AdmissionChain([plugin, Appending("a")])
    assert await chain.admit(request("pods", "")) == "a"
    assert await chain.admit(request("configmaps", "")) == "ia"
    await chain.validate(request("pods", "one"))
    await chain.validate(request("configmaps", "two"))
    assert plugin.validated == ["two"]
