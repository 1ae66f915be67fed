"""Answers for many nodes at once equal those for single nodes, after any history."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation import Allocation, Allocator, Features, Inventory, Ledger, NodeError, Refusal
from cathedra.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.api.struct import encode
from tests.unit.allocation.building import World, claim, device, exactly, held, node, resource_slice, rule

NODES = [node(f"n{number}", zone="a" if number % 2 else "b") for number in range(4)]
IN_ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}


def local(number: int, generation: int, *, unique: bool, size: int = 3) -> ResourceSlice:
    """The slice of a node."""
    devices = [
        device(f"d{at}", attributes={"numa": at % 2, **({"serial": f"{number}-{generation}-{at}"} if unique else {})})
        for at in range(size)
    ]
    return resource_slice(*devices, name=f"s{number}", node=f"n{number}", pool=f"n{number}", generation=generation)


EVENTS = st.one_of(
    st.tuples(st.just("slice"), st.integers(0, 3), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("drop"), st.integers(0, 3)),
    st.tuples(st.just("network"), st.booleans(), st.booleans()),
    st.tuples(st.just("rule"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("hold"), st.integers(0, 5), st.integers(0, 3), st.integers(0, 2)),
    st.tuples(st.just("assume"), st.integers(0, 5), st.integers(0, 3), st.integers(0, 2)),
    st.tuples(st.just("free"), st.integers(0, 5)),
    st.tuples(st.just("forget"), st.integers(0, 5)),
    st.tuples(
        st.just("look"),
    ),
)

ASKED = [
    [claim(exactly("r", 1, 'device.attributes["drv"].?numa.orValue(0) == 1'))],
    [claim(exactly("r", 2), constraints=[{"matchAttribute": "drv/numa"}])],
    [claim(exactly("r", 0, allocationMode="All"))],
    [claim(exactly("r", 1, 'device.attributes["drv"].exists(k, k == "serial")'))],
]


class Events:
    """Applies events to a long-lived inventory and ledger, and remembers what should be there."""

    def __init__(self) -> None:
        self.inventory, self.ledger = Inventory(), Ledger()
        self.slices: dict[str, ResourceSlice] = {}
        self.rules: dict[str, DeviceTaintRule] = {}
        self.claims: dict[str, ResourceClaim] = {}

    def apply(self, event: tuple[object, ...]) -> None:
        """One event."""
        match event:
            case ("slice", int(number), int(generation), bool(unique)):
                self._slice(local(number, generation, unique=unique))
            case ("drop", int(number)):
                self.slices.pop(f"s{number}", None)
                self.inventory.remove_slice(f"s{number}")
            case ("network", bool(present), bool(zoned)):
                self._network(present, zoned)
            case ("rule", int(number), bool(present)):
                made = rule(f"r{number}", pool=f"n{number}", device="d0")
                if present:
                    self.rules[f"r{number}"] = made
                    self.inventory.add_taint_rule(made)
                else:
                    self.rules.pop(f"r{number}", None)
                    self.inventory.remove_taint_rule(made)
            case ("hold" | "assume" as how, int(holder), int(number), int(at)):
                self._hold(how, held(f"d{at}", name=f"h{holder}", pool=f"n{number}"))
            case ("free", int(holder)):
                self.ledger.remove(held(name=f"h{holder}"))
                self.claims.pop(f"h{holder}", None)
            case ("forget", int(holder)):
                one = held(name=f"h{holder}")
                if self.ledger.is_assumed(one):
                    self.claims.pop(f"h{holder}", None)
                self.ledger.forget(one)

    def _slice(self, made: ResourceSlice) -> None:
        # A removed slice that comes back is the newest of the list.
        self.slices[made.metadata.name] = made
        self.inventory.add_slice(made)

    def _network(self, present: bool, zoned: bool) -> None:
        if not present:
            self.slices.pop("net", None)
            self.inventory.remove_slice("net")
            return
        where = {"nodeSelector": IN_ZONE} if zoned else {"allNodes": True}
        self._slice(resource_slice("net0", "net1", name="net", pool="net", node=None, **where))

    def _hold(self, how: str, made: ResourceClaim) -> None:
        self.claims[made.metadata.name] = made
        if how == "hold":
            self.ledger.add(made)
        else:
            assert made.status.allocation is not None
            self.ledger.assume(made, made.status.allocation)

    def fresh(self) -> Allocator:
        """An allocator that was built from scratch."""
        world = World(self.slices.values(), self.claims.values(), self.rules.values())
        return world.allocator()

    def fitting_now(self) -> Allocator:
        """An allocator of the state that was kept."""
        return Allocator(Features(), World().classes, self.inventory.snapshot(), self.ledger.snapshot())


def said(outcome: Allocation | Refusal | NodeError) -> object:
    """An outcome as a comparable value."""
    if isinstance(outcome, NodeError):
        return str(outcome)
    return None if isinstance(outcome, Refusal) else encode(outcome.results)


def alone(allocator: Allocator, asked: list[ResourceClaim]) -> list[object]:
    """Return the answer of each node by itself."""
    found: list[object] = []
    for one in NODES:
        try:
            found.append(said(allocator.allocate(one, asked)))
        except NodeError as error:
            found.append(str(error))
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, max_size=25))
def test_any_order_of_events_gives_what_a_rebuild_gives(events: list[tuple[object, ...]]) -> None:
    """Incremental state, shared answers and memos must not show."""
    world = Events()
    for event in [*events, ("look",)]:
        world.apply(event)
        if event[0] != "look":
            continue
        fresh, fitting_now = world.fresh(), world.fitting_now()
        for asked in ASKED:
            expected = alone(fresh, asked)
            assert [said(one) for one in fitting_now.prepare(asked).on_each(NODES)] == expected
            answers = fitting_now.prepare(asked).on_each(NODES)
            assert answers.fitting() == [at for at, one in enumerate(expected) if isinstance(one, bytes)]


PLACES = st.lists(st.integers(0, 3), max_size=3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(EVENTS, PLACES), max_size=25), PLACES)
def test_nodes_that_are_asked_now_and_then_give_what_a_rebuild_gives(
    steps: list[tuple[tuple[object, ...], list[int]]], late: list[int]
) -> None:
    """Nodes are evaluated when they are first read, and answers stay those of their moment."""
    world = Events()
    nodes = tuple(NODES)
    moments = []
    for event, places in steps:
        world.apply(event)
        for asked in ASKED:
            expected = alone(world.fresh(), asked)
            answers = world.fitting_now().prepare(asked).among(nodes)
            assert not answers.everywhere or None not in expected
            assert answers.fitting(places) == [at for at in places if isinstance(expected[at], bytes)]
            assert [answers.all_refuse([at]) for at in places] == [expected[at] is None for at in places]
            moments.append((answers, expected))
    for answers, expected in moments:
        for place in late:
            assert answers.fits(place) is isinstance(expected[place], bytes)
            assert said(answers[place]) == expected[place]
        kinds = [answers.kind(place) for place in range(4)]
        assert len(set(kinds)) == answers.kinds


BETWEEN = "n1x"
"""A pool that some nodes see before and others after their own."""
HELD = st.one_of(
    st.tuples(
        st.just("hold"), st.integers(0, 5), st.sampled_from(["n0", "n1", BETWEEN, "n2", "n3"]), st.integers(0, 2)
    ),
    st.tuples(st.just("free"), st.integers(0, 5)),
    st.tuples(st.just("take away"), st.integers(0, 3)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(HELD, max_size=20))
def test_nodes_that_see_alike_pools_in_another_order_are_followed_each_in_its_own(
    events: list[tuple[object, ...]],
) -> None:
    world = Events()
    for number in range(4):
        world._slice(local(number, 1, unique=False))
    alike = [device(f"d{at}", attributes={"numa": at % 2}) for at in range(3)]
    world._slice(resource_slice(*alike, name="net", pool=BETWEEN, node=None, allNodes=True))
    for event in events:
        match event:
            case ("hold", int(holder), str(pool), int(at)):
                world._hold("hold", held(f"d{at}", name=f"h{holder}", pool=pool))
            case ("take away", int(number)):
                world.apply(("drop", number))
            case _:
                world.apply(event)
        fresh, fitting_now = world.fresh(), world.fitting_now()
        for asked in ASKED[:3]:
            assert [said(one) for one in fitting_now.prepare(asked).on_each(NODES)] == alone(fresh, asked)


def test_a_full_node_does_not_speak_for_the_free_ones_it_once_resembled() -> None:
    world = World([local(number, 1, unique=False) for number in range(4)])
    asked = [claim(exactly())]
    assert world.allocator().prepare(asked).on_each(NODES).fitting() == [0, 1, 2, 3]
    world.ledger.add(held("d0", "d1", "d2", pool="n0"))
    assert world.allocator().prepare(asked).on_each(NODES).fitting() == [1, 2, 3]


def test_nodes_that_look_alike_are_searched_once() -> None:
    world = World([local(number, 1, unique=True, size=20) for number in range(4)], [held("d0", pool="n3")])
    answers = world.allocator().prepare([claim(exactly("r", 1, 'device.attributes["drv"].numa == 0'))]).on_each(NODES)
    assert answers.kinds == 2
    assert answers.kind(0) == answers.kind(1) == answers.kind(2) != answers.kind(3)
    outcomes = [one.results[0].devices.results[0] for one in answers if isinstance(one, Allocation)]
    assert [(one.pool, one.device) for one in outcomes] == [("n0", "d0"), ("n1", "d0"), ("n2", "d0"), ("n3", "d2")]


def test_answers_stay_what_they_were_when_the_cluster_changes() -> None:
    world = World([local(number, 1, unique=False) for number in range(4)])
    asked = [claim(exactly())]
    before = world.allocator().prepare(asked).on_each(NODES)
    world.ledger.add(held("d0", "d1", "d2", pool="n0"))
    assert world.allocator().prepare(asked).on_each(NODES).fitting() == [1, 2, 3]
    assert before.fitting() == [0, 1, 2, 3]
    assert before.kind(0) == before.kind(3)


def test_that_claims_fit_everywhere_is_known_once_all_nodes_were_asked_until_one_changes() -> None:
    world = World([local(number, 1, unique=False) for number in range(4)])
    asked = [claim(exactly())]
    nodes = tuple(NODES)
    assert not world.allocator().prepare(asked).among(nodes).everywhere
    answers = world.allocator().prepare(asked).among(nodes)
    assert answers.fitting() == [0, 1, 2, 3]
    assert answers.everywhere
    world.ledger.add(held("d0", "d1", "d2", pool="n2"))
    later = world.allocator().prepare(asked).among(nodes)
    assert later.fitting() == [0, 1, 3]
    assert not later.everywhere
    assert not answers.everywhere, "others are fitting_now now"
    assert answers.fitting() == [0, 1, 2, 3]


def test_share_ids_come_from_the_given_random() -> None:
    made = device("d", shareable=True, capacity={"mem": 4})
    world = World([resource_slice(made)])
    first, second = (
        Allocator(
            world.features, world.classes, world.inventory.snapshot(), world.ledger.snapshot(), random=random.Random(7)
        ).allocate(node(), [claim(exactly())])
        for _ in range(2)
    )
    assert isinstance(first, Allocation)
    assert isinstance(second, Allocation)
    share = first.results[0].devices.results[0].share_id
    assert share == second.results[0].devices.results[0].share_id
    assert share is not None
    assert len(share) == 36


def test_a_pool_that_spans_many_nodes_is_followed_device_by_device() -> None:
    """Only nodes that reach a device are evaluated again when it is allocated or released."""
    many = [node(f"n{number}") for number in range(12)]

    def part(number: int, size: int) -> ResourceSlice:
        names = (f"d{number}-{at}" for at in range(size))
        return resource_slice(*names, name=f"s{number}", node=f"n{number}", pool="all", count=12)

    chance = random.Random(3)
    slices = {number: part(number, 2) for number in range(12)}
    claims: dict[str, ResourceClaim] = {}
    world = World(slices.values())
    for step in range(80):
        number, at = chance.randrange(12), chance.randrange(2)
        name = f"h{number}-{at}"
        match chance.randrange(4):
            case 0 if step > 20:
                slices[number] = part(number, chance.randrange(1, 4))
                world.inventory.add_slice(slices[number])
            case 1:
                claims.pop(name, None)
                world.ledger.remove(held(name=name))
            case _:
                claims[name] = held(f"d{number}-{at}", name=name, pool="all")
                world.ledger.add(claims[name])
        asked = [claim(exactly("r", 1 + step % 2))]
        fresh = World(slices.values(), claims.values()).allocator().prepare(asked).on_each(many).fitting()
        assert world.allocator().prepare(asked).on_each(many).fitting() == fresh


def test_a_changed_or_moved_list_of_nodes_is_answered_in_its_own_order() -> None:
    world = World([local(number, 1, unique=False) for number in range(4)], [held("d0", "d1", "d2", pool="n1")])
    asked = [claim(exactly())]
    for nodes, fitting in (
        (NODES, [0, 2, 3]),
        (NODES[::-1], [0, 1, 3]),
        (NODES[1:], [1, 2]),
        ([NODES[0], node("n1", zone="c"), *NODES[2:]], [0, 2, 3]),
        ([NODES[1], NODES[0]], [1]),
        ([], []),
    ):
        assert world.allocator().prepare(asked).on_each(nodes).fitting() == fitting


def test_pods_that_ask_for_the_same_share_answers_but_not_names() -> None:
    world = World([local(0, 1, unique=False)])
    allocator = world.allocator()
    first = allocator.allocate(NODES[0], [claim(exactly("a"), name="one")])
    second = allocator.allocate(NODES[0], [claim(exactly("b"), name="two")])
    assert isinstance(first, Allocation)
    assert isinstance(second, Allocation)
    assert [one.request for one in first.results[0].devices.results] == ["a"]
    assert [one.request for one in second.results[0].devices.results] == ["b"]
