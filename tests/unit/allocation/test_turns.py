"""Searches in turns: what an interrupted search leaves behind, and what a thread finds for it."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

import pytest

from cathedra.allocation import Aborted, Allocation, Allocator, Budget, FatalError, LongSearch, Refusal, SearchAllowance
from cathedra.api.resource import ResourceClaim
from cathedra.deadline import Interruption, TimeSliceOver
from tests.unit.allocation.building import World, claim, device, exactly, held, node, resource_slice

CUBE = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]"
SLOW = f"{CUBE}.all(a, {CUBE}.all(b, {CUBE}.all(c, a + b + c > 0 || device.driver == 'x')))"
"""An accepted selector that takes some 10 ms on every device."""


class Looks:
    """A turn that ends at a certain reading of the clock."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self) -> bool:
        self.left -= 1
        if self.left < 0:
            raise TimeSliceOver
        return False


def in_turns(allocator: Allocator, claims: Sequence[ResourceClaim], looks: int) -> tuple[Allocation | Refusal, int]:
    """The answer of a node, and how many long searches it took with turns of that many looks."""
    allowance = SearchAllowance(Budget())
    for searches in range(1000):
        allowance.interrupted = Looks(looks)
        try:
            return allocator.prepare(claims, lambda: allowance).on(node("alder")), searches
        except LongSearch as long:
            long.search(Interruption(60.0))
    raise AssertionError("the search never comes to an end")


def devices_of(answer: Allocation | Refusal) -> list[tuple[str, str]] | None:
    if isinstance(answer, Refusal):
        return None
    return [(one.request, one.device) for result in answer.results for one in result.devices.results]


def packing(requests: int) -> World:
    made = [device(f"d{n}", shareable=True, capacity={"mem": 100 + n}) for n in range(8)]
    return World([resource_slice(*made)])


def packed(requests: int) -> ResourceClaim:
    return claim(*[exactly(f"r{n}", capacity={"mem": 42 + 2 * (n % 5)}) for n in range(requests)])


@pytest.mark.parametrize("looks", [0, 1, 2, 5, 20])
def test_an_interrupted_search_comes_to_the_same_answer(looks: int) -> None:
    """Also where earlier searches have left caches behind, which an interruption must not spoil."""
    chance = random.Random(looks)
    for _ in range(8):
        pools = [
            resource_slice(
                *(device(f"d{n}", attributes={"numa": chance.randrange(3)}) for n in range(3)), pool=f"p{number}"
            )
            for number in range(18)
        ]
        taken = [held(f"d{chance.randrange(3)}", name=f"h{number}", pool=f"p{number}") for number in range(0, 18, 4)]
        asked = claim(*(exactly(f"r{n}", 1, f'device.attributes["drv"].numa != {n}') for n in range(3)), name="asked")
        plain = World(pools, taken)
        turns = World(pools, taken)
        allocator = turns.allocator()
        for _ in range(3):
            expected = devices_of(plain.allocate(asked))
            answer, _ = in_turns(turns.allocator(), [asked], looks)
            assert devices_of(answer) == expected
        assert allocator.inventory is turns.inventory.snapshot()


def test_a_long_search_is_made_once_and_then_known() -> None:
    world = packing(9)
    answer, searches = in_turns(world.allocator(), [packed(9)], 0)
    assert searches == 1
    assert devices_of(answer) == devices_of(packing(9).allocate(packed(9)))


def test_the_answer_of_a_search_that_was_stopped_holds_until_the_attempt_ends() -> None:
    world = packing(17)
    allowance = SearchAllowance(Budget(seconds=2.0))
    allowance.interrupted = Looks(0)
    with pytest.raises(LongSearch) as raised:
        world.allocator().prepare([packed(17)], allowance).on(node("alder"))
    assert raised.value.seconds == 2.0
    ticks = iter(range(10**6))
    raised.value.search(Interruption(2000.0, monotonic=lambda: float(next(ticks))))
    looks = [0]

    def late() -> bool:
        looks[0] += 1
        return True

    allowance.interrupted = late
    allowance.exhausted = True
    answer = world.allocator().prepare([packed(17)], allowance).on(node("alder"))
    assert isinstance(answer, Refusal)
    assert answer.stopped
    assert looks == [0]
    assert "in 2 s: 17 requests" in str(answer)


def test_selectors_are_interrupted_too() -> None:
    made = [device(f"d{n}", attributes={"n": n}) for n in range(30)]
    looked = [0]

    def up() -> bool:
        looked[0] += 1
        return looked[0] > 500

    world = World([resource_slice(*made)])
    asked = claim(exactly("r", 30, f'{SLOW} && device.attributes["drv"].n >= 0'))
    answer = world.allocator().prepare([asked], SearchAllowance(Budget(), up)).on(node("alder"))
    assert isinstance(answer, Refusal)
    assert answer.stopped
    assert "before all selectors were evaluated" in str(answer)


def test_what_selectors_have_said_is_known_to_the_next_attempt() -> None:
    """So a claim whose selectors take minutes in all is decided after some attempts."""
    made = [device(f"d{n}", attributes={"n": n}) for n in range(6)]
    world = World([resource_slice(*made)])
    asked = claim(exactly("r", 6, f'{SLOW} && device.attributes["drv"].n >= 0'))
    for _ in range(30):
        looked = [0]

        def up(looked: list[int] = looked) -> bool:
            looked[0] += 1
            return looked[0] > 30_000

        answer = world.allocator().prepare([asked], SearchAllowance(Budget(), up)).on(node("alder"))
        if isinstance(answer, Allocation):
            return
    raise AssertionError("no progress is made")


def test_an_error_found_in_the_thread_is_raised_in_the_next_turn() -> None:
    world = World([resource_slice(device("d0"))])
    asked = claim(exactly("r", 1, f'{SLOW} && device.attributes["drv"].missing == 1'))
    with pytest.raises(FatalError, match="no such key: missing"):
        in_turns(world.allocator(), [asked], 1)


def test_selectors_are_compiled_in_the_thread_if_there_are_many() -> None:
    world = World([resource_slice(device("d0"))])
    asked = claim(*(exactly(f"r{n}", 1, f"{n} < 10") for n in range(10)), name="many")
    answer, searches = in_turns(world.allocator(), [asked], 2)
    assert isinstance(answer, Refusal)
    assert 1 <= searches <= 4


def test_an_explanation_ends_with_its_time() -> None:
    made = [device(f"d{n}", attributes={"n": n}) for n in range(30)]
    ticks = iter(range(10**9))
    world = World([resource_slice(*made)], budget=Budget(seconds=1000.0, monotonic=lambda: float(next(ticks))))
    asked = claim(exactly("r", 30, f'{SLOW} && device.attributes["drv"].n >= 0'))
    answer = world.allocate(asked)
    assert isinstance(answer, Refusal)
    with pytest.raises(Aborted, match="time is up"):
        _ = answer.reasons


def test_a_search_in_a_thread_and_searches_on_the_loop_do_not_disturb_each_other() -> None:
    """They share signatures, verdicts and tables."""
    made = [
        resource_slice(*(device(f"d{n}", attributes={"n": n % 7}) for n in range(8)), pool=f"p{number}")
        for number in range(20)
    ]
    asked = [
        claim(*(exactly(f"r{k}", 2, f'device.attributes["drv"].n >= {(k + n) % 5}') for k in range(3)), name=f"c{n}")
        for n in range(12)
    ]
    expected = [World(made).devices(one) for one in asked]
    world = World(made)
    allocator = world.allocator()
    found: dict[int, list[tuple[str, str]] | None] = {}
    failures: list[BaseException] = []

    def other() -> None:
        try:
            for number, one in enumerate(asked):
                answer, _ = in_turns(allocator, [one], 0)
                found[number] = devices_of(answer)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=other)
    thread.start()
    while thread.is_alive():
        for one, devices in zip(asked, expected, strict=True):
            assert world.devices(one) == devices
    thread.join()
    assert not failures
    assert len(found) == len(asked)
