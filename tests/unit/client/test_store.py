"""The informer's memory and its indexes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod, PodSpec, PodStatus
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.client.objects import ObjectKey, key_of
from cathedra.client.store import IndexConflict, Store


def pod(name: str, node: str = "") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="default"), spec=PodSpec(node_name=node))


def by_node(pod: Pod) -> list[str]:
    return [pod.spec.node_name] if pod.spec.node_name else []


def test_an_index_follows_changes() -> None:
    store: Store[Pod] = Store()
    store.add_index("node", by_node)
    values = store.index_values("node")
    store.put(pod("a", "n1"))
    store.put(pod("b", "n1"))
    store.put(pod("a", "n2"))
    assert set(values) == {"n1", "n2"}
    assert [p.metadata.name for p in store.by_index("node", "n1")] == ["b"]
    store.remove(ObjectKey("default", "a"))
    assert store.by_index("node", "n2") == ()
    assert set(values) == {"n1"}


def test_an_index_added_late_knows_what_is_there() -> None:
    store: Store[Pod] = Store()
    store.put(pod("a", "n1"))
    store.add_index("node", by_node)
    store.add_index("node", by_node)
    assert len(store.by_index("node", "n1")) == 1


def test_an_index_name_cannot_mean_two_things() -> None:
    store: Store[Pod] = Store()
    store.add_index("node", by_node)
    with pytest.raises(IndexConflict, match="choose another name"):
        store.add_index("node", lambda _: [])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "n1", "n2"]), st.booleans())))
def test_an_index_always_equals_a_search(steps: list[tuple[str, str, bool]]) -> None:
    store: Store[Pod] = Store()
    store.add_index("node", by_node)
    for name, node, keep in steps:
        if keep:
            store.put(pod(name, node))
        else:
            store.remove(ObjectKey("default", name))
        for value in ("n1", "n2"):
            found = {key_of(p) for p in store.by_index("node", value)}
            assert found == {key_of(p) for p in store if p.spec.node_name == value}


def by_node_and_letter(pod: Pod) -> tuple[str, str] | None:
    return (pod.spec.node_name, pod.metadata.name[0]) if pod.spec.node_name else None


@given(st.lists(st.tuples(st.sampled_from(["a", "a2", "b"]), st.sampled_from(["", "n1", "n2"]), st.booleans())))
def test_a_tally_always_equals_a_count(steps: list[tuple[str, str, bool]]) -> None:
    store: Store[Pod] = Store()
    store.add_tally("letters", by_node_and_letter)
    for name, node, keep in steps:
        if keep:
            store.put(pod(name, node))
        else:
            store.remove(ObjectKey("default", name))
        for value in ("n1", "n2"):
            counted = Counter(p.metadata.name[0] for p in store if p.spec.node_name == value)
            assert store.tally("letters", value) == counted


def test_a_tally_added_late_counts_what_is_there_and_has_one_meaning() -> None:
    store: Store[Pod] = Store()
    store.put(pod("a", "n1"))
    store.add_tally("letters", by_node_and_letter)
    store.add_tally("letters", by_node_and_letter)
    assert store.tally("letters", "n1") == {"a": 1}
    with pytest.raises(IndexConflict):
        store.add_tally("letters", lambda _: None)


def test_an_object_that_cannot_be_counted_is_left_out() -> None:
    store: Store[Pod] = Store()
    store.add_tally("hosts", lambda pod: ("all", {"a": "host"}[pod.metadata.name]))
    store.put(pod("a"))
    store.put(pod("b"))
    assert store.tally("hosts", "all") == {"host": 1}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([None, "", "n1", "n2"]))))
def test_an_index_that_is_not_asked_about_the_same_parts_always_equals_a_search(
    steps: list[tuple[str, str | None]],
) -> None:
    store: Store[Pod] = Store()
    store.add_index("node", by_node, lambda old, new: old.spec is new.spec)
    for name, node in steps:
        known = store.get("default", name)
        if node is None and known is not None:
            store.put(replace(known, status=PodStatus(phase="Running")))
        elif node is None:
            store.remove(ObjectKey("default", name))
        else:
            store.put(pod(name, node))
        for value in ("n1", "n2"):
            found = list(store.by_index("node", value))
            assert sorted(map(key_of, found)) == sorted(key_of(p) for p in store if p.spec.node_name == value)
            assert all(store.get(*key_of(p)) is p for p in found), "each as it is now"
