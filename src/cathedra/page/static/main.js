// The page of `kubectl dra map`: its engine is the server that it came from. The first question is asked before the other
// modules are there, so that the server works on it meanwhile.

import { FIRST, ServerEngine } from "./engine.js";

const engine = new ServerEngine(location.hash.slice(1));
const first = engine.ask(...FIRST);
// `start` shows the error.
first.catch(() => {});
const { start } = await import("./app.js");
// For the console of the browser, and for measurements.
globalThis.deviceMap = await start(document.getElementById("app"), engine, first);
