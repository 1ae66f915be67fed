from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.cdi.annotations import annotation, devices_of
from cathedra.cdi.errors import InvalidName
from cathedra.cdi.names import QualifiedName, is_qualified

LETTER = st.sampled_from("abzABZ")
INNER = st.text("ab01_-.", max_size=5)
KIND_PART = st.builds(lambda a, b, c: a + b + c, LETTER, INNER, st.sampled_from("az09"))


@given(KIND_PART, KIND_PART, st.sampled_from(["0", "gpu-0", "a:b", "6f2d_gpu.x"]))
def test_a_qualified_name_reads_back_as_written(vendor: str, class_: str, name: str) -> None:
    qualified = QualifiedName(vendor, class_, name)
    assert QualifiedName.parse(str(qualified)) == qualified


@pytest.mark.parametrize(
    "text",
    [
        "/dev/null",
        "gpu-0",
        "vendor/class",
        "vendor=dev",
        "/class=dev",
        "1vendor/class=d",
        "v/c=",
        "v-/c=d",
        "v/c=-d",
        "v/c/x=d",
        "vendör/c=d",
        "v/c=d\n",
    ],
)
def test_everything_else_is_unqualified(text: str) -> None:
    assert not is_qualified(text)


def test_annotations_carry_devices_to_a_runtime_and_back() -> None:
    key, value = annotation("dra", "6f2d/gpu", ["v/c=a", "v/c=b"])
    assert key == "cdi.k8s.io/dra_6f2d_gpu"
    assert devices_of({"other": "x", key: value, "cdi.k8s.io/z": "v/c=a"}) == ("v/c=a", "v/c=b")


def test_an_annotation_key_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidName, match="invalid annotation key"):
        annotation("p" * 60, "device", ["v/c=a"])
