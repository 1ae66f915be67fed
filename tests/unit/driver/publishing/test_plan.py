"""What must change so that the cluster shows the desired slices, as a pure function."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api import resource
from cathedra.api.core import meta_v1
from cathedra.api.struct import Time, replace
from cathedra.driver.publishing.layout import DesiredPool, DesiredSlice
from cathedra.driver.publishing.plan import Publisher, plan

OWNER = meta_v1.OwnerReference(api_version="v1", kind="Node", name="n", uid="u", controller=True)
PUBLISHER = Publisher("d.example.com", OWNER, "n")


def pool(*slices: Sequence[str], generation: int = 0) -> DesiredPool:
    return DesiredPool(
        "p",
        tuple(DesiredSlice(tuple(resource.Device(name=name) for name in names)) for names in slices),
        generation=generation,
    )


def carry_out(desired: DesiredPool, existing: Sequence[resource.ResourceSlice]) -> list[resource.ResourceSlice]:
    """What the cluster holds after the plan."""
    todo = plan(desired, existing, PUBLISHER)
    gone = {s.metadata.name for s in todo.delete}
    updated = {s.metadata.name: s for s in todo.update.values()}
    kept = [updated.get(s.metadata.name, s) for s in existing if s.metadata.name not in gone]
    names = {s.metadata.name for s in existing}
    for new in todo.create.values():
        name = next(n for n in (f"{new.metadata.generate_name}{i:05d}" for i in range(100)) if n not in names)
        names.add(name)
        kept.append(replace(new, metadata=replace(new.metadata, name=name, generate_name="")))
    return kept


NAMES = st.lists(st.sampled_from("abcdef"), max_size=3, unique=True)
POOLS = st.lists(NAMES, min_size=1, max_size=4).map(lambda slices: pool(*slices))


@given(st.lists(POOLS, min_size=1, max_size=5))
def test_after_any_history_the_cluster_shows_exactly_the_last_pool(history: list[DesiredPool]) -> None:
    existing: list[resource.ResourceSlice] = []
    generation = 0
    for desired in history:
        existing = carry_out(desired, existing)
        generations = {s.spec.pool.generation for s in existing}
        assert len(generations) == 1
        assert min(generations) >= generation
        (generation,) = generations
        ordered = sorted(existing, key=lambda s: s.metadata.name)
        assert tuple(s.spec.devices for s in ordered) == tuple(part.devices for part in desired.slices)
        assert {s.spec.pool.resource_slice_count for s in existing} == {len(desired.slices)}
        assert plan(desired, existing, PUBLISHER).empty


def test_one_changed_slice_keeps_the_generation_and_two_do_not() -> None:
    existing = carry_out(pool("a", "b"), [])
    one, two = plan(pool("a", "c"), existing, PUBLISHER), plan(pool("c", "d"), existing, PUBLISHER)
    assert (one.generation, set(one.update)) == (1, {1})
    assert (two.generation, set(two.update)) == (2, {0, 1})


def test_generation_that_the_driver_asks_for_rewrites_everything() -> None:
    existing = carry_out(pool("a", "b"), [])
    todo = plan(pool("a", "b", generation=7), existing, PUBLISHER)
    assert (todo.generation, set(todo.update)) == (7, {0, 1})


def test_slices_with_foreign_names_old_generations_and_taken_places_are_obsolete() -> None:
    (good,) = carry_out(pool("a"), [])
    foreign = replace(good, metadata=replace(good.metadata, name="something-else"))
    old = replace(good, spec=replace(good.spec, pool=replace(good.spec.pool, generation=0)))
    twin = replace(good, metadata=replace(good.metadata, name=good.metadata.name[:-1] + "9"))
    todo = plan(pool("a"), [foreign, old, twin, good], PUBLISHER)
    assert {s.metadata.name for s in todo.delete} == {foreign.metadata.name, old.metadata.name, twin.metadata.name}
    assert (todo.update, todo.create, todo.generation) == ({}, {}, 1)


def test_names_begin_with_the_slices_number_in_hexadecimal() -> None:
    todo = plan(pool(*("a" for _ in range(17))), [], PUBLISHER)
    assert todo.create[16].metadata.generate_name == "00010-d.example.com-n-"


def tainted(time: Time | None) -> DesiredPool:
    taint = resource.DeviceTaint(key="k", effect="NoSchedule", time_added=time)
    return DesiredPool("p", (DesiredSlice((resource.Device(name="a", taints=(taint,)),)),))


def test_time_of_a_taint_is_kept_where_the_driver_gives_none_or_nearly_the_same() -> None:
    existing = carry_out(tainted(Time(1000)), [])
    assert plan(tainted(None), existing, PUBLISHER).empty
    assert plan(tainted(Time(1001)), existing, PUBLISHER).empty
    assert set(plan(tainted(Time(1002)), existing, PUBLISHER).update) == {0}
