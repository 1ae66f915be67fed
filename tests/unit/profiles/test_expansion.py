"""Templates become devices: placeholders, repetitions, and partitions with their counters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.resource import Device
from cathedra.profiles.loading import escaped, expanded_pools, node_capacity, node_labels
from cathedra.profiles.model import (
    Group,
    HardwareProfile,
    NodeShape,
    PartitionKind,
    Partitions,
    PoolTemplate,
    ProfileAmount,
    ProfileError,
)

DRIVER = "x.example.com"


def devices(template: dict[str, Any], *, node: str = "n1", **more: Any) -> tuple[Device, ...]:
    profile = HardwareProfile(
        name="p", description="p", pools=(PoolTemplate(driver=DRIVER, groups=(Group(devices=(template,), **more),)),)
    )
    (pool,) = expanded_pools(profile, node)
    return pool.devices


def strings(name: str, found: tuple[Device, ...]) -> list[str | None]:
    return [device.attributes[name].string for device in found]


def test_a_group_is_repeated_with_its_number_and_values() -> None:
    found = devices(
        {"name": "d-{n}", "attributes": {"bus": {"string": "0000:{bus}:00.0"}, "numa": {"int": "{numa}"}}},
        count=2,
        values={"bus": ("1b", "43"), "numa": (0, 1)},
    )
    assert [device.name for device in found] == ["d-0", "d-1"]
    assert strings("bus", found) == ["0000:1b:00.0", "0000:43:00.0"]
    assert [device.attributes["numa"].int_ for device in found] == [0, 1]


def test_identities_are_the_same_at_every_time_and_differ_by_node_and_repetition() -> None:
    template = {"name": "d-{n}", "attributes": {"uuid": {"string": "{uuid}"}, "serial": {"string": "{serial}"}}}
    one, same, other = devices(template, count=2), devices(template, count=2), devices(template, count=2, node="n2")
    assert one == same
    assert len({*strings("uuid", one), *strings("uuid", other)}) == 4
    assert all(text is not None and text.isdecimal() and len(text) == 8 for text in strings("serial", one))


def test_an_identity_with_a_label_is_shared_by_all_that_use_it() -> None:
    found = devices({"name": "d-{n}", "attributes": {"board": {"string": "{uuid:board}"}}}, count=3)
    assert len(set(strings("board", found))) == 1


def test_labels_may_name_the_node() -> None:
    shape = NodeShape(labels={"rack": "of-{node}"}, capacity={"cpu": "4"})
    profile = HardwareProfile(name="p", description="p", node=shape, pools=())
    assert node_labels(profile, "n7") == {"rack": "of-n7"}
    assert node_capacity(profile) == {"cpu": "4"}


def test_a_placeholder_without_a_value_is_an_error() -> None:
    with pytest.raises(ProfileError, match=r"\{what\} stands for nothing"):
        devices({"name": "{what}"})


@given(st.text(alphabet="ab{}:n", max_size=12))
def test_what_is_escaped_means_itself(text: str) -> None:
    (found,) = devices({"name": "d", "attributes": {"x": {"string": escaped(text)}}})
    assert found.attributes["x"].string == text


def parts(*, whole: bool) -> HardwareProfile:
    """A device of three slices, of which parts take one or two."""
    partitions = Partitions(
        counter_set="set-{n}",
        slices=3,
        slice_counter="slice-{slice}",
        whole=whole,
        device={"name": "d-{n}-{kind}-{start}"},
        amounts=(ProfileAmount(capacity="memory", counter="memory"),),
        kinds=(
            PartitionKind(values={"kind": "one"}, amounts={"memory": "9Gi"}, starts=(0, 1, 2), size=1),
            PartitionKind(values={"kind": "two"}, amounts={"memory": "20Gi"}, starts=(0,), size=2),
        ),
    )
    group = Group(count=2, devices=({"name": "d-{n}"},), partitions=partitions)
    return HardwareProfile(
        name="p", description="p", partitioned=True, pools=(PoolTemplate(driver=DRIVER, groups=(group,)),)
    )


def test_parts_consume_what_they_take_and_the_slices_where_they_lie() -> None:
    (pool,) = expanded_pools(parts(whole=True), "n1")
    two = next(device for device in pool.devices if device.name == "d-1-two-0")
    (consumed,) = two.consumes_counters
    assert consumed.counter_set == "set-1"
    assert {name: str(counter.value) for name, counter in consumed.counters.items()} == {
        "memory": "20Gi",
        "slice-0": "1",
        "slice-1": "1",
    }
    assert str(two.capacity["memory"].value) == "20Gi"


def test_the_whole_has_as_much_as_the_largest_part_and_all_slices() -> None:
    (pool,) = expanded_pools(parts(whole=True), "n1")
    whole = next(device for device in pool.devices if device.name == "d-0")
    assert str(whole.capacity["memory"].value) == "20Gi"
    assert whole.consumes_counters[0].counters == pool.counter_sets[0].counters
    assert set(pool.counter_sets[0].counters) == {"memory", "slice-0", "slice-1", "slice-2"}


def test_devices_are_sorted_by_name_within_what_they_are_parts_of() -> None:
    (pool,) = expanded_pools(parts(whole=True), "n1")
    names = [device.name for device in pool.devices]
    assert names == sorted(names)
    (without,) = expanded_pools(parts(whole=False), "n1")
    assert [device.name for device in without.devices] == [name for name in names if name not in ("d-0", "d-1")]
