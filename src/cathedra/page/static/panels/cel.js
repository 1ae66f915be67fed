// Panel «CEL»: an expression, the devices that it matches, the value of each part, its cost, and YAML to copy.

import { html, nothing } from "../vendor/lit-html.js";
import { keyOf } from "../model.js";

const DELAY = 150; // Milliseconds after the last key

export class CelBench {
  #asked = 0;
  #timer = 0;

  constructor(app) {
    this.app = app;
    this.text = "";
    this.device = "";
    this.found = null;
    this.parts = null;
    this.error = null;
    this.completions = [];
    this.active = -1;
    this.copied = false;
  }

  begin() {
    const first = this.app.model.devices.values().next().value;
    if (first) this.device = keyOf(first);
  }

  // Evaluates an expression that comes from elsewhere.
  show(expression) {
    this.text = expression;
    this.app.open("cel");
    return this.evaluate();
  }

  // Another moment is shown, with other devices.
  renew() {
    if (this.text.trim() && this.app.panel === "cel") this.evaluate();
  }

  #typed(area) {
    this.text = area.value;
    this.copied = false;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.evaluate(area.value.slice(0, area.selectionStart)), DELAY);
    this.app.update();
  }

  async evaluate(before = "") {
    const asked = ++this.#asked;
    const { app } = this;
    const expression = this.text;
    if (!expression.trim()) {
      Object.assign(this, { found: null, parts: null, error: null, completions: [] });
      this.app.light(new Map());
      this.app.update();
      return;
    }
    const settled = await Promise.allSettled([
      app.ask("match", { expression }),
      app.ask("evaluate", { expression, device: this.device }),
      before ? app.ask("complete", { before }) : { completions: [] },
    ]);
    if (asked !== this.#asked) return;
    const [matched, evaluated, completed] = settled;
    this.found = matched.value ?? null;
    this.parts = evaluated.value ?? null;
    this.error = evaluated.reason ?? matched.reason ?? null;
    this.completions = completed.value?.completions.slice(0, 12) ?? [];
    this.active = -1;
    if (this.found) {
      const lit = new Map(this.found.nearMisses.flatMap((one) => one.devices.map((key) => [key, "near"])));
      for (const key of this.found.matched) lit.set(key, "match");
      this.app.light(lit);
    }
    this.app.say(this.error ? this.error.message : `matches ${this.found.matched.length} of ${this.found.devices} devices`);
    this.app.update();
  }

  #accept(completion) {
    const area = this.app.root.querySelector("#expression");
    const end = area.selectionStart;
    area.setRangeText(completion.text, end - completion.replaced, end, "end");
    area.focus();
    this.completions = [];
    this.#typed(area);
  }

  #key(event) {
    if (!this.completions.length) return;
    if (event.key === "ArrowDown") this.active = (this.active + 1) % this.completions.length;
    else if (event.key === "ArrowUp") this.active = this.active > 0 ? this.active - 1 : this.completions.length - 1;
    else if (event.key === "Enter" && this.active >= 0) this.#accept(this.completions[this.active]);
    else if (event.key === "Escape") this.completions = [];
    else return;
    event.preventDefault();
    this.app.update();
  }

  render() {
    const { app, completions } = this;
    return html`
      <label for="expression">Expression over <code>device</code></label>
      <textarea id="expression" spellcheck="false" aria-autocomplete="list" aria-controls="completions" aria-activedescendant=${this.active >= 0 ? `completion-${this.active}` : nothing}
        placeholder='device.driver == "gpu.example.com"' .value=${this.text} @input=${(event) => this.#typed(event.target)} @keydown=${(event) => this.#key(event)}></textarea>
      <div class="complete" id="completions" role="listbox" aria-label="Completions" ?hidden=${!completions.length}>
        ${completions.map((one, i) => html`<button type="button" role="option" tabindex="-1" id=${`completion-${i}`} aria-selected=${i === this.active} @click=${() => this.#accept(one)}>${one.text}</button>`)}</div>
      <label class="stack">Values on <input class="wide" list="devices" .value=${this.device} @change=${(event) => this.#choose(event.target.value)}></label>
      <datalist id="devices">${[...app.model.devices.keys()].slice(0, 500).map((key) => html`<option value=${key}></option>`)}</datalist>
      ${this.error ? this.#errorBody() : nothing}
      ${this.found ? this.#matchBody() : nothing}
      ${this.parts ? this.#partsBody() : nothing}
      ${this.found ? this.#yaml() : nothing}`;
  }

  #choose(device) {
    this.device = device;
    this.evaluate();
  }

  // The line of the error with a mark below its place.
  #errorBody() {
    const { error, text } = this;
    const line = text.split("\n")[error.line - 1];
    return html`<div class="note" role="alert">${error.message}${line !== undefined ? html`<pre class="code" tabindex="0">${line}\n${" ".repeat(Math.max(error.column - 1, 0))}▲</pre>` : nothing}</div>`;
  }

  #matchBody() {
    const { found } = this;
    return html`
      <p><strong class=${found.matched.length ? "good" : "bad"}>matches ${found.matched.length.toLocaleString("en")} of ${found.devices.toLocaleString("en")} devices</strong>
        <span class="faint">cost ${found.cost.toLocaleString("en")} of 1,000,000</span></p>
      ${found.failures.map((one) => html`<p class="note">fails on ${one.devices.length} devices: ${one.error}</p>`)}
      ${found.conditions.length > 1 ? html`<table><thead><tr><th scope="col">condition</th><th scope="col" class="number">met</th><th scope="col" class="number">only this</th></tr></thead>
        <tbody>${found.conditions.map((one) => html`<tr><th scope="row"><code>${one.text}</code></th><td class="number">${one.met}</td><td class="number">${one.alone}</td></tr>`)}</tbody></table>` : nothing}
      ${found.nearMisses.slice(0, 5).map((one) => html`<p class="faint">near miss: <code>${one.condition}</code> alone keeps out ${one.devices.length} devices${Object.entries(one.values).map(([part, value]) => html`; <code>${part}</code> is ${value}`)}</p>`)}`;
  }

  #partsBody() {
    const { parts } = this;
    if (!parts.device) return nothing;
    return html`<h2>Values on ${parts.device}</h2>
      <table class="parts"><tbody>${parts.parts.map((one) => html`<tr><th scope="row"><code>${"  ".repeat(Math.min(one.depth, 6))}${one.source}</code></th><td class=${one.error ? "bad" : one.reached ? "" : "faint"}>${one.error || (one.reached ? one.value : "not evaluated")}</td></tr>`)}</tbody></table>`;
  }

  #yaml() {
    const text = manifest(this.text, this.app.model.classes[0] ?? "CLASS");
    return html`<h2>As a claim</h2><pre class="code" tabindex="0">${text}</pre>
      <p><button @click=${() => this.#copy(text)}>Copy</button> <span role="status">${this.copied ? "copied" : ""}</span></p>`;
  }

  async #copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      this.copied = true;
    } catch {
      // Without permission the text is selected, so that the keyboard copies it.
      getSelection().selectAllChildren(this.app.root.querySelector("#panel pre:last-of-type"));
    }
    this.app.update();
  }
}

function manifest(expression, deviceClass) {
  const indented = expression.trim().split("\n").map((line) => `              ${line}`).join("\n");
  return `apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: my-claim
spec:
  devices:
    requests:
    - name: device
      exactly:
        deviceClassName: ${deviceClass}
        selectors:
        - cel:
            expression: |-
${indented}
`;
}
