// The engine in a Web Worker, with the interface of ServerEngine: `ask(question, fields)` resolves to an answer's result.

import { EngineError, resultOf } from "./engine.js";

// Seconds after which a question is given up. Python cannot be interrupted, so the worker is ended and started again.
const LIMIT = 120;
// Reading is longer than any question: YAML without libyaml takes 3 s for each megabyte.
const LOAD_LIMIT = 900;
// Number of the message that loads the files again; questions count from 1.
const RELOAD = 0;

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

  // `files` are [name, blob].
  async load(files) {
    const found = await this.#ask((id) => ({ load: { question: "load", id }, files }), LOAD_LIMIT);
    this.#loaded = files;
    return found;
  }

  ask(question, fields = {}) {
    return this.#ask((id) => JSON.stringify({ question, id, ...fields }), this.limit);
  }

  async #ask(message, limit) {
    await this.#startedLast();
    const id = this.#next++;
    const answer = await new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#giveUp(limit), limit * 1000);
      this.#waiting.set(id, { resolve, reject, timer });
      this.#worker.postMessage(message(id));
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

  #reload(files) {
    return new Promise((resolve, reject) => {
      this.#waiting.set(RELOAD, { resolve, reject, timer: 0 });
      this.#worker.postMessage({ load: { question: "load", id: RELOAD }, files });
    });
  }

  // Files that end the engine again while they are read are given up. It would end forever.
  #ended(text) {
    if (this.#waiting.has(RELOAD)) this.#loaded = null;
    this.cancel(`the engine ended, and was started again: ${text}`);
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
        if (data.ended) return this.#ended(data.ended);
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
