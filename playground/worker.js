// The Web Worker: questions in, answers out, both as JSON text. Its first message is { start: assets }, where `assets` is
// null or maps the names of files to their bytes; then it reports { progress }, and { ready } or { failed }.
// { load: fields, files } loads files: they are read here, because a large one would stop the page. { ended } reports that
// WebAssembly has ended; the worker answers nothing more.

import { loadPyodide } from "./pyodide/pyodide.mjs";
import createPyodideModule from "./pyodide/pyodide.asm.mjs";
import { openEngine } from "./boot.js";
import { sentFile } from "./files.js";

const FOLDERS = { "cathedra.zip": "./" };

// `openEngine` replaces fetch for the time in which Pyodide starts.
const fetchFromSite = self.fetch.bind(self);
let engine = null;

self.onmessage = async ({ data }) => {
  if (typeof data === "string") return respond(data);
  if (data.load) return load(data);
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

async function load({ load: fields, files }) {
  try {
    respond(JSON.stringify({ ...fields, files: await Promise.all(files.map(([name, blob]) => sentFile(name, blob))) }));
  } catch (error) {
    // A file that was removed meanwhile, or whose text is longer than the browser allows.
    const fault = { reason: "invalid", text: `the files cannot be read: ${error?.message ?? error}`, line: 0, column: 0 };
    self.postMessage(JSON.stringify({ kind: "Answer", id: fields.id, question: "load", result: null, text: "", leftOut: [], error: fault }));
  }
}

function respond(question) {
  let answer;
  try {
    answer = engine.answer(question);
  } catch (error) {
    // Out of memory or of stack. The engine answers everything else itself.
    answer = { ended: String(error?.message ?? error) };
  }
  self.postMessage(answer);
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
