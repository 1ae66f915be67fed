"""The stack of a search."""

from __future__ import annotations

from cathedra.allocation.search.frames import Frame, SearchResult, depth_first


class Choosing:
    """Tries numbers in ascending order until ``wanted`` of them stand on the trail, of which ``bad`` ones fail."""

    def __init__(self, trail: list[int], wanted: int, bad: set[int]) -> None:
        self.trail, self.wanted, self.bad = trail, wanted, bad
        self.begin = len(trail)
        self.number = trail[-1] if trail else 0

    def advance(self, result: SearchResult | None) -> Frame | SearchResult:
        if self.begin == self.wanted:
            return SearchResult.FOUND
        if result is SearchResult.EXCEEDED:
            return result
        del self.trail[self.begin :]
        while self.number < self.wanted + len(self.bad):
            self.number += 1
            if self.number not in self.bad:
                self.trail.append(self.number)
                return Choosing(self.trail, self.wanted, self.bad)
        return SearchResult.NOTHING


class Exceeding:
    def advance(self, result: SearchResult | None) -> Frame | SearchResult:
        return SearchResult.EXCEEDED


def test_the_first_solution_ends_the_search_and_stays_on_the_trail() -> None:
    trail: list[int] = []
    assert depth_first(Choosing(trail, 3, {2})) is SearchResult.FOUND
    assert trail == [1, 3, 4]


def test_a_search_may_be_deeper_than_functions_nest() -> None:
    trail: list[int] = []
    assert depth_first(Choosing(trail, 20_000, set())) is SearchResult.FOUND
    assert len(trail) == 20_000


def test_the_result_of_the_first_frame_is_that_of_the_search() -> None:
    assert depth_first(Exceeding()) is SearchResult.EXCEEDED
