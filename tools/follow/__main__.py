"""Command line: ``python -m tools.follow v1.38.0-rc.0 --repository ~/kubernetes``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cathedra.releases import RELEASES
from tools.follow import fields, gates, metrics, openapi, plugins, roles, texts, versions
from tools.follow.report import Difference, Report, read_declared, written
from tools.follow.source import NoSource, Source, open_source, release_of

Subject = Callable[[Source, str], Iterator[Difference]]
SUBJECTS: Mapping[str, tuple[Subject, tuple[str, ...]]] = {
    "gates": (gates.differences, (*gates.LISTS, *gates.FILES)),
    "versions": (versions.differences, (f"{versions.FOLDER}/resource/v1/types.go",)),
    "fields": (fields.differences, (f"{versions.FOLDER}/resource/v1/types.go",)),
    "openapi": (openapi.differences, tuple(map(openapi.file_of, openapi.VERSIONS))),
    "texts": (texts.differences, texts.FILES),
    "roles": (roles.differences, tuple(roles.FILES)),
    "plugins": (plugins.differences, (plugins.ADMISSION_FILE, plugins.SCHEDULER_FILE)),
    "metrics": (metrics.differences, (metrics.FILE,)),
}
"""Name → function, and the files of which the source must have one."""


def compare(source: Source, release: str, subjects: list[str]) -> Report:
    """Return the differences of some subjects."""
    report, declared = Report(release), read_declared()
    for name in subjects:
        differences, files = SUBJECTS[name]
        if any(source.read(file) is not None for file in files):
            report.add(differences(source, release), declared)
        else:
            report.missing.append(f"{name}, which needs {files[0]}")
    return report


def main(arguments: list[str] | None = None) -> int:
    """Print the differences to a release. Exit status 1: some are not declared; 2: the release cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m tools.follow", description=__doc__)
    parser.add_argument("kubernetes", help="a tag (v1.38.0-rc.0) or the folder of a checkout")
    parser.add_argument(
        "--repository", action="append", type=Path, default=[], help="a git repository with the tag; may be repeated"
    )
    parser.add_argument("--release", choices=RELEASES, help="the release to compare with, if the name does not tell")
    parser.add_argument("--subject", action="append", choices=list(SUBJECTS), help="only this one; may be repeated")
    parser.add_argument("--declared", action="store_true", help="list the declared deviations with their reasons")
    given = parser.parse_args(arguments)
    try:
        source = open_source(given.kubernetes, given.repository)
        release = given.release or release_of(given.kubernetes, source)
    except NoSource as error:
        print(error, file=sys.stderr)
        return 2
    if release not in RELEASES:
        print(f"Cathedra does not know {release} yet: add it to RELEASES in releases/table.py first", file=sys.stderr)
        return 2
    report = compare(source, release, given.subject or list(SUBJECTS))
    print(written(report, names_declared=given.declared))
    return 1 if report.open else 0


if __name__ == "__main__":
    sys.exit(main())
