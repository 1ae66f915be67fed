// node compile.mjs SOURCES.zip RESULT.zip: compiles the Python modules of a zip file with the Python that will run them.
// The result has bytecode in place of sources, and everything else as it was.

import { readFile, writeFile } from "node:fs/promises";
import { loadPyodide } from "pyodide";

const COMPILE = `
import compileall, pathlib, py_compile, zipfile

compileall.compile_dir(
    "sources", quiet=2, legacy=True, stripdir="sources", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
)
with zipfile.ZipFile("result.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as result:
    for path in sorted(pathlib.Path("sources").rglob("*")):
        if path.is_file() and path.suffix != ".py":
            # One time for all, so that the same sources make the same file.
            entry = zipfile.ZipInfo(str(path.relative_to("sources")), (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            result.writestr(entry, path.read_bytes())
missing = [str(path) for path in pathlib.Path("sources").rglob("*.py") if not path.with_suffix(".pyc").exists()]
assert not missing, missing
`;

const [sources, result] = process.argv.slice(2);
const python = await loadPyodide();
python.unpackArchive(new Uint8Array(await readFile(sources)), "zip", { extractDir: "sources" });
python.runPython(COMPILE);
await writeFile(result, python.FS.readFile("result.zip"));
