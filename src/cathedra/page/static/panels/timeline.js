// The timeline of the last hour: allocations, evictions and failures, and the map as it was.

import { html, nothing, svg } from "../vendor/lit-html.js";
import { asOf } from "../model.js";

const HOUR = 3600;
const COLOURS = { allocated: "#0072b2", freed: "#009e73", evicted: "#d55e00", failed: "#d55e00", changed: "#cc79a7" };
const HEIGHTS = { allocated: 9, freed: 9, evicted: 20, failed: 16, changed: 6 };
const LISTED = 4;

export class Timeline {
  #events = null;

  constructor(app) {
    this.app = app;
    this.changes = [];
    this.began = 0;
    this.scrubbed = 0; // Milliseconds of the moment that is shown; 0: now
  }

  // `began` is the time from which on changes are recorded; events are known from before.
  restart(history, began) {
    this.changes = [...history];
    this.began = began;
    this.scrubbed = 0;
  }

  record(change) {
    this.changes.push(change);
    const oldest = change.now - HOUR;
    // Removed rarely: shifting a long list with every change would cost more than the change.
    if (this.changes[0].now < oldest - 300) this.changes = this.changes.filter((one) => one.now >= oldest);
  }

  get events() {
    if (this.#events?.of === this.changes && this.#events.length === this.changes.length) return this.#events.list;
    const list = this.#listed();
    this.#events = { of: this.changes, length: this.changes.length, list };
    return list;
  }

  #listed() {
    return this.changes.flatMap((one) => (one.events ?? []).map((event) => ({ ...event, now: one.now })));
  }

  scrub(seconds) {
    const end = this.app.readAt / 1000;
    if (!this.changes.length || seconds >= end - 1) {
      this.scrubbed = 0;
      this.app.showModel(this.app.present);
      return;
    }
    const moment = Math.max(seconds, this.began);
    this.scrubbed = moment * 1000;
    this.app.showModel(asOf(this.app.present, this.changes, moment));
  }

  render() {
    if (!this.app.connection.live) return nothing;
    const end = this.app.readAt / 1000;
    const begin = end - HOUR;
    const shown = this.scrubbed ? this.scrubbed / 1000 : end;
    const events = this.events;
    const recent = events.filter((one) => one.now <= shown).slice(-LISTED).reverse();
    return html`<section class="time" aria-label="The last hour">
      <label for="moment">${this.scrubbed ? `${new Date(this.scrubbed).toLocaleTimeString("en-GB")}${shown <= this.began + 1 ? " (recorded from here on)" : ""}` : "now"}</label>
      <div>
        <svg viewBox="0 0 3600 26" preserveAspectRatio="none" role="img" aria-label=${`${events.length} events in the last hour`}>
          ${marks(events, begin)}
        </svg>
        <input id="moment" type="range" min=${Math.floor(begin)} max=${Math.ceil(end)} step="1" .value=${String(Math.ceil(shown))} @input=${(event) => this.scrub(Number(event.target.value))}>
      </div>
      <ol class="list events" aria-label="Latest events">${recent.map((one) => html`<li><span class="faint">${new Date(one.now * 1000).toLocaleTimeString("en-GB")}</span> <span title=${one.text}>${one.text}</span></li>`)}</ol>
      ${this.scrubbed ? html`<button @click=${() => this.scrub(Infinity)}>Back to now</button>` : nothing}
    </section>`;
  }
}

// One mark for each five seconds and kind: a busy hour has thousands of events.
function marks(events, begin) {
  const found = new Map();
  for (const one of events) {
    const x = Math.floor((one.now - begin) / 5) * 5;
    if (x >= 0) found.set(`${x} ${one.kind}`, (found.get(`${x} ${one.kind}`) ?? 0) + 1);
  }
  return [...found].map(([key, number]) => {
    const [x, kind] = key.split(" ");
    const height = Math.min((HEIGHTS[kind] ?? 6) + number, 26);
    return svg`<rect x=${x} y=${26 - height} width="8" height=${height} fill=${COLOURS[kind] ?? COLOURS.changed}></rect>`;
  });
}
