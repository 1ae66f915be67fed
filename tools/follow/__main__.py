"""Command line: ``python -m tools.follow v1.38.0-rc.0 --repository ~/kubernetes``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from cathedra.releases import RELEASES
from tools.follow import fields, gates, metrics, openapi, plugins, roles, texts, versions
from tools.follow.report import Difference, Report, read_declared, written
from tools.follow.source import NoSource, Source, open_source, release_of

Subject = Callable[[Source, str], Iterator[Difference]]
Alternatives = tuple[str, ...]
"""Files of which one is enough."""
SUBJECTS: Mapping[str, tuple[Subject, Callable[[str], Iterable[Alternatives]]]] = {
    "gates": (gates.differences, lambda _: [(file, *gates.LISTS) for file in gates.FILES]),
    "versions": (versions.differences, lambda _: [(f"{versions.FOLDER}/resource/v1/{versions.FILE}",)]),
    "fields": (fields.differences, lambda release: [(file,) for file in fields.files(release)]),
    "openapi": (openapi.differences, lambda _: [(openapi.SWAGGER, openapi.file_of("resource.k8s.io", "v1"))]),
    "texts": (texts.differences, lambda _: [(file,) for file in texts.FILES]),
    "roles": (roles.differences, lambda _: [(file,) for file in roles.FILES]),
    "plugins": (plugins.differences, lambda _: [(plugins.ADMISSION_FILE,), (plugins.SCHEDULER_FILE,)]),
    "metrics": (metrics.differences, lambda _: [(metrics.FILE,)]),
}
"""Name → function, and the files of a release that it reads."""


def compare(source: Source, release: str, subjects: list[str]) -> Report:
    """Return the differences of some subjects. What the source lacks is named, for it is not compared."""
    report, declared = Report(release), read_declared()
    for name in subjects:
        differences, files = SUBJECTS[name]
        needed = list(files(release))
        missing = [one[0] for one in needed if all(source.read(file) is None for file in one)]
        if len(missing) < len(needed):
            report.add(differences(source, release), declared)
        if missing:
            report.missing.append(f"{name} of {', '.join(missing)}")
    return report


def main(arguments: list[str] | None = None) -> int:
    """Print the differences to a release. Exit status 1: some are not declared; 2: the release cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m tools.follow", description=__doc__)
    parser.add_argument("kubernetes", help="a tag (v1.38.0-rc.0), or the folder of a checkout or of a git directory")
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
