// The page of a site: worker and example come from the page's own origin.

import { play } from "./play.js";

globalThis.engine = play({
  makeWorker: () => new Worker(new URL("./worker.js", import.meta.url), { type: "module" }),
  assets: null,
  example: async (name) => (await fetch(`examples/${name}`)).text(),
});
