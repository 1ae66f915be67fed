"""Figures of the readability of the sources, for comparisons between two states of the tree.

Lines of source and of tests, sizes of modules and functions, comments, parameters, modules with a single importer, the
share of public names with a docstring, docstrings that are questions or have no content, lines with ``Any``, imports
inside functions (with and without a comment that gives the reason), words that name a person or a picture instead of a
mechanism, and names that two classes share. Generated modules are left out.

    python tools/metrics.py [--list WHAT] [DIRECTORY]
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import statistics
import sys
import tokenize
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
QUESTION: Final = re.compile(r"(?:what|whether|who|whom|whose|how|which|where|when|why)\b", re.IGNORECASE)
"""A docstring that begins so describes a riddle instead of a thing or an action."""
PROSE: Final = re.compile(
    r"\b(?:(?<!\bthose )who|whom|tells?|told|asks?|asked|says?|said|lets? go|makes? of it|so many|the very same"
    r"|comes? again|looks? at|looked at|spells?|hears? of)\b",
    re.IGNORECASE,
)
"""Words of docstrings and comments for which the field has a verb or a noun (docs: the style's «Plain English»)."""
PARAMETERS: Final = 6
SHORT_MODULE: Final = 60
SHORT_DOCSTRING: Final = 3
LISTS: Final = (
    "modules", "functions", "undocumented", "any", "lazy", "words", "names",
    "parameters", "single", "short", "questions", "prose", "comments",
)  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Figures:
    """Counts. Each list holds places: ``path:line what``."""

    modules: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)
    public: int = 0
    undocumented: list[str] = field(default_factory=list)
    any_lines: list[str] = field(default_factory=list)
    lazy: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    comments: dict[str, int] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    short: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    importers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def single(self) -> list[str]:
        """Short modules that one other module imports."""
        return [
            f"{name} ({size} lines) by {next(iter(users))}"
            for name, size in sorted(self.modules.items())
            if size <= SHORT_MODULE and len(users := self.importers.get(name, set())) == 1
        ]

    @property
    def shared_names(self) -> dict[str, list[str]]:
        """Class names that more than one module defines."""
        return {name: places for name, places in sorted(self.classes.items()) if len(places) > 1}


def main() -> int:
    """Print the figures, or with ``--list`` the places behind one of them."""
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
    lines = sum(modules)
    yield f"lines                       {lines:>9,}"
    yield f"comments per 100 lines      {100 * sum(figures.comments.values()) / max(lines, 1):>9.2f}"
    documented = figures.public - len(figures.undocumented)
    yield f"modules                       {len(modules):>7}   {_sizes(modules)}"
    yield f"functions                     {len(functions):>7}   {_sizes(functions)}"
    yield f"  longer than 40 lines        {sum(size > 40 for size in functions):>7}"
    yield f"public names documented       {documented / max(figures.public, 1):>7.1%}   of {figures.public}"
    yield f"  of {SHORT_DOCSTRING} words or fewer        {len(figures.short):>7}"
    yield f"  that begin with a question  {len(figures.questions):>7}"
    yield f"prose without a field's word  {len(figures.prose):>7}"
    yield f"functions of > {PARAMETERS} parameters   {len(figures.parameters):>7}"
    yield f"short modules with one user   {len(figures.single):>7}"
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
            "parameters": figures.parameters,
            "single": figures.single,
            "short": figures.short,
            "questions": figures.questions,
            "prose": figures.prose,
            "comments": [f"{count:>5} {name}" for name, count in sorted(figures.comments.items())],
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
    _measure_prose(figures, name, text, tree)
    for imported in _imports(tree):
        figures.importers[imported].add(name)
    _measure_public(figures, name, tree, private=False)
    for node in _statements(tree.body, within=(Function, ast.ClassDef)):
        if isinstance(node, Function):
            figures.functions[f"{name}:{node.lineno} {node.name}"] = (node.end_lineno or node.lineno) - node.lineno + 1
            _measure_imports(figures, name, node, lines)
            count = sum(len(group) for group in (node.args.posonlyargs, node.args.args, node.args.kwonlyargs))
            count -= any(first.arg in ("self", "cls") for first in node.args.args[:1])
            if count > PARAMETERS:
                figures.parameters.append(f"{name}:{node.lineno} {node.name} {count}")


def _measure_prose(figures: Figures, name: str, text: str, tree: ast.Module) -> None:
    """Count comments, and the docstrings and comments that are not plain English."""
    written: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not re.match(r"#\s*(?:type:|noqa|fmt:|pragma)", token.string):
            figures.comments[name] = figures.comments.get(name, 0) + 1
            written.append((token.start[0], token.string))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        docstring = node.value.value
        if not isinstance(docstring, str):
            continue
        written.append((node.lineno, docstring))
        first = docstring.strip().partition("\n")[0]
        if QUESTION.match(first):
            figures.questions.append(f"{name}:{node.lineno} {first}")
        if len(docstring.split()) <= SHORT_DOCSTRING:
            figures.short.append(f"{name}:{node.lineno} {first}")
    for number, each in sorted(written):
        figures.prose += [f"{name}:{number} {found}" for found in PROSE.findall(each)]


def _imports(tree: ast.Module) -> Iterator[str]:
    """Paths below the source of the modules that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("cathedra."):
            below = node.module.removeprefix("cathedra.").replace(".", "/")
            yield f"{below}.py"
            yield from (f"{below}/{alias.name}.py" for alias in node.names)


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
    """Statements and those in them, of definitions only ``within``; expressions, which are most of a tree, are
    skipped."""
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
