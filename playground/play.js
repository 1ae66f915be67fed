// The page without a server: a dump is dropped, chosen or pasted, and the device map opens on it.

import { start } from "./app.js";
import { droppedFiles, isReadable } from "./files.js";
import { WorkerEngine } from "./worker-engine.js";

const EXAMPLE = "cluster.yaml";
const MANIFESTS = "mistakes.yaml";
const LONGEST = 10_240; // characters of an expression, as in Kubernetes
const SLOW = 20e6;

// `place` has `makeWorker`, `assets` (null: the worker fetches them) and `example(name)`, the text of a bundled example.
export function play(place) {
  const root = document.getElementById("app");
  const status = document.getElementById("status");
  const form = document.getElementById("load");
  const say = (text, fault = false) => {
    status.textContent = text;
    status.classList.toggle("fault", fault);
  };
  const engine = new WorkerEngine(place.makeWorker, place.assets, { progress: (text) => say(`${text} …`) });

  async function open(named) {
    try {
      const readable = named.filter(([name]) => named.length === 1 || isReadable(name));
      if (!readable.length) throw new Error("none of the files is .yaml, .json or an archive");
      const slow = readable.reduce((sum, [name, blob]) => sum + (/\.json/.test(name) ? 0 : blob.size), 0);
      say(slow > SLOW ? "reading … YAML of this size takes minutes; JSON is read thirty times faster" : "reading …");
      const found = await engine.load(readable);
      form.hidden = true;
      say("");
      history.replaceState(null, "", "#");
      document.title = `Device map of ${found.source}`;
      return await start(root, engine);
    } catch (error) {
      form.hidden = false;
      say(error.message, true);
    }
  }

  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", async (event) => {
    event.preventDefault();
    open(await droppedFiles(event.dataTransfer));
  });
  addEventListener("paste", (event) => {
    const text = event.clipboardData.getData("text");
    if (form.hidden || event.target.closest?.("input, textarea") || !text) return;
    open([["pasted.yaml", new Blob([text])]]);
  });
  const choose = form.querySelector("input[type=file]");
  choose.addEventListener("change", () => open([...choose.files].map((file) => [file.name, file])));
  form.querySelector("textarea + button").addEventListener("click", () => {
    open([["pasted.yaml", new Blob([form.querySelector("textarea").value])]]);
  });
  form.querySelector("button.example").addEventListener("click", async () => {
    openExample();
  });

  const openExample = async () => open([[EXAMPLE, new Blob([await place.example(EXAMPLE)])]]);

  // What a link of the documents asks for in the fragment of the address, which no server receives.
  async function tryWanted(wanted) {
    const app = await openExample();
    if (wanted.has("explain")) app?.selection.explain(subjectOf(wanted));
    else if (wanted.has("match")) app?.cel.show(wanted.get("match").slice(0, LONGEST));
    else if (wanted.has("lint")) app?.linter.show(await place.example(MANIFESTS));
  }

  const wanted = new URLSearchParams(location.hash.slice(1));
  const versions = engine.start();
  // Only examples that are part of the page can be named.
  if (wanted.get("example") === EXAMPLE) tryWanted(wanted);
  versions.then(
    ({ python, pyodide }) => form.hidden || say(`ready: Python ${python}, Pyodide ${pyodide}`),
    (error) => say(error.message, true),
  );
  return engine;
}

// «pod/train» and a namespace, as reports name it.
function subjectOf(wanted) {
  const [kind, name = ""] = wanted.get("explain").split("/");
  return `${kind} ${wanted.get("namespace") ?? "default"}/${name}`;
}
