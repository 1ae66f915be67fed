"""The public information for nodes that join a cluster."""

from __future__ import annotations

import yaml

from cathedra.api.struct import replace
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import Attributes
from cathedra.apiserver.bootstrap.clusterobjects import cluster_info
from cathedra.apiserver.bootstrap.keeping import ObjectKeeper
from cathedra.client.resources import CONFIGMAPS
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded

URL = "https://10.1.2.3:6443"


@run_with(guarded)
async def test_the_kubeconfig_names_the_server_and_its_authority_and_no_user(api: Guarded) -> None:
    await ObjectKeeper(api.server.context, list(cluster_info(URL, b"PEM"))).reconcile()
    found = await api.admin.resource(CONFIGMAPS, "kube-public").get("cluster-info")
    config = yaml.safe_load(found.data["kubeconfig"])
    assert config["clusters"] == [{"cluster": {"certificate-authority-data": "UEVN", "server": URL}, "name": ""}]
    assert config["users"] is None


@run_with(guarded)
async def test_anonymous_users_may_read_it_and_nothing_beside_it(api: Guarded) -> None:
    await ObjectKeeper(api.server.context, list(cluster_info(URL, b"PEM"))).reconcile()
    maps = api.of("system:anonymous", "system:unauthenticated").resource(CONFIGMAPS, "kube-public")
    authorize = api.server.context.authorizer.authorize
    assert (await maps.get("cluster-info")).data
    questions = [("get", "cluster-info"), ("get", "other"), ("update", "cluster-info"), ("list", "")]
    user = UserInfo("system:anonymous", ("system:unauthenticated",))
    answers = [
        authorize(Attributes(user, verb, "", "v1", "configmaps", namespace="kube-public", name=name)).allowed
        for verb, name in questions
    ]
    assert answers == [True, False, False, False]


@run_with(guarded)
async def test_signatures_stay_and_a_changed_kubeconfig_is_corrected(api: Guarded) -> None:
    keeper = ObjectKeeper(api.server.context, list(cluster_info(URL, b"PEM")))
    await keeper.reconcile()
    maps = api.admin.resource(CONFIGMAPS, "kube-public")
    found = await maps.get("cluster-info")
    right = found.data["kubeconfig"]
    await maps.update(replace(found, data={"kubeconfig": "wrong", "jws-kubeconfig-abcdef": "signed"}))
    await keeper.reconcile()
    assert (await maps.get("cluster-info")).data == {"kubeconfig": right, "jws-kubeconfig-abcdef": "signed"}
