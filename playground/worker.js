// The Web Worker: questions in, answers out, both as JSON text. Its first message is { start: assets }, where `assets` is
// null or maps the names of files to their bytes; then it reports { progress }, and { ready } or { failed }.

import { loadPyodide } from "./pyodide/pyodide.mjs";
import createPyodideModule from "./pyodide/pyodide.asm.mjs";
import { openEngine } from "./boot.js";

const FOLDERS = { "cathedra.zip": "./" };

// `openEngine` replaces fetch for the time in which Pyodide starts.
const fetchFromSite = self.fetch.bind(self);
let engine = null;

self.onmessage = async ({ data }) => {
  if (typeof data === "string") return self.postMessage(answered(data));
  try {
    engine = await openEngine({
      runtime: { loadPyodide, createPyodideModule },
      assets: data.start ? (name) => unpacked(data.start[name]) : fetched,
      progress: (text) => self.postMessage({ progress: text }),
    });
    self.postMessage({ ready: engine.versions });
  } catch (error) {
    self.postMessage({ failed: String(error?.message ?? error) });
  }
};

function answered(question) {
  try {
    return engine.answer(question);
  } catch (error) {
    // WebAssembly has ended, out of memory or of stack. The engine answers everything else itself.
    const { id = null, question: name = "" } = JSON.parse(question);
    const fault = { reason: "internal", text: String(error?.message ?? error), line: 0, column: 0 };
    return JSON.stringify({ kind: "Answer", id, question: name, result: null, text: "", leftOut: [], error: fault });
  }
}

async function fetched(name) {
  const response = await fetchFromSite(new URL((FOLDERS[name] ?? "./pyodide/") + name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

// The files in a page that is a single file are packed.
async function unpacked(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}
