"""The sources keep to what they promise their readers (`make metrics` lists the places)."""

from __future__ import annotations

import pytest
from tools.metrics import SOURCES, Figures, measure


@pytest.fixture(scope="module")
def figures() -> Figures:
    return measure(SOURCES)


def test_imports_inside_functions_say_why(figures: Figures) -> None:
    assert figures.unexplained == []


def test_words_name_mechanisms(figures: Figures) -> None:
    former_socket = "node/shim/client.py"  # the socket of an earlier release is called keeper.sock
    assert [place for place in figures.words if not place.startswith(former_socket)] == []


def test_docstrings_and_comments_use_the_verbs_of_the_field(figures: Figures) -> None:
    assert figures.prose == []
    assert figures.questions == []


def test_functions_with_more_than_six_parameters_take_an_object(figures: Figures) -> None:
    assert figures.parameters == []


def test_a_class_has_a_name_that_no_other_class_has(figures: Figures) -> None:
    drivers_and_the_api = {"Device"}  # Kubernetes' name in both
    still_shared = {"_Created", "_Evaluation", "_Outcome", "_Request", "_Unit"}
    assert figures.shared_names.keys() - drivers_and_the_api - still_shared == set()


def test_modules_stay_within_a_few_hundred_lines(figures: Figures) -> None:
    assert {name: size for name, size in figures.modules.items() if size > 600} == {}
