"""What every namespace has."""

from __future__ import annotations

import msgspec

from cathedra.api.struct import replace
from cathedra.client.resources import CONFIGMAPS, SERVICEACCOUNTS
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.namespaces.defaults import RootCAPublisher, ServiceAccountController
from tests.unit.controllers.namespaces.objects import make
from tests.unit.controllers.world import World, play


def publisher(context: ControllerContext) -> RootCAPublisher:
    return RootCAPublisher(msgspec.structs.replace(context, root_ca="PEM"))


def test_every_active_namespace_has_account_and_certificate_and_gets_them_back() -> None:
    async def story(world: World) -> None:
        await make(world)
        await world.quiet()
        assert await world.names(SERVICEACCOUNTS, "ns") == ["default"]
        published = await world.of(CONFIGMAPS, "ns").get("kube-root-ca.crt")
        assert published.data == {"ca.crt": "PEM"}
        await world.of(SERVICEACCOUNTS, "ns").delete("default")
        await world.of(CONFIGMAPS, "ns").update(replace(published, data={"ca.crt": "other"}))
        await world.quiet()
        assert await world.names(SERVICEACCOUNTS, "ns") == ["default"]
        assert (await world.of(CONFIGMAPS, "ns").get("kube-root-ca.crt")).data == {"ca.crt": "PEM"}
        assert await world.names(SERVICEACCOUNTS, "kube-system") == ["default"]

    play((ServiceAccountController, publisher), story)
