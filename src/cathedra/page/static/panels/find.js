// Panel «Find»: what waits and why, and a search through devices, claims, pods, workloads and pod groups.

import { html, nothing } from "../vendor/lit-html.js";
import { keyOf, reasonOf } from "../model.js";

const SHOWN = 60;
const SEARCHED = Symbol("text in which is searched");

const PAUSE = 5000; // Milliseconds between two explanations of all that waits

export class Finder {
  #timer = 0;
  #asked = 0;
  #found = { devices: [] };

  constructor(app) {
    this.app = app;
    this.text = "";
    this.overview = null;
    this.fault = "";
    this.outdated = false;
  }

  begin() {
    this.refresh();
  }

  // The cluster has changed: what waits is explained again, after a pause and only while this panel is shown.
  changed() {
    this.#timer ||= setTimeout(() => {
      this.#timer = 0;
      if (this.app.panel === "find" && !document.hidden) this.refresh();
      else this.outdated = true;
    }, PAUSE);
  }

  async refresh() {
    this.outdated = false;
    try {
      const asked = ++this.#asked;
      const overview = await this.app.ask("explain", {});
      if (asked !== this.#asked) return;
      this.overview = overview;
      this.fault = "";
    } catch (error) {
      this.overview = null;
      this.fault = error.message;
    }
    this.app.update();
  }

  render() {
    if (this.outdated) queueMicrotask(() => this.outdated && this.refresh());
    return html`
      <label for="search" class="sr">Search devices, claims, pods and workloads</label>
      <input id="search" type="search" placeholder="device, claim, pod, workload, node …" .value=${this.text} @input=${(event) => this.#search(event.target.value)}>
      ${this.text ? this.#results() : this.#waiting()}`;
  }

  #search(text) {
    this.text = text.trim().toLowerCase();
    this.app.light(this.text ? new Map(this.#devices().map((one) => [keyOf(one), "match"])) : new Map());
    this.app.update();
  }

  // Found once for each text and state of the model: lighting and listing need the same.
  #devices() {
    const { model } = this.app;
    const known = this.#found;
    if (known.text === this.text && known.model === model && known.version === model.version) return known.devices;
    const words = this.text.split(/\s+/);
    const devices = [...model.devices.values()].filter((one) => {
      const text = this.#textOf(one);
      return words.every((word) => text.includes(word));
    });
    this.#found = { text: this.text, model, version: model.version, devices };
    return devices;
  }

  // Kept with the device: one that changes is another object.
  #textOf(one) {
    return (one[SEARCHED] ??= `${keyOf(one)} ${one.node} ${one.state} ${one.holders.map((h) => `${h.claim} ${h.pods.join(" ")}`).join(" ")}`.toLowerCase());
  }

  #subjects() {
    const words = this.text.split(/\s+/);
    return [...this.app.model.subjects.values()].filter((one) => {
      const text = `${one.kind} ${one.namespace}/${one.name} ${one.state} ${one.owner}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }

  #results() {
    const subjects = this.#subjects();
    const devices = this.#devices();
    return html`
      ${subjects.length ? html`<h2>Claims, pods and workloads (${subjects.length.toLocaleString("en")})</h2>${this.#subjectList(subjects)}` : nothing}
      ${devices.length ? html`<h2>Devices (${devices.length.toLocaleString("en")})</h2>
        <ul class="list">${devices.slice(0, SHOWN).map((one) => html`<li><button class="link" @click=${() => this.app.selection.showDevice(keyOf(one), true)}>${one.node || one.pool} ${one.device}</button> <span class="faint">${reasonOf(one)}</span></li>`)}</ul>
        ${more(devices.length)}` : nothing}
      ${subjects.length || devices.length ? nothing : html`<p>Nothing has this text.</p>`}`;
  }

  #subjectList(subjects) {
    return html`<ul class="list">${subjects.slice(0, SHOWN).map((one) => html`<li>
        <button class="link" @click=${() => this.app.selection.showSubject(one)}>${one.kind} ${one.namespace}/${one.name}</button>
        <span class=${one.waits ? "bad" : "faint"}>${one.state}</span></li>`)}</ul>${more(subjects.length)}`;
  }

  #waiting() {
    const { model } = this.app;
    const all = [...model.subjects.values()];
    const kinds = Object.groupBy ? Object.groupBy(all, (one) => one.kind) : grouped(all);
    return html`
      ${this.#waits(all)}
      ${model.pools.map((text) => html`<p class="note">${text}</p>`)}
      ${Object.entries(kinds).map(([kind, list]) => html`<h3>${plural(kind)} (${list.length.toLocaleString("en")})</h3>${this.#subjectList(list)}`)}`;
  }

  #waits(all) {
    const then = this.app.timeline.scrubbed;
    const waiting = all.filter((one) => one.waits);
    return html`<h2>${then ? "What waited then" : "What waits"}</h2>
      ${this.fault ? html`<p class="note">${this.fault}</p>${then ? this.#subjectList(waiting) : nothing}` : nothing}
      ${this.overview ? this.#overview() : this.fault ? nothing : html`<p class="faint">being explained …</p>`}
      <p><button @click=${() => this.refresh()}>Explain again</button></p>`;
  }

  #overview() {
    const { groups } = this.overview;
    if (!groups?.length) return html`<p class="good">nothing ${this.app.timeline.scrubbed ? "waited" : "waits"}</p>`;
    return groups.map((group) => html`<div class="box">
      <strong>${group.cause.text}</strong>
      ${group.cause.nodes != null ? html`<span class="faint">on ${group.cause.nodes} ${group.cause.nodes === 1 ? "node" : "nodes"}</span>` : nothing}
      <ul class="list">${group.subjects.slice(0, 8).map((text) => html`<li><button class="link" @click=${() => this.app.selection.explain(text)}>${text}</button></li>`)}</ul>${more(group.subjects.length, 8)}</div>`);
  }
}

const plural = (kind) => ({ claim: "Claims", pod: "Pods", podgroup: "Pod groups" })[kind] ?? `${kind[0].toUpperCase()}${kind.slice(1)}s`;
const more = (number, shown = SHOWN) => (number > shown ? html`<p class="faint">and ${(number - shown).toLocaleString("en")} more</p>` : nothing);

function grouped(list) {
  const found = {};
  for (const one of list) (found[one.kind] ??= []).push(one);
  return found;
}
