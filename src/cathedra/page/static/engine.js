// Engines: where answers come from. Every engine has `ask(question, fields)`, which resolves to an Answer's result, and
// `follow(listener)`, which reports changes. `cathedra/engine/messages.py` declares the messages.

// The question with which every page begins.
export const FIRST = ["map", { compact: true }];

export class EngineError extends Error {
  constructor({ reason = "invalid", text = "", line = 0, column = 0 }) {
    super(text);
    this.reason = reason;
    this.line = line;
    this.column = column;
  }
}

// Returns the result of an answer with what was left out of it.
export function resultOf(answer) {
  if (answer.error) throw new EngineError(answer.error);
  return { ...answer.result, text: answer.text, leftOut: answer.leftOut ?? [] };
}

export class ServerEngine {
  #token;
  #next = 1;

  constructor(token) {
    this.#token = token;
  }

  async ask(question, fields = {}) {
    const response = await fetch("engine", {
      method: "POST",
      headers: { authorization: `Bearer ${this.#token}`, "content-type": "application/json" },
      body: JSON.stringify({ question, id: this.#next++, ...fields }),
    });
    if (!response.ok) throw new EngineError({ reason: "refused", text: (await response.text()).trim() });
    return resultOf(await response.json());
  }

  // Calls listener.change(message) for each message and listener.lost(error) when the connection ends; connects again.
  // `listener.since()` is the time of the map that the page has.
  async follow(listener) {
    for (let wait = 500; ; wait = Math.min(wait * 2, 10_000)) {
      try {
        const response = await fetch(`events?since=${listener.since() ?? 0}`, { headers: { authorization: `Bearer ${this.#token}` } });
        if (!response.ok) throw new EngineError({ reason: "refused", text: (await response.text()).trim() });
        for await (const line of lines(response.body)) {
          wait = 500;
          listener.change(JSON.parse(line));
        }
      } catch (error) {
        if (error.reason === "refused") return listener.lost(error);
      }
      listener.lost(null);
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let pieces = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = value.split("\n");
    // Pieces of one line are joined once: a first map has many megabytes.
    for (const part of parts.slice(0, -1)) {
      pieces.push(part);
      const line = pieces.join("");
      pieces = [];
      if (line) yield line;
    }
    pieces.push(parts.at(-1));
  }
}
