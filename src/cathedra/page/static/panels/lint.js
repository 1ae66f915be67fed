// Panel «Lint»: manifests that are checked, alone or against the devices that are shown.

import { html, nothing } from "../vendor/lit-html.js";

const SHOWN = 200;

export class Linter {
  #asked = 0;

  constructor(app) {
    this.app = app;
    this.text = "";
    this.against = false;
    this.report = null;
    this.fault = "";
    this.busy = false;
  }

  // Checks a text that comes from elsewhere.
  show(text) {
    this.text = text;
    this.app.open("lint");
    return this.run();
  }

  async run(event) {
    event?.preventDefault();
    const asked = ++this.#asked;
    Object.assign(this, { report: null, fault: "", busy: true });
    this.app.update();
    try {
      const report = await this.app.ask("lint", { files: [{ name: "manifests.yaml", text: this.text }], against: this.against });
      if (asked === this.#asked) this.report = report;
    } catch (error) {
      if (asked === this.#asked) this.fault = error.message;
    }
    if (asked !== this.#asked) return;
    this.busy = false;
    if (this.report) this.app.say(summary(this.report));
    this.app.update();
  }

  render() {
    return html`
      <form @submit=${(event) => this.run(event)}>
        <label for="manifests">Manifests to check, as YAML or JSON</label>
        <textarea id="manifests" rows="12" spellcheck="false" .value=${this.text} @input=${(event) => (this.text = event.target.value)}></textarea>
        <label><input type="checkbox" .checked=${this.against} @change=${(event) => (this.against = event.target.checked)}> against the devices and classes shown</label>
        <p><button class="main" ?disabled=${this.busy}>${this.busy ? "being checked …" : "Check"}</button></p>
      </form>
      ${this.fault ? html`<p class="note" role="alert">${this.fault}</p>` : nothing}
      ${this.report ? this.#findings() : nothing}`;
  }

  #findings() {
    const { findings } = this.report;
    return html`<h2>${summary(this.report)}</h2>
      ${findings.slice(0, SHOWN).map((one) => html`<div class="box">
        <strong>${one.level} in line ${one.line}</strong> <span class="faint">${one.rule}</span>
        <div>${one.message}</div>
        ${one.source ? html`<pre class="code" tabindex="0">${marked(one)}</pre>` : nothing}
        ${one.hint ? html`<div class="faint">${one.hint}</div>` : nothing}</div>`)}
      ${findings.length > SHOWN ? html`<p class="faint">and ${(findings.length - SHOWN).toLocaleString("en")} more</p>` : nothing}`;
  }
}

const counted = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;

function summary({ findings, objects }) {
  const errors = findings.filter((one) => one.level === "error").length;
  return `${counted(objects, "object")}: ${counted(errors, "error")}, ${counted(findings.length - errors, "warning")}`;
}

// The line of a finding with a mark below the characters that it is about.
function marked({ source, column, length }) {
  const cut = source.length - source.trimStart().length;
  return `${source.trimStart()}\n${" ".repeat(Math.max(column - 1 - cut, 0))}${"^".repeat(Math.max(Math.min(length, source.length), 1))}`;
}
