// The engine in a Web Worker, with the interface of ServerEngine: `ask(question, fields)` resolves to an answer's result.

import { EngineError, resultOf } from "./engine.js";

// Seconds after which a question is given up. Python cannot be interrupted, so the worker is ended and started again.
const LIMIT = 120;
// Reading is longer than any question: YAML without libyaml takes 3 s for each megabyte.
const LOAD_LIMIT = 900;

export class WorkerEngine {
  #makeWorker;
  #assets;
  #worker = null;
  #waiting = new Map();
  #next = 1;
  #loaded = null;
  #ready = null;

  // `makeWorker` returns a new Worker; `assets` are its files, or null if it fetches them.
  constructor(makeWorker, assets = null, { progress = () => {}, limit = LIMIT } = {}) {
    this.#makeWorker = makeWorker;
    this.#assets = assets;
    this.progress = progress;
    this.limit = limit;
  }

  // Resolves when the engine can answer.
  start() {
    this.#ready ??= this.#started();
    return this.#ready;
  }

  // A worker that is started again while a question waits for the one before it is waited for, too.
  async #startedLast() {
    for (let ready = null; ready === null || ready !== this.#ready; ) await (ready = this.start());
  }

  async load(files, fields = {}) {
    const found = await this.#ask("load", { files, ...fields }, LOAD_LIMIT);
    this.#loaded = { files, ...fields };
    return found;
  }

  ask(question, fields = {}) {
    return this.#ask(question, fields, this.limit);
  }

  async #ask(question, fields, limit) {
    await this.#startedLast();
    const id = this.#next++;
    const answer = await new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#giveUp(limit), limit * 1000);
      this.#waiting.set(id, { resolve, reject, timer });
      this.#worker.postMessage(JSON.stringify({ question, id, ...fields }));
    });
    return resultOf(answer);
  }

  // Ends all questions that wait, and starts again with the same files.
  cancel(text = "cancelled") {
    this.#worker?.terminate();
    this.#worker = null;
    this.#ready = null;
    for (const one of this.#waiting.values()) {
      clearTimeout(one.timer);
      one.reject(new EngineError({ reason: "cancelled", text }));
    }
    this.#waiting.clear();
    const loaded = this.#loaded;
    if (!loaded) return;
    this.#ready = this.#started().then(() => this.#reload(loaded));
    // A page that asks nothing more has no use for the error; the next question gets it.
    this.#ready.catch(() => {});
  }

  #giveUp(limit) {
    this.cancel(`there was no answer after ${limit} s; the engine was started again`);
  }

  #reload(loaded) {
    return new Promise((resolve, reject) => {
      this.#waiting.set(0, { resolve, reject, timer: 0 });
      this.#worker.postMessage(JSON.stringify({ question: "load", id: 0, ...loaded }));
    });
  }

  #started() {
    return new Promise((resolve, reject) => {
      const worker = (this.#worker = this.#makeWorker());
      const failed = (text) => {
        this.#ready = null;
        reject(new EngineError({ reason: "failed", text }));
      };
      worker.onerror = (event) => failed(event.message || "the worker cannot be started");
      worker.onmessage = ({ data }) => {
        if (typeof data === "string") return this.#answered(JSON.parse(data));
        if (data.progress) return this.progress(data.progress);
        if (data.failed) return failed(data.failed);
        resolve(data.ready);
      };
      worker.postMessage({ start: this.#assets });
    });
  }

  #answered(answer) {
    const one = this.#waiting.get(answer.id);
    if (!one) return;
    this.#waiting.delete(answer.id);
    clearTimeout(one.timer);
    one.resolve(answer);
  }
}
