"""What a whole answer says of its parts."""

from __future__ import annotations

import json

from cathedra.insight.explanation.model import Explanation, Remedy


def answer(verdict: str, *parts: Explanation) -> Explanation:
    return Explanation(subject="pod default/p", verdict=verdict, summary="s", parts=parts)  # type: ignore[arg-type]  # any word


def test_it_fits_if_all_parts_do() -> None:
    assert answer("fits", answer("running"), answer("finished")).fits
    assert not answer("fits", answer("fits", answer("does not fit"))).fits


def test_the_parts_come_one_by_one() -> None:
    assert [one.verdict for one in answer("fits", answer("running", answer("finished"))).flat()] == [
        "fits",
        "running",
        "finished",
    ]


def test_plain_values_are_json_without_the_objects_of_changes() -> None:
    change = Remedy("add node", "add a node", ("n2",))
    found = Explanation(subject="pod default/p", verdict="does not fit", summary="s", changes=(change,)).to_dict()
    assert json.loads(json.dumps(found))["fitsOn"] == []
    assert (found["apiVersion"], found["kind"], found["fits"]) == ("cathedra.dev/v1", "Explanation", False)
    assert found["changes"] == [{"kind": "add node", "text": "add a node", "fitsOn": ["n2"], "edits": ()}]
