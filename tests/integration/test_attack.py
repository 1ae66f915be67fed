"""The attacks of ``make attack``: some cheap ones, so that the program works when it is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tools.attack.__main__ import FAMILIES

ROOT = Path(__file__).parents[2]


def test_attacks_are_measured_and_reach_nothing() -> None:
    """Stalls are no matter of this test: the machine may be busy with others."""
    command = [sys.executable, "-m", "tools.attack", "--only=used-claims", "--only=slice-update", "--output=json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stderr
    rows = json.loads(done.stdout)
    assert sorted(row["name"] for row in rows) == ["slice-update", "used-claims"]
    for row in rows:
        assert row["problem"] == ""
        assert row["stallSeconds"] > 0.0
        assert row["beforeMiB"] > 0
        assert row["mostMiB"] >= row["afterMiB"] > 0


def test_each_attack_has_a_name_of_its_own_and_says_what_it_sends() -> None:
    attacks = [one for family in FAMILIES.values() for one in family.attacks]
    assert len({one.name for one in attacks} | FAMILIES.keys()) == len(attacks) + len(FAMILIES)
    for one in attacks:
        assert one.input
        assert one.size
        assert one.who
