"""Pods that want to be, or must not be, together."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Namespace
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.client.store import Store
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.plugins.interpod_affinity import InterPodAffinity
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod
from tests.unit.scheduler.outcome import WEB, affinity, on, outcome


def test_a_required_affinity_without_any_such_pod_is_refused() -> None:
    refused = "0/1 nodes are available: 1 node(s) didn't match pod affinity rules."
    assert outcome(pod("p", affinity=affinity("podAffinity", WEB)), [node("n", labels={"zone": "a"})]) == refused


def test_namespaces_are_chosen_by_their_labels_as_they_are_now() -> None:
    namespaces = Store[Namespace]()
    plugin = InterPodAffinity(namespaces)
    term = {**WEB, "namespaceSelector": {"matchLabels": {"team": "x"}}}
    incoming = PodInfo(pod("p", affinity=affinity("podAffinity", term)))
    cache = Cache()
    cache.set_node(node("n", labels={"zone": "a"}))
    cache.add_pod(on("n", pod("web", labels={"app": "web"})))

    def refused() -> bool:
        snapshot = cache.snapshot()
        state = CycleState(snapshot)
        plugin.pre_filter(state, incoming, snapshot)
        return plugin.filter(state, incoming, snapshot.nodes[0]) is not None

    assert refused()
    namespaces.put(Namespace(metadata=ObjectMeta(name="default", labels={"team": "x"})))
    assert not refused()


def test_anti_affinity_holds_in_both_directions() -> None:
    zoned = [node("n", labels={"zone": "a"})]
    anti = affinity("podAntiAffinity", WEB)
    web = on("n", pod("web", labels={"app": "web"}))
    assert "node(s) didn't match pod anti-affinity rules" in outcome(pod("p", affinity=anti), zoned, [web])
    hermit = on("n", pod("hermit", affinity=anti))
    refused = outcome(pod("p", labels={"app": "web"}), zoned, [hermit])
    assert "node(s) didn't satisfy existing pods anti-affinity rules" in refused


def test_the_first_pod_of_a_group_that_wants_to_be_together_may_start_anywhere() -> None:
    incoming = pod("p", labels={"app": "web"}, affinity=affinity("podAffinity", WEB))
    assert outcome(incoming, [node("n", labels={"zone": "a"})]) == "n"


def test_preferred_affinity_draws_to_the_domain() -> None:
    nodes = [node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"})]
    web = on("b", pod("web", labels={"app": "web"}))
    assert outcome(pod("p", affinity=affinity("podAffinity", WEB, weight=100)), nodes, [web]) == "b"


def scores_near(plugin: InterPodAffinity) -> dict[str, int] | None:
    """Return scores for a pod of the web without affinity, where one pod in zone «a» requires to be near the web."""
    cache = Cache()
    for zone in ("a", "b"):
        cache.set_node(node(zone, labels={"zone": zone}))
    cache.add_pod(on("a", pod("there", affinity=affinity("podAffinity", WEB))))
    snapshot = cache.snapshot()
    found = plugin.score(CycleState(snapshot), PodInfo(pod("p", labels={"app": "web"})), snapshot.nodes)
    return dict(zip((info.name for info in snapshot.nodes), found, strict=True)) if found is not None else None


def test_a_profile_says_how_much_the_wishes_of_pods_already_there_count() -> None:
    assert scores_near(InterPodAffinity(Store[Namespace]())) == {"a": 100, "b": 0}
    assert scores_near(InterPodAffinity(Store[Namespace](), 0)) is None
    assert scores_near(InterPodAffinity(Store[Namespace](), ignores_wishes_of_others=True)) is None
