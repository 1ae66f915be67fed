// The page of `kubectl dra map`: its engine is the server that it came from.

import { start } from "./app.js";
import { ServerEngine } from "./engine.js";

// For the console of the browser, and for measurements.
globalThis.deviceMap = await start(document.getElementById("app"), new ServerEngine(location.hash.slice(1)));
