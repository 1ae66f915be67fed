"""Fixtures of pages that need more than the common commands."""

from __future__ import annotations

import pytest

from tests.requirements import program, root

NEEDS = {"examples/cri/README.md": ("containerd", "ctr", "runc", "busybox")}
"""Programs that a page requires, besides root."""


@pytest.fixture(autouse=True)
def what_the_page_needs(request: pytest.FixtureRequest) -> None:
    """Skip a page whose programs are missing."""
    callspec = getattr(request.node, "callspec", None)
    page = callspec.params.get("page") if callspec is not None else None
    if page in NEEDS:
        root()
        for name in NEEDS[page]:
            program(name)
