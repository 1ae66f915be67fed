"""Build the page without a server: site/play/ for a web server, and site/cathedra.html to open from disk.

python -m tools.playground

Needs node and npm. Pyodide comes from npm (playground/package-lock.json), the compiled package msgspec from the package
index (playground/requirements.txt); both are downloaded once. The wheel of Cathedra contains nothing of this.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import distribution
from pathlib import Path
from sysconfig import get_path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PLAYGROUND: Final = ROOT / "playground"
PYODIDE: Final = PLAYGROUND / "node_modules" / "pyodide"
SOURCE: Final = ROOT / "src"
STATIC: Final = SOURCE / "cathedra" / "page" / "static"
EXAMPLES: Final = tuple(ROOT / "examples" / "insight" / name for name in ("cluster.yaml", "mistakes.yaml"))
"""A cluster, and manifests for lint: what the links of the documents open (`playground/play.js`)."""
WORK: Final = ROOT / "build" / "playground"
RUNTIME: Final = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
ENGINE: Final = "cathedra.engine"
PACKAGES: Final = ("pyyaml", "prometheus_client")
"""Packages that the engine needs and that are Python alone, as far as it uses them."""
_PLATFORM: Final = "pyemscripten_2026_0_wasm32"
_PYTHON: Final = "3.14"
_OWN_PAGES: Final = frozenset(("index.html", "main.js"))
"""Files of the served page that have a counterpart here."""
POLICY: Final = (
    "default-src 'none'; script-src {scripts} 'wasm-unsafe-eval'; worker-src {workers}; style-src {styles}; "
    "img-src {images}; connect-src {connections}; base-uri 'none'; form-action 'none'"
)
"""Content-Security-Policy. WebAssembly needs the permission to compile, and there is nothing to connect to."""


def main() -> int:
    """Build both pages, or only download what they need."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "site", metavar="DIR", help="folder (default site)")
    parser.add_argument("--download", action="store_true", help="only download what the pages and their tests need")
    arguments = parser.parse_args()
    out: Path = arguments.out
    download()
    if arguments.download:
        return 0
    bundle = compiled_bundle()
    folder = site(out / "play", bundle)
    single = single_page(out / "cathedra.html", folder)
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {total / 1e6:.1f} MB; {single}: {single.stat().st_size / 1e6:.1f} MB")
    return 0


def download() -> None:
    """Get Pyodide and the compiled package, unless they are there."""
    if not PYODIDE.exists():
        _call("npm", "ci", "--silent", "--no-audit", "--no-fund", folder=PLAYGROUND)
    if not wheels():
        options = ("--only-binary", ":all:", "--no-deps", "--require-hashes", "--dest", str(WORK / "wheels"))
        target = ("--platform", _PLATFORM, "--python-version", _PYTHON, "--implementation", "cp", "--abi", "cp314")
        requirements = ("--requirement", str(PLAYGROUND / "requirements.txt"))
        _call(sys.executable, "-m", "pip", "download", "--quiet", *options, *target, *requirements, folder=ROOT)


def wheels() -> list[Path]:
    """Return the wheels that were downloaded."""
    return sorted((WORK / "wheels").glob("*.whl"))


def _call(*command: str, folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True)


# --- the bundle


def bundled_sources() -> dict[str, bytes]:
    """Return the files of the bundle by name: what the engine imports, at any time, and the data beside it."""
    found = {str(path.relative_to(SOURCE)): path.read_bytes() for path in _own_files()}
    for name in PACKAGES:
        for file in distribution(name).files or ():
            if file.suffix == ".py" and ".dist-info" not in str(file):
                found[str(file)] = Path(str(file.locate())).read_bytes()
    for wheel in wheels():
        with zipfile.ZipFile(wheel) as opened:
            found |= {name: opened.read(name) for name in opened.namelist() if not name.endswith(".pyi")}
    return found


def bundled_modules() -> frozenset[str]:
    """Return the modules that the engine imports, those in functions included, and the packages around them."""
    import grimp  # only where the bundle is made: tests of other things import this module too

    graph = grimp.build_graph("cathedra")
    found: set[str] = set()
    # A package's module imports what the package exports, which a graph of modules does not show. The packages of
    # insight list their modules in a table, from which one is imported when a name is used.
    pending = {ENGINE, *graph.find_descendants(ENGINE), *graph.find_descendants("cathedra.insight")}
    while pending:
        one = pending.pop()
        found.add(one)
        around = {one.rpartition(".")[0]} - {""}
        pending |= (graph.find_modules_directly_imported_by(one) | around) - found
    return frozenset(found)


def _own_files() -> Iterator[Path]:
    modules = bundled_modules()
    for name in sorted(modules):
        path = SOURCE.joinpath(*name.split("."))
        # A package that has become a module may leave a folder of bytecode behind.
        if not (path / "__init__.py").exists():
            yield path.with_suffix(".py")
            continue
        yield path / "__init__.py"
        # A folder without an __init__ is data.
        inner = [one for one in path.rglob("*") if one.is_file() and one.suffix not in (".py", ".pyi", ".pyc")]
        yield from (one for one in inner if _package_of(one) == path)


def _package_of(file: Path) -> Path:
    return next(folder for folder in file.parents if (folder / "__init__.py").exists())


def compiled_bundle() -> Path:
    """Return the zip file with the bytecode of the bundle; it is made again if a source is different."""
    sources = bundled_sources()
    digest = hashlib.sha256((PYODIDE / "package.json").read_bytes())
    for name, body in sorted(sources.items()):
        digest.update(name.encode() + b"\0" + body)
    made = WORK / f"cathedra-{digest.hexdigest()[:16]}.zip"
    if made.exists():
        return made
    WORK.mkdir(parents=True, exist_ok=True)
    given = WORK / "sources.zip"
    with zipfile.ZipFile(given, "w") as archive:
        for name, body in sorted(sources.items()):
            archive.writestr(name, body)
    partial = made.with_suffix(".partial")
    _call("node", str(PLAYGROUND / "compile.mjs"), str(given), str(partial), folder=PLAYGROUND)
    partial.replace(made)
    return made


# --- the pages


def site(folder: Path, bundle: Path) -> Path:
    """Write the page for a web server."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(STATIC, folder, ignore=lambda _, names: _OWN_PAGES.intersection(names))
    for path in PLAYGROUND.glob("*.*"):
        if path.suffix in (".js", ".css"):
            shutil.copy(path, folder)
    policy = POLICY.format(
        scripts="'self'", workers="'self'", styles="'self'", images="'self' data:", connections="'self'"
    )
    (folder / "index.html").write_text(_with_policy((PLAYGROUND / "index.html").read_text(), policy))
    (folder / "pyodide").mkdir()
    for name in RUNTIME:
        shutil.copy(PYODIDE / name, folder / "pyodide")
    lock = json.loads((PYODIDE / "pyodide-lock.json").read_text())
    # The names of packages that Pyodide could load from another host are left out.
    (folder / "pyodide" / "pyodide-lock.json").write_text(json.dumps({"info": lock["info"], "packages": {}}))
    shutil.copy(bundle, folder / "cathedra.zip")
    (folder / "examples").mkdir()
    for example in EXAMPLES:
        shutil.copy(example, folder / "examples")
    (folder / "LICENSES.txt").write_text(licences())
    return folder


def _with_policy(page: str, policy: str) -> str:
    return page.replace("<!-- policy -->", f'<meta http-equiv="Content-Security-Policy" content="{policy}">')


def licences() -> str:
    """Return the licences of everything that the pages contain."""
    version = json.loads((PYODIDE / "package.json").read_text())["version"]
    parts = {
        "Cathedra": (ROOT / "LICENSE").read_text(),
        f"Pyodide {version}. Its source code is at https://github.com/pyodide/pyodide, tag {version}": (
            PLAYGROUND / "MPL-2.0.txt"
        ).read_text(),
        f"Python {_PYTHON}, in Pyodide": (Path(get_path("stdlib")) / "LICENSE.txt").read_text(),
    }
    for name in PACKAGES:
        found = distribution(name)
        texts = [one for one in found.files or () if re.search(r"\.dist-info/.*(LICENSE|NOTICE)", str(one))]
        parts[f"{name} {found.version}"] = "\n".join(Path(str(one.locate())).read_text() for one in texts)
    for wheel in wheels():
        with zipfile.ZipFile(wheel) as opened:
            texts_ = [opened.read(name).decode() for name in opened.namelist() if "dist-info/licenses/" in name]
        parts[" ".join(wheel.name.split("-")[:2])] = "\n".join(texts_)
    for path in sorted((STATIC / "vendor").glob("*LICENSE*")):
        parts[path.name.partition(".")[0]] = path.read_text()
    return "\n\n".join(f"{'=' * 80}\n{title}\n{'=' * 80}\n\n{text.strip()}" for title, text in parts.items()) + "\n"


# --- one file

_IMPORT: Final = re.compile(r'^((?:import|export)\b[^"\n]*)"(\.{1,2}/[^"]+)";$', re.MULTILINE)
_LINK: Final = """
const linked = (texts) => {
  const urls = {};
  for (const [name, text] of texts) {
    const whole = text.replace(/"module:([^"]+)"/g, (_, inner) => JSON.stringify(urls[inner]));
    urls[name] = URL.createObjectURL(new Blob([whole], { type: "text/javascript" }));
  }
  return urls;
};
"""
"""Makes a URL for each module, after those that it imports."""
_WORKER: Final = """
self.onmessage = async (event) => {
  await import(linked(event.data.start.modules)["worker.js"]);
  self.onmessage(event);
};
"""
"""Script of the worker. Chromium starts no module worker from a blob in a page from disk, whose origin is its own. The
worker has yet another origin, so it makes the URLs of its modules itself."""
_START: Final = """
const value = (id) => document.getElementById(id).textContent;
const texts = JSON.parse(value("modules"));
const bytes = (id) => Uint8Array.from(atob(value(id)), (one) => one.charCodeAt(0));
const assets = { modules: texts, ...Object.fromEntries(NAMES.map((name) => [name, bytes(name)])) };
const { play } = await import(linked(texts)["play.js"]);
globalThis.engine = play({
  makeWorker: () => new Worker(`data:text/javascript,${encodeURIComponent(SCRIPT)}`, { type: "module" }),
  assets,
  example: async (name) => value(`example-${name}`),
});
"""


def single_page(path: Path, folder: Path) -> Path:
    """Write the page of ``folder`` as one file, which runs from disk: everything it needs is in it."""
    page = (PLAYGROUND / "index.html").read_text()
    names = ("pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json", "cathedra.zip")
    script = _LINK + _START.replace("NAMES", json.dumps(names)).replace("SCRIPT", json.dumps(_LINK + _WORKER))
    style = "\n".join((folder / name).read_text() for name in ("style.css", "play.css"))
    icon = base64.b64encode((folder / "icon.svg").read_bytes()).decode()
    policy = POLICY.format(
        scripts=f"blob: '{_hash(script)}'",
        workers="data:",
        styles=f"'{_hash(style)}'",
        images="data:",
        connections="'none'",
    )
    page = _with_policy(page, policy)
    page = re.sub(r'<link rel="stylesheet"[^>]*>\n', "", page)
    page = page.replace('href="icon.svg"', f'href="data:image/svg+xml;base64,{icon}"')
    page = re.sub(r"<script .*</script>\n", "", page).replace("</head>", f"<style>{style}</style>\n</head>")
    modules = list(in_order(_modules(folder)))
    parts = [
        _data("modules", json.dumps(modules)),
        *(_data(f"example-{one.name}", one.read_text()) for one in EXAMPLES),
        _data("licences", (folder / "LICENSES.txt").read_text()),
        *(_data(name, _packed(_file(folder, name))) for name in names),
        f'<script type="module">{script}</script>',
    ]
    path.write_text(page.replace("</body>", "\n".join((*parts, "</body>"))))
    return path


def _file(folder: Path, name: str) -> bytes:
    path = folder / name
    return (path if path.exists() else folder / "pyodide" / name).read_bytes()


def _packed(body: bytes) -> str:
    return base64.b64encode(gzip.compress(body, mtime=0)).decode()


def _data(name: str, text: str) -> str:
    # Inside of a script element only the beginning of an end tag, or of a comment, has a meaning.
    safe = text.replace("<", "\\u003c") if name == "modules" else text
    assert "</script" not in safe.lower(), name
    return f'<script type="text/plain" id="{name}">{safe}</script>'


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _modules(folder: Path) -> dict[str, str]:
    """Return the modules of the page by name, with their imports as ``module:NAME``."""
    found = {}
    for path in [*folder.rglob("*.js"), *folder.rglob("*.mjs")]:
        name = str(path.relative_to(folder))
        if name != "main.js":
            found[name] = _IMPORT.sub(lambda match, home=path: _linked(match, home, folder), path.read_text())  # type: ignore[misc]  # the loop variable is bound
    return found


def _linked(match: re.Match[str], path: Path, folder: Path) -> str:
    name = (path.parent / match[2]).resolve().relative_to(folder.resolve())
    return f'{match[1]}"module:{name}";'


def in_order(modules: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each module after those that it imports: the address of a module is made from its text.

    Raises:
        ValueError: modules import each other.
    """
    left = dict(modules)
    while left:
        ready = [name for name, text in left.items() if not any(f'"module:{one}"' in text for one in left)]
        if not ready:
            raise ValueError(f"modules import each other: {', '.join(left)}")
        for name in ready:
            yield name, left.pop(name)


if __name__ == "__main__":
    sys.exit(main())
