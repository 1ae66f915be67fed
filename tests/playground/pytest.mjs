// node pytest.mjs BUNDLE ROOT PACKAGES ARGUMENT...: runs pytest in WebAssembly, on the modules of the bundle.
// ROOT is the folder of the repository, PACKAGES the one with pytest. The exit code is pytest's.

import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const [bundle, root, packages, ...words] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${root}/playground/node_modules/pyodide/pyodide.mjs`).href);
const python = await loadPyodide();
python.unpackArchive(new Uint8Array(await readFile(bundle)), "zip", { extractDir: "/lib/cathedra" });
python.mountNodeFS("/root", root);
python.mountNodeFS("/packages", packages);
const names = python.toPy({ words });
process.exitCode = python.runPython(
  `
import os, sys
# The compiled modules of the packages are for another machine, so the bundle's come first.
sys.path[:0] = ["/lib/cathedra", "/root"]
sys.path.append("/packages")
os.chdir("/root")
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
import pytest
from unittest.mock import MagicMock

# Hypothesis has a compiled module that does not exist for WebAssembly. Its cases are skipped.
sys.modules["hypothesis"] = MagicMock(given=lambda *_, **__: pytest.mark.skip(reason="Hypothesis is not to be had"))
# The folder has a binding of RE2 for another machine.
sys.modules["re2"] = None
int(pytest.main(list(words)))
`,
  { globals: names },
);
