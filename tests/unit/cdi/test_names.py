from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.cdi.errors import InvalidName
from cathedra.cdi.names import QualifiedName

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
    with pytest.raises(InvalidName):
        QualifiedName.parse(text)
