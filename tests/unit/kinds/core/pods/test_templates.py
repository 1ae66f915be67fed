"""Pod templates: labels, rows, selectors in words."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import PodTemplate
from cathedra.api.core.meta_v1 import LabelSelector
from cathedra.api.struct import from_dict
from cathedra.kinds.core.pods.templates import selector_text
from tests.unit.kinds.objects import row

TEMPLATE = {"metadata": {"labels": {"b": "2", "a": "1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_a_template_shows_containers_and_labels() -> None:
    found = row("podtemplates", from_dict(PodTemplate, {"template": TEMPLATE}))
    assert (found["Containers"], found["Images"], found["Pod Labels"]) == ("c", "i", "a=1,b=2")


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, "<none>"),
        ({}, "<none>"),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "k", "operator": "In", "values": ["y", "x"]}]}, "k in (x,y)"),
        ({"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["x"]}]}, "k notin (x)"),
        ({"matchExpressions": [{"key": "k", "operator": "Exists"}, {"key": "l", "operator": "DoesNotExist"}]}, "k,!l"),
    ],
)
def test_a_selector_is_shown_as_kubectl_takes_it(selector: dict[str, Any] | None, text: str) -> None:
    assert selector_text(None if selector is None else from_dict(LabelSelector, selector)) == text
