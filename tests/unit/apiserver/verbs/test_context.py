"""What verbs and strategies know of the server."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import Namespace
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.request import Call
from cathedra.client.resources import NAMESPACES
from tests.unit.apiserver.guarded import Guarded, guarded, rule, user


def call(api: Guarded, plural: str = "configmaps", group: str = "", **options: object) -> Call:
    definition = api.server.catalog.definition(GroupResource(group, plural))
    assert definition is not None
    asked = Call(user=UserInfo("ada", ("g",)), verb="get", definition=definition, version=definition.versions[0])
    return asked.but(**{"namespace": "default", "name": "a", **options})


def test_strategies_know_the_user_the_version_and_the_labels_of_the_namespace() -> None:
    async def body(api: Guarded) -> None:
        labelled = Namespace(metadata=ObjectMeta(name="team", labels={"a": "b"}))
        await api.admin.resource(NAMESPACES).create(labelled)
        context = api.server.context.strategy_context(call(api, namespace="team"))
        assert (context.user, context.groups, context.api_version) == ("ada", ("g",), "v1")
        assert context.namespace_labels()["a"] == "b"
        assert context.now == api.clock.now()
        assert context.gates == api.server.context.gates
        assert api.server.context.namespace_labels("nowhere") == api.server.context.namespace_labels("") == {}

    guarded(body)


def test_a_call_passes_if_its_user_may_do_that() -> None:
    async def body(api: Guarded) -> None:
        asked = call(api)
        with pytest.raises(StatusError) as refused:
            api.server.context.authorize(asked)
        assert refused.value.code == 403
        assert 'User "ada" cannot get resource "configmaps" in API group "" in the namespace "default"' in str(
            refused.value
        )
        await api.role("read", rule("get", "configmaps"))
        await api.bind("read", user("ada"))
        api.server.context.authorize(asked)

    guarded(body)


def test_what_creates_by_another_verb_needs_the_permission_to_create() -> None:
    async def body(api: Guarded) -> None:
        await api.role("patch", rule("patch", "configmaps"))
        await api.bind("patch", user("ada"))
        asked = call(api, verb="patch")
        api.server.context.authorize(asked)
        with pytest.raises(StatusError) as refused:
            api.server.context.authorize_creation(asked)
        assert refused.value.code == 403
        await api.role("create", rule("create", "configmaps"))
        await api.bind("create", user("ada"))
        api.server.context.authorize_creation(asked)

    guarded(body)


def test_both_groups_of_events_are_one_table() -> None:
    async def body(api: Guarded) -> None:
        context = api.server.context
        assert context.table(call(api, "events")) is context.table(call(api, "events", "events.k8s.io"))
        assert context.table(call(api, "events")) is not context.table(call(api))

    guarded(body)
