// The timeline of the last hour: allocations, evictions and failures, and the map as it was.

import { html, nothing, svg } from "../vendor/lit-html.js";
import { asOf } from "../model.js";

const HOUR = 3600;
const STEP = 5; // Seconds of one mark
const DELAY = 250; // Milliseconds for which the slider rests before answers are renewed
const MOST_DEVICES = 200_000; // In all changes that are kept; the server keeps no more either
const COLOURS = { allocated: "#0072b2", freed: "#009e73", evicted: "#d55e00", failed: "#d55e00", changed: "#cc79a7" };
const HEIGHTS = { allocated: 9, freed: 9, evicted: 20, failed: 16, changed: 6 };
const LISTED = 4;

export class Timeline {
  #timer = 0;

  constructor(app) {
    this.app = app;
    this.restart([], 0);
  }

  // `began` is the time from which on changes are recorded; events are known from before.
  restart(history, began) {
    Object.assign(this, { changes: [], events: [], size: 0, began });
    this.marks = new Map(); // Seconds, in steps, and kind → events
    this.scrubbed = 0; // Milliseconds of the moment that is shown; 0: now
    for (const change of history) this.record(change);
  }

  record(change) {
    this.changes.push(change);
    this.size += sizeOf(change);
    for (const event of change.events ?? []) {
      this.events.push({ ...event, now: change.now });
      const mark = `${Math.floor(change.now / STEP) * STEP} ${event.kind}`;
      this.marks.set(mark, (this.marks.get(mark) ?? 0) + 1);
    }
    const oldest = change.now - HOUR;
    // Removed rarely: shifting a long list with every change would cost more than the change.
    if (this.size > 1.25 * MOST_DEVICES || this.changes[0].now < oldest - 300) this.#forget(oldest);
  }

  #forget(oldest) {
    let gone = this.changes.findIndex((one) => one.now >= oldest);
    for (let i = 0; i < gone; i++) this.size -= sizeOf(this.changes[i]);
    for (; this.size > MOST_DEVICES; gone++) this.size -= sizeOf(this.changes[gone]);
    if (gone) this.began = Math.max(this.began, this.changes[gone - 1].now);
    this.changes = this.changes.slice(gone);
    this.events = this.events.filter((one) => one.now >= oldest);
    for (const mark of this.marks.keys()) if (parseFloat(mark) < oldest - STEP) this.marks.delete(mark);
  }

  scrub(seconds) {
    const end = this.app.readAt / 1000;
    this.scrubbed = !this.changes.length || seconds >= end - 1 ? 0 : Math.max(seconds, this.began) * 1000;
    this.app.showModel(this.model());
    // The answers follow when the slider rests: each moment has its own state, which the engine puts together.
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.app.momentChanged(), DELAY);
  }

  // The model of the moment that is shown.
  model() {
    return this.scrubbed ? asOf(this.app.present, this.changes, this.scrubbed / 1000) : this.app.present;
  }

  render() {
    if (!this.app.connection.live) return nothing;
    const end = this.app.readAt / 1000;
    const begin = end - HOUR;
    const shown = this.scrubbed ? this.scrubbed / 1000 : end;
    const { events } = this;
    const recent = this.scrubbed ? events.filter((one) => one.now <= shown).slice(-LISTED).reverse() : events.slice(-LISTED).reverse();
    return html`<section class="time" aria-label="The last hour">
      <label for="moment">${this.scrubbed ? `${new Date(this.scrubbed).toLocaleTimeString("en-GB")}${shown <= this.began + 1 ? " (recorded from here on)" : ""}` : "now"}</label>
      <div>
        <svg viewBox="0 0 3600 26" preserveAspectRatio="none" role="img" aria-label=${`${events.length} events in the last hour`}>
          ${paths(this.marks, begin)}
        </svg>
        <input id="moment" type="range" min=${Math.floor(begin)} max=${Math.ceil(end)} step="1" .value=${String(Math.ceil(shown))} @input=${(event) => this.scrub(Number(event.target.value))}>
      </div>
      <ol class="list events" aria-label="Latest events">${recent.map((one) => html`<li><span class="faint">${new Date(one.now * 1000).toLocaleTimeString("en-GB")}</span> <span title=${one.text}>${one.text}</span></li>`)}</ol>
      ${this.scrubbed ? html`<button @click=${() => this.scrub(Infinity)}>Back to now</button>` : nothing}
    </section>`;
  }
}

const sizeOf = (change) => (change.devices?.length ?? 0) + (change.before?.length ?? 0) + (change.events?.length ?? 0) + 1;

// One mark for each five seconds and kind, and one path for each kind: a busy hour has thousands of events.
function paths(marks, begin) {
  const found = {};
  for (const [key, number] of marks) {
    const [seconds, kind] = key.split(" ");
    const x = Number(seconds) - Math.floor(begin / STEP) * STEP;
    const height = Math.min((HEIGHTS[kind] ?? 6) + number, 26);
    if (x >= 0) found[kind] = `${found[kind] ?? ""}M${x} ${26 - height}h8v${height}h-8z`;
  }
  return Object.entries(found).map(([kind, path]) => svg`<path d=${path} fill=${COLOURS[kind] ?? COLOURS.changed}></path>`);
}
