// The page: its state, what the engine answers, and the frame around the map. Panels are in modules of their own.

import { html, nothing, render, svg } from "./vendor/lit-html.js";
import { MapView } from "./canvas.js";
import { STATES } from "./colours.js";
import { layOut } from "./layout.js";
import { FIRST } from "./engine.js";
import { ClusterModel, describe, expanded, keyOf, marksOf, reasonOf, wholeOf } from "./model.js";
import { CelBench } from "./panels/cel.js";
import { Finder } from "./panels/find.js";
import { Linter } from "./panels/lint.js";
import { Selection } from "./panels/selection.js";
import { Timeline } from "./panels/timeline.js";
import { WhatIf } from "./panels/whatif.js";

const PANELS = [
  ["find", "Find"],
  ["selection", "Selected"],
  ["whatif", "What if"],
  ["cel", "CEL"],
  ["lint", "Lint"],
];

// `first` is the answer to the first question, which may be on its way before this module is.
export async function start(root, engine, first = engine.ask(...FIRST)) {
  const app = new App(root, engine);
  try {
    await app.begin(first);
  } catch (error) {
    root.replaceChildren();
    render(html`<div class="fault" role="alert"><h1>The cluster cannot be shown</h1><p>${error.message}</p></div>`, root);
    throw error;
  }
  return app;
}

export class App {
  #scheduled = false;
  #frame = 0;

  constructor(root, engine) {
    this.root = root;
    this.engine = engine;
    this.grouping = "";
    this.panel = "find";
    this.said = "";
    this.hypothesis = null; // The model of a simulation that added nodes, while it is shown
    this.connection = { live: false, lost: 0, fault: "" };
    this.finder = new Finder(this);
    this.selection = new Selection(this);
    this.whatIf = new WhatIf(this);
    this.cel = new CelBench(this);
    this.linter = new Linter(this);
    this.timeline = new Timeline(this);
  }

  async begin(first) {
    const found = expanded(await first);
    this.leftOut = found.leftOut;
    this.present = new ClusterModel(found);
    this.model = this.present;
    this.readAt = Date.now();
    this.grouping = preferred(this.model);
    this.root.replaceChildren();
    render(this.#page(), this.root);
    this.view = new MapView(this.root.querySelector("canvas"), this);
    this.lay();
    this.finder.begin();
    this.cel.begin();
    performance.mark("map-drawn");
    if (this.engine.follow) this.engine.follow({ since: () => this.present.now, change: (message) => this.#changed(message), lost: (error) => this.#lost(error) });
    // The age of a picture that is no longer followed.
    setInterval(() => this.connection.lost && this.update(), 1000);
  }

  lay() {
    this.view.show(layOut(this.model, this.grouping, this.view.aspect), this.model.nodes);
  }

  // Renders the frame once, however many changes ask for it in a turn.
  update() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      render(this.#page(), this.root);
    });
  }

  // Renders the frame with the next picture of the browser. Changes come faster, and a hidden page has no pictures.
  #updateWithFrame() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.update();
    });
  }

  // Asks the engine about the moment that is shown.
  ask(question, fields = {}) {
    const { scrubbed } = this.timeline;
    return this.engine.ask(question, scrubbed ? { ...fields, at: scrubbed / 1000 } : fields);
  }

  // Another moment is shown: answers about the one before are renewed.
  momentChanged() {
    this.finder.refresh();
    this.selection.renew();
    this.cel.renew();
    this.whatIf.forget();
  }

  // --- changes

  #changed(message) {
    this.connection = { live: message.type !== "static", lost: 0, fault: "" };
    if (message.type === "start") {
      if (message.map) this.present = new ClusterModel(expanded(message.map));
      this.timeline.restart(message.history, message.began);
      for (const change of message.changes) this.#apply(change);
      this.#shown(true);
    }
    if (message.type === "change") this.#shown(this.#apply(message));
    if (message.readAt) this.readAt = message.readAt * 1000;
    if (message.lostSince) this.connection = { live: true, lost: message.lostSince * 1000, fault: "the cluster does not answer" };
    this.#updateWithFrame();
  }

  #apply(change) {
    this.timeline.record(change);
    this.readAt = Math.max(this.readAt, change.now * 1000);
    return this.present.apply(change);
  }

  // The present has changed; what is shown is an earlier time while the timeline is scrubbed, or what would be.
  #shown(moved) {
    if (this.timeline.scrubbed || this.hypothesis) return;
    this.model = this.present;
    if (moved) this.lay();
    else this.view.redraw();
    this.selection.refresh();
    this.finder.changed();
  }

  // Shows another model than the present, until the next call; `hypothetical` is one that a simulation made.
  showModel(model, hypothetical = false) {
    this.hypothesis = hypothetical ? model : null;
    this.model = model;
    this.lay();
    this.selection.refresh();
    this.update();
  }

  #lost(error) {
    this.connection = { ...this.connection, lost: this.connection.lost || Date.now(), fault: error?.message ?? "the connection is lost" };
    this.update();
  }

  // --- the map's listener

  hover(place, x, y) {
    // By code and not by a new rendering of the page: the pointer moves a hundred times per second.
    const tip = this.root.querySelector(".tip");
    tip.hidden = !place;
    if (!place) return;
    tip.textContent = textOf(place);
    const { clientWidth, clientHeight } = tip.parentElement;
    tip.style.left = `${Math.max(4, Math.min(x + 14, clientWidth - tip.offsetWidth - 4))}px`;
    const below = y + 18;
    tip.style.top = `${below + tip.offsetHeight > clientHeight ? Math.max(4, y - tip.offsetHeight - 10) : below}px`;
  }

  select(cell, device) {
    if (cell) this.selection.showDevice(keyOf(device ?? wholeOf(cell)));
    else this.selection.clear();
  }

  say(text) {
    this.said = text;
    this.update();
  }

  light(lit) {
    this.view.light(lit);
    this.update();
  }

  open(panel) {
    this.panel = panel;
    this.update();
  }

  // --- the frame

  #page() {
    const { model } = this;
    const counts = model.counts();
    return html`
      <header>
        <h1>Device map</h1>
        <span class="faint">${model.source}</span>
        ${this.#status()}
        <span class="spacer"></span>
        <ul class="chips" aria-label="Devices by state">
          ${Object.entries(STATES).map(([state, { colour, text }]) => counts[state]
            ? html`<li><svg class="swatch" aria-hidden="true" viewBox="0 0 13 13"><rect width="13" height="13" fill=${colour}></rect>${swatchLines(state)}</svg>${counts[state].toLocaleString("en")} ${text}</li>`
            : nothing)}
        </ul>
        <button @click=${() => this.#changeTheme()} aria-label="Change between light and dark">◐</button>
      </header>
      <main class="map" aria-label="Map of the devices">
        <div class="tools">
          <label>Group by
            <select @change=${(event) => this.#group(event.target.value)}>
              ${this.#groupings().map(([value, text]) => html`<option value=${value} ?selected=${value === this.grouping}>${text}</option>`)}
            </select>
          </label>
          <span role="group" aria-label="Zoom">
            <button @click=${() => this.view.zoom(1.5)} aria-label="Closer">+</button>
            <button @click=${() => this.view.zoom(1 / 1.5)} aria-label="Farther">−</button>
            <button @click=${() => this.view.fit()}>All</button>
          </span>
          ${this.view?.lit.size ? html`<button @click=${() => this.light(new Map())}>Clear ${this.view.lit.size.toLocaleString("en")} highlights</button>` : nothing}
        </div>
        <div class="stage">
          <canvas tabindex="0" role="application" aria-label="Devices as a map; arrow keys move, Enter selects, plus, minus and 0 zoom" aria-describedby="said"></canvas>
          <div class="tip" aria-hidden="true" hidden></div>
        </div>
        <div id="said" class="sr" aria-live="polite">${this.said}</div>
      </main>
      <aside aria-label="Panels">
        <div role="tablist" aria-label="Panels" @keydown=${(event) => this.#tabKey(event)}>
          ${PANELS.map(([name, text]) => html`<button role="tab" id=${`tab-${name}`} aria-controls="panel" aria-selected=${name === this.panel} tabindex=${name === this.panel ? 0 : -1} @click=${() => this.open(name)}>${text}</button>`)}
        </div>
        <div role="tabpanel" id="panel" tabindex="0" aria-labelledby=${`tab-${this.panel}`}>${this.#panelBody()}</div>
      </aside>
      ${this.timeline.render()}`;
  }

  #panelBody() {
    const body = { find: this.finder, selection: this.selection, whatif: this.whatIf, cel: this.cel, lint: this.linter }[this.panel];
    return html`${[...this.leftOut, ...this.model.notes.map((note) => note.text)].slice(0, this.panel === "find" ? 20 : 0).map((text) => html`<p class="note">${text}</p>`)}${body.render()}`;
  }

  #status() {
    const { connection } = this;
    const at = this.timeline.scrubbed;
    if (this.hypothesis) return html`<span class="status still" role="status">what would be</span>`;
    if (at) return html`<span class="status still" role="status">as of ${clock(at)}</span>`;
    if (connection.lost) {
      const age = Math.max(0, Math.round((Date.now() - connection.lost) / 1000));
      return html`<span class="status lost" role="status">${connection.fault} since ${clock(connection.lost)}: the picture is ${ageText(age)} old</span>`;
    }
    if (connection.live) return html`<span class="status" role="status">live</span>`;
    return html`<span class="status still" role="status">a dump, it does not change</span>`;
  }

  #groupings() {
    const labels = this.model.labels();
    const chosen = this.grouping && !["driver", "pool", "class", ...labels].includes(this.grouping) ? [[this.grouping, this.grouping]] : [];
    return [["", "nothing"], ["driver", "driver"], ["pool", "pool"], ["class", "class"], ...labels.map((name) => [name, `node label ${name}`]), ...chosen];
  }

  #group(value) {
    this.grouping = value;
    this.lay();
    this.view.fit();
    this.update();
  }

  #tabKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = PANELS.findIndex(([name]) => name === this.panel);
    this.open(PANELS[(at + step + PANELS.length) % PANELS.length][0]);
    queueMicrotask(() => this.root.querySelector(`#tab-${this.panel}`).focus());
  }

  #changeTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    this.view.redraw();
  }
}

// The label of nodes by which a cluster is usually divided; "" if it has none.
function preferred(model) {
  return model.labels().find((name) => /zone|rack/.test(name)) ?? "";
}

function textOf({ cell, device }) {
  const whole = wholeOf(cell);
  if (!device || device === whole) return describe(cell);
  return `${device.device} (${Math.round(device.size * 100)} % of ${whole.device}): ${reasonOf(device)}${marksOf(device)}`;
}

function swatchLines(state) {
  if (state === "blocked") return svg`<path d="M1 12L12 1" stroke="#000000" stroke-opacity="0.6"></path>`;
  if (state === "tainted") return svg`<path d="M1 12L12 1M1 1L12 12" stroke="#000000" stroke-opacity="0.6"></path>`;
  if (state === "unusable") return svg`<path d="M1 6.5L12 6.5" stroke="#000000" stroke-opacity="0.6"></path>`;
  return nothing;
}

export const clock = (milliseconds) => new Date(milliseconds).toLocaleTimeString("en-GB");

export function ageText(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}
