"""The history of a resource is bounded in bytes, keys are in order, and a write looks only at some watchers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.resource import ResourceSlice
from cathedra.api.struct import from_dict, replace
from cathedra.apiserver.registry import table as tables
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import EncodedForms, StoredObject
from cathedra.apiserver.registry.table import SortedKeys, Table, TooOld
from cathedra.apiserver.registry.watching import Seen, StoredChange, Watcher
from tests.unit.kinds.objects import definition_of, pod

PODS = definition_of("pods")


def change(table: Table, revision: int, key: str = "default/p", size: int = 100, **labels: str) -> None:
    """Write a pod whose JSON has a number of bytes."""
    obj = pod(metadata={"name": key.partition("/")[2], "labels": labels})
    entry = StoredObject(key, obj, revision, b"x" * size, size)
    table.apply(StoredChange(revision, entry, table.get(key)))


def selecting(namespace: str = "", labels: str = "", fields: str = "") -> Selection:
    return Selection.parse(PODS, namespace, labels, fields)


def test_the_history_of_large_objects_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "HISTORY_BYTES", 100_000)
    table = Table(PODS)
    for revision in range(1, 1001):
        change(table, revision, size=1000)
    assert table.floor == 900
    with pytest.raises(TooOld):
        table.watch(selecting(), 899)
    assert len(table.watch(selecting(), 900).taken()) == 100


def test_some_changes_are_kept_however_large_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "HISTORY_BYTES", 1000)
    table = Table(PODS)
    for revision in range(1, 101):
        change(table, revision, size=1000)
    assert table.floor == 100 - tables.HISTORY_LEAST


def test_tables_that_share_a_bound_keep_the_forms_that_were_last_encoded_for_readers() -> None:
    (version,) = PODS.versions
    encoded = EncodedForms(300)
    loaded, written = Table(PODS, encoded=encoded), Table(PODS, encoded=encoded)
    loaded.load({"n/a": StoredObject("n/a", pod(metadata={"name": "a", "labels": {"l": "x"}}), 1)})
    for name in "bc":
        obj = pod(metadata={"name": name, "labels": {"l": "x"}})
        written.apply(StoredChange(2, StoredObject(f"n/{name}", obj, 2), None))
    entries = [*loaded.entries(), *written.entries()]
    sizes = [len(entry.body(version)) for entry in entries]
    assert 2 * max(sizes) < 300 < sum(sizes)
    assert [entry.body_in(version.type) is not None for entry in entries] == [False, True, True]


def test_objects_of_changes_that_the_history_dropped_have_no_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "HISTORY_BYTES", 100_000)
    table = Table(PODS)
    for number in range(1000):
        change(table, number + 1, f"default/p{number}", size=1000)
    assert sum(entry.body_in(PODS.type) is not None for entry in table.entries()) == 100


def test_a_watcher_that_takes_nothing_keeps_nothing_that_the_history_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "HISTORY_BYTES", 100_000)
    table = Table(PODS)
    slow, keeping_up = table.watch(selecting(), 0), table.watch(selecting("default"), 0)
    for revision in range(1, 1001):
        change(table, revision, size=1000)
        assert len(keeping_up.taken()) == 1
    assert slow.closed
    assert not slow.queue
    assert not keeping_up.closed


@pytest.mark.parametrize(
    "selection",
    [
        lambda number: selecting(labels=f"own=x{number}"),
        lambda number: selecting(labels=f"key{number}=x"),
        lambda number: selecting("default", labels=f"a!=b,own in (x{number})"),
        lambda number: selecting(f"n{number}"),
        lambda number: selecting(fields=f"spec.nodeName=n{number}"),
        lambda number: selecting(f"n{number}", labels="own!=x"),
    ],
)
def test_a_write_looks_at_no_watcher_of_something_else(selection: object, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(PODS)
    for number in range(1000):
        table.watch(selection(number), 0)  # type: ignore[operator]
    looked: list[Selection] = []
    real = StoredChange.seen_by

    def counted(change: StoredChange, selected: Selection) -> Seen | None:
        looked.append(selected)
        return real(change, selected)

    monkeypatch.setattr(StoredChange, "seen_by", counted)
    change(table, 1, own="x1")
    change(table, 2, own="x2")
    assert len(looked) <= 3


def test_a_watcher_sees_an_object_come_and_go_by_its_label_and_leaves_no_trace() -> None:
    table = Table(PODS)
    watchers = [
        table.watch(selecting(labels="own=x1"), 0),
        table.watch(selecting("default", labels="own==x1"), 0),
        table.watch(selecting("default"), 0),
        table.watch(selecting("other", labels="own=x1"), 0),
        table.watch(selecting("default", fields="metadata.name=p"), 0),
    ]
    change(table, 1, own="x1")
    change(table, 2, own="x2")
    change(table, 3)
    seen = [[event.type.value for event in watcher.taken()] for watcher in watchers]
    assert seen[0] == seen[1] == ["ADDED", "DELETED"]
    assert seen[2] == seen[4] == ["ADDED", "MODIFIED", "MODIFIED"]
    assert seen[3] == []
    for watcher in watchers:
        table.unwatch(watcher)
    assert [len(found) for found in (table._by_label, table._by_namespace, table._by_field)] == [0, 0, 0]


def test_all_watchers_end_whatever_they_select() -> None:
    table = Table(PODS)
    watchers: list[Watcher] = [
        table.watch(selection, 0)
        for selection in (selecting(), selecting("n"), selecting(labels="a=b"), selecting(fields="spec.nodeName=n"))
    ]
    table.close_watchers()
    assert all(watcher.closed for watcher in watchers)


@pytest.mark.parametrize("count", [1, 63, 64, 200])
def test_added_keys_come_in_their_places(count: int) -> None:
    added = [f"n/{number * 7919 % 1000:04}" for number in range(count)]
    keys = SortedKeys(["n/0500-there", "n/0100-there"])
    for key in added:
        keys.add(key)
    assert keys.in_order() == sorted([*added, "n/0100-there", "n/0500-there"])
    assert keys.in_order() == sorted([*added, "n/0100-there", "n/0500-there"]), "they are added once"


def test_a_key_can_go_before_the_order_was_read() -> None:
    keys = SortedKeys(["b"])
    keys.add("a")
    keys.add("c")
    keys.remove("a")
    assert keys.in_order() == ["b", "c"]


@given(st.lists(st.text(max_size=2)))
def test_what_is_there_comes_in_order_whatever_came_and_went(steps: list[str]) -> None:
    """A key that is there already goes with its second step."""
    keys, there = SortedKeys(), set[str]()
    for key in steps:
        (keys.remove if key in there else keys.add)(key)
        there ^= {key}
    assert keys.in_order() == sorted(there)


def test_a_client_that_has_seen_one_of_several_changes_of_a_revision_sees_all_of_them() -> None:
    table = Table(PODS)
    for key in ("default/a", "default/b", "other/c"):
        change(table, 5, key)
    change(table, 6, "default/d")
    assert [seen.entry.key for seen in table.resume(selecting(), 5).taken()] == [
        "default/a",
        "default/b",
        "other/c",
        "default/d",
    ]
    assert [seen.entry.key for seen in table.resume(selecting("other"), 5).taken()] == ["other/c"]
    assert [seen.entry.key for seen in table.resume(selecting(), 4).taken()][-1] == "default/d"
    assert [seen.entry.key for seen in table.watch(selecting(), 5).taken()] == ["default/d"]


def test_a_client_that_has_seen_the_only_change_of_a_revision_does_not_see_it_again() -> None:
    table = Table(PODS)
    change(table, 5, "default/a")
    change(table, 6, "default/b")
    assert [seen.entry.key for seen in table.resume(selecting(), 5).taken()] == ["default/b"]
    assert table.resume(selecting(), 6).taken() == []


def test_no_watch_resumes_at_a_revision_that_the_history_has_in_part() -> None:
    table = Table(PODS)
    table.history_limit = 2
    for key in ("default/a", "default/b", "default/c"):
        change(table, 5, key)
    with pytest.raises(TooOld):
        table.resume(selecting(), 5)
    change(table, 6, "default/d")
    change(table, 7, "default/e")
    assert [seen.entry.key for seen in table.resume(selecting(), 6).taken()] == ["default/e"]


def test_a_slice_of_one_node_is_compared_with_no_watcher_of_another_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """All drivers' watches have the name of the driver in common; with 10,000 nodes that is 10,000 watches."""
    definition = definition_of("resourceslices")
    table = Table(definition)
    for number in range(1000):
        text = f"spec.driver=gpu.example.com,spec.nodeName=n{number}"
        table.watch(Selection.parse(definition, "", "", text), 0)
    compared: list[Selection] = []
    real = StoredChange.seen_by

    def counted(change: StoredChange, selected: Selection) -> Seen | None:
        compared.append(selected)
        return real(change, selected)

    monkeypatch.setattr(StoredChange, "seen_by", counted)
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n7", "pool": pool}
    obj = from_dict(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec})
    table.apply(StoredChange(1, StoredObject("s", obj, 1), None))
    assert len(compared) == 1


def place(table: Table, revision: int, name: str, node: str | None) -> None:
    """Write a pod on a node, or remove it."""
    key = f"default/{name}"
    previous = table.get(key)
    if node is not None:
        entry = StoredObject(key, pod(metadata={"name": name}, nodeName=node), revision)
        table.apply(StoredChange(revision, entry, previous))
    elif previous is not None:
        table.apply(StoredChange(revision, previous.at(revision), previous, deleted=True))


def on_node(node: str) -> Selection:
    return selecting(fields=f"spec.nodeName={node}")


def test_the_pods_of_a_node_are_listed_without_testing_those_of_others() -> None:
    """An agent of each of 10,000 nodes lists its pods when it starts."""
    table = Table(PODS)
    for number in range(100):
        place(table, number + 1, f"p{number}", f"n{number}")
    selection, tested = on_node("n7"), []

    def matches(obj: Any) -> bool:
        tested.append(obj)
        return selection.matches is not None and selection.matches(obj)

    assert [entry.key for entry in table.select(replace(selection, matches=matches))] == ["default/p7"]
    assert len(tested) == 1


STEP = st.tuples(st.sampled_from("abcd"), st.sampled_from([None, "n1", "n2", "n3"]))


@given(before=st.lists(STEP, max_size=8), after=st.lists(STEP, max_size=12))
def test_lists_by_node_and_lists_of_the_past_have_the_objects_of_their_time(
    before: list[tuple[str, str | None]], after: list[tuple[str, str | None]]
) -> None:
    table = Table(PODS)
    states: list[dict[str, str]] = [{}]
    for revision, (name, node) in enumerate([*before, *after], 1):
        if revision == len(before) + 1:
            list(table.select(on_node("n1")))  # makes the index, which follows the later changes
        place(table, revision, name, node)
        state = {**states[-1], f"default/{name}": node or ""}
        states.append({key: value for key, value in state.items() if value})
    for node in ("n1", "n2", "n3"):
        expected = sorted(key for key, at in states[-1].items() if at == node)
        assert [entry.key for entry in table.select(on_node(node))] == expected
    for revision, state in enumerate(states):
        found = [(entry.key, entry.object.spec.node_name) for entry in table.select_at(revision, selecting())]
        assert found == sorted(state.items())


@pytest.mark.parametrize("limit", [1000, 40])
def test_a_watch_of_one_node_resumes_alike_with_few_and_with_many_changes(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time more changes have come, and the oldest have gone."""
    table, shown = Table(PODS), 0
    table.history_limit = limit
    for last in (100, 150):
        for revision in range(max(table.latest, 0) + 1, last + 1):
            place(table, revision, f"p{revision % 7}", None if revision % 10 == 0 else f"n{revision % 3}")
        for after in range(max(table.floor, 1), last + 1, 9):
            for fields in ("spec.nodeName=n1", "spec.nodeName=none", "metadata.name=p3", "spec.nodeName!=n1"):
                found = []
                for few in (0, 1000):
                    monkeypatch.setattr(tables, "_FEW_CHANGES", few)
                    seen = table.resume(selecting(fields=fields), after).taken()
                    found.append([(each.type, each.entry.key, each.entry.revision) for each in seen])
                assert found[0] == found[1], (last, after, fields)
                shown += len(found[0])
    assert shown > 300


def test_a_watch_that_resumes_tests_no_change_of_other_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(PODS)
    for revision in range(1, 1001):
        place(table, revision, f"p{revision}", f"n{revision % 100}")
    tested: list[int] = []
    real = StoredChange.seen_by

    def counted(change: StoredChange, selected: Selection) -> Seen | None:
        tested.append(change.revision)
        return real(change, selected)

    monkeypatch.setattr(StoredChange, "seen_by", counted)
    assert len(table.resume(selecting(fields="spec.nodeName=n7"), 100).taken()) == 9
    assert len(tested) == 9
