"""Orders and tokens: each process gets those of its own parts, and everything survives the way to a child."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from cathedra.client.resources import PODS
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.identity.permissions import SCHEDULER, driver_user, node_user
from cathedra.cluster.parts.controlplane import SCHEDULING
from cathedra.cluster.parts.foundation import Served
from cathedra.cluster.processes.order import APISERVER, LAYOUTS, NODES, Order, Passes, has_replica, identity_of
from cathedra.profiles import load_profile

CONFIG = ClusterConfig(data_dir=Path("/d"), nodes=2, processes=3, leaving=("node-2",), store="etcd://127.0.0.1:2379")


def test_each_process_gets_the_tokens_of_its_own_parts() -> None:
    passes = Passes(CONFIG)
    scheduling, nodes = passes.of((SCHEDULING,)), passes.of((NODES,))
    assert {identity_of(SCHEDULER)} == scheduling.keys()
    driver = CONFIG.driver.name
    assert {
        identity_of(user)
        for name in ("node-0", "node-1", "node-2")
        for user in (node_user(name), driver_user(driver, name))
    } == nodes.keys()
    assert passes.users[scheduling[identity_of(SCHEDULER)]] == SCHEDULER
    assert len(set(passes.users)) == len(scheduling) + len(nodes), "no two users have one token"


def test_a_driver_has_another_token_on_every_node() -> None:
    tokens = Passes(CONFIG).of((NODES,))
    one, other = (tokens[identity_of(driver_user(CONFIG.driver.name, node))] for node in ("node-0", "node-1"))
    assert one != other


def test_every_start_has_tokens_of_its_own() -> None:
    assert not set(Passes(CONFIG).users) & set(Passes(CONFIG).users)


def test_a_process_with_an_api_server_of_its_own_has_no_tokens() -> None:
    alone = replace(CONFIG, store="sqlite")
    assert has_replica(alone, (SCHEDULING,))
    assert not Passes(alone).of((SCHEDULING,))
    assert Passes(alone).of((NODES,))


def test_who_shares_a_store_or_audits_asks_the_first_process() -> None:
    assert not has_replica(CONFIG, (SCHEDULING, NODES))
    assert not has_replica(replace(CONFIG, store="sqlite", audit_log=Path("/d/audit")), (SCHEDULING, NODES))
    assert not has_replica(replace(CONFIG, store="sqlite"), (NODES,))


def test_an_api_server_has_a_replica_unless_all_servers_share_a_store() -> None:
    assert has_replica(replace(CONFIG, store="sqlite", audit_log=Path("/d/audit")), (APISERVER,))
    assert not has_replica(CONFIG, (APISERVER,))


def test_layouts_put_every_part_beside_the_server_into_one_process() -> None:
    for processes, layout in LAYOUTS.items():
        parts = [part for process in layout for part in process]
        assert len(layout) == processes - 1
        assert sorted(parts) == sorted((SCHEDULING, NODES) if processes > 1 else ())


def test_an_order_arrives_as_it_was_given() -> None:
    config = ClusterConfig(data_dir=Path("/d"), processes=2, profile=load_profile("h100-8"))
    order = Order(
        parts=(SCHEDULING, NODES),
        config=config,
        nodes=("node-0",),
        served=Served("127.0.0.1", 6443, True, (PODS,)),
        socket=Path("/d/api.sock"),
        tokens=Passes(config).of((NODES,)),
        log_level="info",
        log_format="text",
    )
    assert Order.read(order.written()) == order
