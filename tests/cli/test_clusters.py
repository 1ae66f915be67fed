"""Clusters with names: they remember themselves, and leave nothing behind when they are deleted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.struct import from_dict
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import load
from cathedra.client.resources import CONFIGMAPS, NODES, RESOURCESLICES
from cathedra.clock import SystemClock
from tests.cli.conftest import Shell
from tests.integration.etcd import STORES

SMALL = ("--nodes=1", "--gpus=1", "--runtime=process")


def listed(cathedra: Shell) -> dict[str, dict[str, object]]:
    """``cathedra list -o json`` by name."""
    return {row["name"]: row for row in json.loads(cathedra("list", "-o", "json"))["items"]}


def names(kubeconfig: Path, what: str) -> list[str]:
    """The nodes, slices or configmaps of a cluster."""

    async def read() -> list[str]:
        ref = {"nodes": NODES, "resourceslices": RESOURCESLICES, "configmaps": CONFIGMAPS}[what]
        async with await HTTPTransport.open(load(kubeconfig)) as transport:
            found = await Client(transport, clock=SystemClock()).resource(ref, "").list()  # type: ignore[arg-type]
            return sorted(one.metadata.name for one in found.items)

    return asyncio.run(read())


def add_config_map(kubeconfig: Path) -> None:
    """An object of the user's own: configmap mine."""

    async def create() -> None:
        async with await HTTPTransport.open(load(kubeconfig)) as transport:
            client = Client(transport, clock=SystemClock())
            made = from_dict(ConfigMap, {"metadata": {"name": "mine"}})
            await client.resource(CONFIGMAPS, "default").create(made)

    asyncio.run(create())


def test_two_clusters_at_once_each_with_its_context(cathedra: Shell) -> None:
    cathedra.kubeconfig.parent.mkdir()
    own = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "work",
        "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me"}}],
        "clusters": [{"name": "work", "cluster": {"server": "https://work.example.com"}}],
        "users": [{"name": "me", "user": {}}],
    }
    cathedra.kubeconfig.write_text(yaml.safe_dump(own))
    before = cathedra.kubeconfig.read_text()
    cathedra("up", "a", "--detach", "--nodes=0")
    cathedra("up", "b", "--detach", "--nodes=0")
    assert load(cathedra.kubeconfig).name == "cathedra-b"
    assert {name: row["context"] for name, row in listed(cathedra).items()} == {"a": "cathedra-a", "b": "cathedra-b"}
    assert all(row["process"] for row in listed(cathedra).values())
    assert yaml.safe_load(cathedra("kubeconfig", "a"))["current-context"] == "cathedra-a"
    assert "current is now cathedra-a" in cathedra("delete", "b")
    assert "current is now work" in cathedra("delete", "a")
    assert yaml.safe_load(cathedra.kubeconfig.read_text()) == own
    assert cathedra.kubeconfig.with_name("config.cathedra-backup").read_text() == before
    assert listed(cathedra) == {}
    assert not (cathedra.home / "state" / "clusters" / "a").exists()


@pytest.fixture(params=["sqlite", "memory", *STORES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Each store, as ``--store`` takes it."""
    if request.param not in STORES:
        yield request.param
        return
    with STORES[request.param](tmp_path / "etcd") as etcd:
        yield etcd.url


def test_up_down_up_brings_back_the_same_cluster(store: str, cathedra: Shell) -> None:
    cathedra("up", "dev", "--detach", *SMALL, f"--store={store}")
    first = load(cathedra.kubeconfig).server
    add_config_map(cathedra.kubeconfig)
    down = cathedra("down", "dev")
    kept = {"sqlite": "its objects are kept", "memory": "its objects were in memory and are gone"}
    assert kept.get(store, f"its objects are kept in etcd ({store.removeprefix('etcd://')})") in down
    assert "start it again with: cathedra up --detach dev" in down
    assert listed(cathedra)["dev"]["process"] is None
    again = cathedra("up", "dev", "--detach")
    assert "changed" not in again
    assert (load(cathedra.kubeconfig).server, listed(cathedra)["dev"]["store"]) == (first, store)
    assert names(cathedra.kubeconfig, "nodes") == ["node-0"]
    assert len(names(cathedra.kubeconfig, "resourceslices")) == 1
    assert ("mine" in names(cathedra.kubeconfig, "configmaps")) is (store != "memory")
    said = cathedra("delete", "dev")
    assert ("its objects are still in etcd" in said) is store.startswith("etcd")


def test_a_backup_comes_back_after_its_cluster_was_deleted(cathedra: Shell) -> None:
    cathedra("up", "dev", "--detach", *SMALL)
    server = load(cathedra.kubeconfig).server
    add_config_map(cathedra.kubeconfig)
    cathedra("backup", "-c", "dev", "saved")
    cathedra("delete", "dev")
    assert listed(cathedra) == {}
    assert "start it with: cathedra up --detach dev" in cathedra("restore", "-c", "dev", "saved")
    cathedra("up", "dev", "--detach")
    assert load(cathedra.kubeconfig).server == server
    assert "mine" in names(cathedra.kubeconfig, "configmaps")
    assert names(cathedra.kubeconfig, "nodes") == ["node-0"]


def test_nodes_that_are_no_longer_wanted_are_drained_and_removed(cathedra: Shell) -> None:
    cathedra("up", "--detach", "--nodes=3", "--gpus=1", "--runtime=process")
    cathedra("down")
    said = cathedra("up", "--detach", "--nodes=1")
    assert "node node-1 is drained" in said
    assert "node node-2 is drained" in said
    assert "nodes: 3 → 1" in said
    assert names(cathedra.kubeconfig, "nodes") == ["node-0"]
    assert len(names(cathedra.kubeconfig, "resourceslices")) == 1


def test_a_deleted_cluster_is_new_when_it_comes_again(cathedra: Shell) -> None:
    cathedra("up", "--detach", "--nodes=2", "--gpus=1", "--runtime=simulated")
    cathedra("delete")
    cathedra("up", "--detach", "--nodes=0")
    assert names(cathedra.kubeconfig, "nodes") == []


def test_deleting_the_default_cluster_leaves_the_named_ones(cathedra: Shell) -> None:
    cathedra("up", "a", "--detach", "--nodes=0")
    cathedra("up", "--detach", "--nodes=0")
    cathedra("delete")
    assert listed(cathedra).keys() == {"a"}
    assert names(cathedra.kubeconfig, "nodes") == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("down", "nope"), 1, "no cluster is running on"),
        (("delete", "nope"), 1, "there is no cluster in"),
        (("kubeconfig", "nope"), 1, "there is no cluster in"),
        (("status", "nope"), 1, "no cluster is running on"),
        (("up", "Not-a-name"), 2, "the name of a cluster consists of lower case letters"),
        (("up", "--config=nope.yaml"), 2, "cannot read nope.yaml: No such file or directory"),
    ],
)
def test_a_cluster_that_is_not_there_is_said_in_one_line(
    words: tuple[str, ...], code: int, said: str, cathedra: Shell
) -> None:
    done = cathedra.run(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (cathedra.home / "state").exists()


def test_only_what_the_cluster_made_is_deleted(cathedra: Shell) -> None:
    precious = cathedra.home / "precious"
    precious.mkdir()
    (precious / "file").touch()
    assert cathedra.run("delete", f"--data-dir={precious}").returncode == 1
    cathedra("up", "--detach", "--nodes=1", "--gpus=1", "--runtime=process", f"--data-dir={precious}")
    assert f"what is not the cluster's is left in {precious}: file" in cathedra("delete", f"--data-dir={precious}")
    assert [entry.name for entry in precious.iterdir()] == ["file"]


def test_a_damaged_state_file_stops_its_node_alone_until_it_is_removed(cathedra: Shell) -> None:
    cathedra("up", "--detach", "--nodes=2", "--gpus=1", "--runtime=process")
    cathedra("down")
    (damaged,) = cathedra.home.rglob("nodes/node-0")
    (damaged / "dra_manager_state").write_text("junk")
    started = cathedra.run("up", "--detach")
    assert started.returncode == 0, started.stderr
    said = started.stdout + started.stderr
    assert "1 node Ready, 1 device of gpu.example.com on each" in said
    assert "nodes/node-0/dra_manager_state: checkpoint is corrupted" in said
    assert names(cathedra.kubeconfig, "nodes") == ["node-0", "node-1"]

    (damaged / "dra_manager_state").unlink()

    async def served() -> None:
        """Wait for the node's slice, which its driver publishes when the node runs again."""
        async with await HTTPTransport.open(load(cathedra.kubeconfig)) as transport:
            client = Client(transport, clock=SystemClock()).resource(RESOURCESLICES, "")
            async with asyncio.timeout(120):
                found = await client.list()
                if any(one.spec.node_name == "node-0" for one in found.items):
                    return
                async with client.watch(resource_version=found.metadata.resource_version) as events:
                    async for event in events:
                        if getattr(getattr(event.object, "spec", None), "node_name", "") == "node-0":
                            return

    asyncio.run(served())


def test_a_cluster_elsewhere_has_its_own_context_and_is_listed_and_selected(cathedra: Shell) -> None:
    cathedra("up", "--detach", "--nodes=0")
    own = cathedra.home / "lab"
    cathedra("up", "--detach", "--nodes=0", f"--data-dir={own}")
    rows = {Path(str(row["dataDir"])): row for row in json.loads(cathedra("list", "-o", "json"))["items"]}
    assert rows[cathedra.home / "state"]["context"] == "cathedra"
    context = str(rows[own]["context"])
    assert context.startswith("cathedra-lab-")
    assert load(cathedra.kubeconfig).name == context
    assert str(own) in cathedra("list")
    assert f"data in {own}" in cathedra("status")
    assert f"data in {cathedra.home / 'state'}" in cathedra("status", "--cluster", "cathedra")
    assert "current is now cathedra" in cathedra("delete", f"--data-dir={own}")
    assert load(cathedra.kubeconfig).name == "cathedra"
    assert len(json.loads(cathedra("list", "-o", "json"))["items"]) == 1


def test_a_running_cluster_gets_and_loses_nodes(cathedra: Shell) -> None:
    cathedra("up", "--detach", "--nodes=1", "--gpus=1", "--runtime=simulated")
    (pid,) = (row["process"] for row in listed(cathedra).values())
    said = cathedra("up")
    assert f"the cluster cathedra runs as process {pid}, nodes: 1" in said
    said = cathedra("up", "--nodes=2", "--nodes=gpu=2:h100-8", "--nodes=cpu=1")
    assert "2 nodes Ready in group gpu, 8 devices of gpu.nvidia.com on each" in said
    assert "1 node Ready in group cpu, without devices" in said
    assert names(cathedra.kubeconfig, "nodes") == ["cpu-0", "gpu-0", "gpu-1", "node-0", "node-1"]
    assert listed(cathedra)["cathedra"]["nodes"] == 5
    said = cathedra("up", "--nodes=1", "--nodes=cpu=1")
    assert "node gpu-1 is drained (0 pods deleted) and removed" in said
    assert names(cathedra.kubeconfig, "nodes") == ["cpu-0", "node-0"]
    refused = cathedra.run("up", "--gpus=2")
    assert refused.returncode == 2
    assert "this needs a new start: gpus: 1 → 2" in refused.stderr
    assert cathedra.run("up", "--nodes=cpu=1:h100-8").stderr.count("have another profile") == 1
    assert names(cathedra.kubeconfig, "nodes") == ["cpu-0", "node-0"]
    assert {row["process"] for row in listed(cathedra).values()} == {pid}
    cathedra("down")
    assert "1 node Ready in group cpu" in cathedra("up", "--detach")


def test_a_cluster_starts_from_a_dump(cathedra: Shell) -> None:
    dump = Path(__file__).parents[2] / "examples" / "insight" / "cluster.yaml"
    said = cathedra("up", "copy", f"--from-dump={dump}", "--runtime=simulated", "--detach")
    assert "3 nodes of the dump Ready, 12 devices" in said
    assert names(cathedra.kubeconfig, "nodes") == ["node-0", "node-1", "node-2"]
    assert "two nodes have the name 'node-0'" in cathedra.run("up", "copy", "--nodes=1").stderr
    assert "1 node Ready in group cpu" in cathedra("up", "copy", "--nodes=0", "--nodes=cpu=1")
    cathedra("down", "copy")
    again = cathedra("up", "copy", "--detach")
    assert "3 nodes of the dump Ready" in again
    assert "of the dump created" not in again
