"""Figures of the sources that say how easy they are to read, to be compared between two states of the tree.

Sizes of modules and functions, the share of public names with a docstring, lines with ``Any``, imports inside functions
(with and without a comment that gives the reason), words that name a person or a picture instead of a mechanism, and
names that two classes share. Generated modules are left out.

    python tools/metrics.py [--list WHAT] [DIRECTORY]
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parents[1] / "src" / "cathedra"
FORBIDDEN: Final = re.compile(
    r"\b(?:nobody|somebody|whoever|anybody|everybody|tastes?|hammers?|books|weather|keepers?|strangers?|doors?|complaints?"
    r"|outlook|standings|outfit|gatekeepers?|lastwords|foreseen|sit_down|stand_up|askers?)\b",
    re.IGNORECASE,
)
LISTS: Final = ("modules", "functions", "undocumented", "any", "lazy", "words", "names")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Figures:
    """What was counted. Each list holds places: ``path:line what``."""

    modules: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)
    public: int = 0
    undocumented: list[str] = field(default_factory=list)
    any_lines: list[str] = field(default_factory=list)
    lazy: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def shared_names(self) -> dict[str, list[str]]:
        """Public class names that more than one module defines."""
        return {name: places for name, places in sorted(self.classes.items()) if len(places) > 1}


def main() -> int:
    """Print the figures, and the places behind one of them if asked."""
    parser = argparse.ArgumentParser(description="Figures of the sources.")
    parser.add_argument("directory", nargs="?", type=Path, default=SOURCES)
    parser.add_argument("--list", choices=LISTS, help="the places behind a figure")
    arguments = parser.parse_args()
    figures = measure(arguments.directory)
    for line in summary(figures) if arguments.list is None else places(figures, arguments.list):
        print(line)
    return 0


def measure(root: Path) -> Figures:
    """Count everything below ``root``."""
    figures = Figures()
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not _is_generated(path, text):
            _measure_module(figures, str(path.relative_to(root)), text)
    return figures


def summary(figures: Figures) -> Iterator[str]:
    """The table."""
    modules, functions = list(figures.modules.values()), list(figures.functions.values())
    documented = figures.public - len(figures.undocumented)
    yield f"modules                       {len(modules):>7}   {_sizes(modules)}"
    yield f"functions                     {len(functions):>7}   {_sizes(functions)}"
    yield f"  longer than 40 lines        {sum(size > 40 for size in functions):>7}"
    yield f"public names documented       {documented / max(figures.public, 1):>7.1%}   of {figures.public}"
    yield f"lines with Any                {len(figures.any_lines):>7}"
    yield f"imports inside functions      {len(figures.lazy):>7}   {len(figures.unexplained)} without a comment"
    yield f"words that name no mechanism  {len(figures.words):>7}"
    yield f"class names used twice        {len(figures.shared_names):>7}"


def places(figures: Figures, what: str) -> Iterator[str]:
    """The places behind one figure."""
    if what == "names":
        yield from (f"{name}: {', '.join(found)}" for name, found in figures.shared_names.items())
    elif what in ("modules", "functions"):
        sizes = Counter(figures.modules if what == "modules" else figures.functions)
        yield from (f"{size:>5} {where}" for where, size in sizes.most_common(40))
    else:
        lists = {
            "undocumented": figures.undocumented,
            "any": figures.any_lines,
            "lazy": figures.unexplained,
            "words": figures.words,
        }
        yield from lists[what]


def _is_generated(path: Path, text: str) -> bool:
    return "_proto" in path.parts or "enerated" in text[:200].partition("\n")[0]


def _measure_module(figures: Figures, name: str, text: str) -> None:
    lines = text.splitlines()
    figures.modules[name] = len(lines)
    forbidden = FORBIDDEN.search(text) is not None
    for number, line in enumerate(lines, 1):
        if "Any" in line and re.search(r"\bAny\b", line) and "import" not in line:
            figures.any_lines.append(f"{name}:{number} {line.strip()}")
        if forbidden:
            figures.words += [f"{name}:{number} {word}" for word in FORBIDDEN.findall(line)]
    tree = ast.parse(text)
    _measure_public(figures, name, tree, private=False)
    for node in _statements(tree.body, within=(Function, ast.ClassDef)):
        if isinstance(node, Function):
            figures.functions[f"{name}:{node.lineno} {node.name}"] = (node.end_lineno or node.lineno) - node.lineno + 1
            _measure_imports(figures, name, node, lines)


def _measure_public(figures: Figures, name: str, scope: ast.Module | ast.ClassDef, *, private: bool) -> None:
    for node in scope.body:
        if not isinstance(node, Function | ast.ClassDef):
            continue
        hidden = private or node.name.startswith("_")
        if not hidden:
            figures.public += 1
            if ast.get_docstring(node) is None and not _is_overload(node):
                figures.undocumented.append(f"{name}:{node.lineno} {node.name}")
        if isinstance(node, ast.ClassDef):
            if not hidden:
                figures.classes[node.name].append(f"{name}:{node.lineno}")
            _measure_public(figures, name, node, private=hidden)


def _measure_imports(figures: Figures, name: str, function: Function, lines: list[str]) -> None:
    """Imports in the body itself; those of nested functions are theirs."""
    explained = False
    for node in _own_statements(function):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        place = f"{name}:{node.lineno} {function.name}"
        figures.lazy.append(place)
        above, line = lines[node.lineno - 2].strip(), lines[node.lineno - 1]
        # A comment holds for the block of imports below it.
        explained = "#" in line or above.startswith("#") or (explained and (not above or "import" in above))
        if not explained:
            figures.unexplained.append(place)


def _own_statements(function: Function) -> Iterator[ast.stmt]:
    return _statements(function.body, within=())


def _statements(body: list[ast.stmt], *, within: tuple[type[ast.stmt], ...]) -> Iterator[ast.stmt]:
    """Statements and those in them, of definitions only ``within``; expressions, which are most of a tree, are not
    looked at."""
    waiting = deque(body)
    while waiting:
        node = waiting.popleft()
        yield node
        if isinstance(node, within) or not isinstance(node, Function | ast.ClassDef):
            for branch in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                for name in ("body", "orelse", "finalbody"):
                    waiting.extend(getattr(branch, name, ()))


def _is_overload(node: Function | ast.ClassDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list)


def _sizes(sizes: list[int]) -> str:
    return f"median {round(statistics.median(sizes))}, largest {max(sizes)} lines" if sizes else ""


if __name__ == "__main__":
    sys.exit(main())
