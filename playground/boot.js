// The engine in WebAssembly: Pyodide with Cathedra's bytecode. The same module runs in a Web Worker and in Node.
//
// openEngine({ runtime, assets, progress }) resolves to { answer, versions }: `answer(question)` takes a question as JSON
// text and returns the answer as JSON text (src/cathedra/engine/messages.py). `runtime` has Pyodide's functions and options, and
// `assets(name)` resolves to the bytes of a file. Nothing else is loaded: `fetch` is replaced for Pyodide's own requests.

const START = `
import asyncio, sys

# Pyodide keeps its own event loop marked as running. Simulations run a loop of their own to its end.
asyncio._set_running_loop(None)
sys.path.insert(0, ROOT)
from cathedra.engine import Engine

engine = Engine()
answer = engine.answer_json
`;

const PLACE = "assets:/";
const ROOT = "/lib/cathedra";

export async function openEngine({ runtime, assets, progress = () => {} }) {
  progress("loading Python");
  const bundle = assets("cathedra.zip");
  const python = await loadedPython(runtime, assets);
  progress("loading Cathedra");
  python.unpackArchive(await bundle, "zip", { extractDir: ROOT });
  const names = python.toPy({ ROOT });
  python.runPython(START, { globals: names });
  const answer = names.get("answer");
  const decoder = new TextDecoder();
  return {
    versions: { python: python.runPython("sys.version.split()[0]", { globals: names }), pyodide: python.version },
    answer(question) {
      const found = answer(question);
      const bytes = found.toJs();
      found.destroy();
      return decoder.decode(bytes);
    },
  };
}

async function loadedPython({ loadPyodide, createPyodideModule, options = {} }, assets) {
  const { info } = JSON.parse(new TextDecoder().decode(await assets("pyodide-lock.json")));
  const own = globalThis.fetch;
  // Pyodide fetches its machine code and the standard library by URL. A page from a file has no URLs to fetch from.
  globalThis.fetch = async (url) => {
    const name = String(url).split("/").at(-1);
    const headers = { "content-type": name.endsWith(".wasm") ? "application/wasm" : "application/octet-stream" };
    return new Response(await assets(name), { headers });
  };
  try {
    return await loadPyodide({
      createPyodideModule,
      indexURL: PLACE,
      stdLibURL: `${PLACE}python_stdlib.zip`,
      packageBaseUrl: PLACE,
      lockFileContents: { info, packages: {} },
      ...options,
    });
  } finally {
    globalThis.fetch = own;
  }
}
