// Panel «Selected»: a device with its holders and neighbours, or a subject with its explanation.

import { html, nothing } from "../vendor/lit-html.js";
import { cellKeyOf, keyOf, marksOf, pairs, reasonOf, subjectKey } from "../model.js";
import { explanation, nearestDevices } from "./explanation.js";

const SHOWN = 40;

export class Selection {
  #asked = 0;

  constructor(app) {
    this.app = app;
    this.clearState();
  }

  clearState() {
    this.device = "";
    this.subject = null;
    this.words = [];
    this.title = "";
    this.moment = 0;
    this.answers = [];
    this.fault = "";
    this.busy = false;
  }

  clear() {
    this.#asked++;
    this.clearState();
    this.app.view.selected = "";
    this.app.light(new Map());
    this.app.update();
  }

  // The model has changed; a device may have gone.
  refresh() {
    if (this.device && !this.app.model.devices.has(this.device)) this.clear();
  }

  // Another moment is shown: what was explained is explained as it was then.
  renew() {
    if (this.title) this.#explain(this.title, this.words, this.subject, false);
  }

  showDevice(key, reveal = false) {
    const { app } = this;
    const device = app.model.devices.get(key);
    if (!device) return;
    this.#asked++;
    this.clearState();
    this.device = key;
    app.view.selected = cellKeyOf(device);
    if (reveal) app.view.reveal(app.view.selected, 70);
    app.light(new Map());
    app.say(`${device.device}: ${reasonOf(device)}`);
    app.open("selection");
  }

  showSubject(one) {
    const words = one.kind === "podgroup" ? this.#podsOf(one).map((pod) => [`pod/${pod.name}`, pod.namespace]) : [[`${one.kind}/${one.name}`, one.namespace]];
    this.#explain(`${one.kind} ${one.namespace}/${one.name}`, words, one);
  }

  // Explains a subject as reports name it: «pod namespace/name».
  explain(text) {
    const [kind, where] = text.split(" ");
    const [namespace, name] = where.split("/");
    const one = this.app.model.subjects.get(subjectKey({ kind, namespace, name }));
    this.#explain(text, [[`${kind}/${name}`, namespace]], one ?? { kind, namespace, name });
  }

  // Pods of a group; those with equal reasons are explained once each, up to a few.
  #podsOf(group) {
    return [...this.app.model.subjects.values()]
      .filter((one) => one.kind === "pod" && one.namespace === group.namespace && one.owner === `podgroup/${group.name}`)
      .slice(0, 4);
  }

  async #explain(title, words, subject, opening = true) {
    const asked = ++this.#asked;
    const { app } = this;
    this.clearState();
    Object.assign(this, { title, words, subject, busy: true, moment: app.timeline.scrubbed });
    app.view.selected = "";
    app.light(this.#held(subject));
    if (opening) app.open("selection");
    try {
      if (!words.length) throw new Error("no pod of this group exists");
      const answers = await Promise.all(words.map(([word, namespace]) => app.ask("explain", { subject: word, namespace })));
      if (asked !== this.#asked) return;
      this.answers = answers;
      if (!app.view.lit.size) {
        const lit = await nearestDevices(app, answers);
        if (asked === this.#asked) app.light(lit);
      }
    } catch (error) {
      if (asked !== this.#asked) return;
      this.fault = error.message;
    }
    this.busy = false;
    app.say(this.fault || this.answers.map((one) => one.summary).join("; "));
    app.update();
  }

  // The devices that a subject has.
  #held(subject) {
    const { model } = this.app;
    const claims = (one) => {
      if (one.kind === "claim") return [`${one.namespace}/${one.name}`];
      if (one.kind === "pod") return (one.claims ?? []).map((name) => `${one.namespace}/${name}`);
      const mine = `${one.kind}/${one.name}`;
      const members = [...model.subjects.values()].filter((each) => each.kind === "pod" && each.namespace === one.namespace && (each.owner === mine || each.owner.startsWith(`replicaset/${one.name}-`)));
      return members.flatMap(claims);
    };
    return new Map(claims(subject).flatMap((claim) => model.heldBy(claim)).map((one) => [keyOf(one), "match"]));
  }

  render() {
    if (this.device) return this.#deviceBody(this.app.model.devices.get(this.device));
    if (this.title) return this.#subjectBody();
    return html`<p class="faint">Select a device on the map, or a claim, pod or workload in «Find».</p>`;
  }

  #subjectBody() {
    const { subject } = this;
    const claim = subject?.kind === "claim";
    return html`
      <h2>${this.title}</h2>
      ${this.moment ? html`<p class="faint">as it was at ${new Date(this.moment).toLocaleTimeString("en-GB")}</p>` : nothing}
      ${this.busy ? html`<p class="faint" role="status">being explained …</p>` : nothing}
      ${this.fault ? html`<p class="note" role="alert">${this.fault}</p>` : nothing}
      ${this.answers.map((answer) => explanation(answer, this.app))}
      ${!this.busy && (claim || subject?.kind === "pod") ? html`<p><button @click=${() => this.app.whatIf.free(subject)}>What if it were ${claim ? "freed" : "deleted"}?</button>
        <button @click=${() => this.app.whatIf.room(subject)}>How many more like it fit?</button></p>` : nothing}
      ${subject?.replicas != null ? html`<p><button @click=${() => this.app.whatIf.scale(subject)}>What if it had more replicas?</button></p>` : nothing}`;
  }

  #deviceBody(device) {
    if (!device) return nothing;
    const { model } = this.app;
    const neighbours = model.neighbours(device);
    const node = model.nodes.get(device.node);
    return html`
      <h2>${device.device}</h2>
      <p><strong>${reasonOf(device)}</strong>${marksOf(device)}</p>
      <dl class="two">
        <dt>node</dt><dd>${device.node || "several nodes"}${node && !node.ready ? html` <span class="bad">not ready</span>` : nothing}${node?.unschedulable ? html` <span class="bad">cordoned</span>` : nothing}</dd>
        <dt>driver</dt><dd>${device.driver}</dd>
        <dt>pool</dt><dd>${device.pool}</dd>
        <dt>classes</dt><dd>${device.classes.join(", ") || "none"}</dd>
        ${device.size < 1 ? html`<dt>share</dt><dd>${Math.round(device.size * 1000) / 10} % of the whole device</dd>` : nothing}
        ${device.health ? html`<dt>health</dt><dd>${device.health}</dd>` : nothing}
        ${device.taints.length ? html`<dt>taints</dt><dd>${device.taints.join(", ")}</dd>` : nothing}
        ${device.bindingConditions.length ? html`<dt>waits for</dt><dd>${device.bindingConditions.join(", ")}</dd>` : nothing}
        ${node?.taints.length ? html`<dt>node's taints</dt><dd>${node.taints.join(", ")}</dd>` : nothing}
      </dl>
      ${device.holders.length ? html`<h3>Held by</h3>${device.holders.map((one) => this.#holder(one))}` : nothing}
      ${device.blockedBy.length ? html`<h3>Blocked by</h3><ul class="list">${device.blockedBy.map((claim) => html`<li><button class="link" @click=${() => this.explain(`claim ${claim}`)}>${claim}</button></li>`)}</ul>` : nothing}
      ${values("Attributes", device.attributes)}${values("Capacity", device.capacity)}${values("Left", device.left)}${values("Counters", device.counters)}
      ${this.#partitions(device)}
      <h3>Devices of equal form (${neighbours.length.toLocaleString("en")})</h3>
      <p><button @click=${() => this.app.light(new Map(neighbours.map((one) => [keyOf(one), "match"])))}>Highlight them</button></p>
      <ul class="list">${neighbours.filter((one) => one !== device).slice(0, SHOWN).map((one) => html`<li><button class="link" @click=${() => this.showDevice(keyOf(one), true)}>${one.node || one.pool} ${one.device}</button> <span class="faint">${one.state}</span></li>`)}</ul>
      ${neighbours.length > SHOWN ? html`<p class="faint">and more</p>` : nothing}
      <h3>What if</h3>
      <p>${device.taints.length ? html`<button @click=${() => this.app.whatIf.untaint(device)}>its taints were dropped?</button> ` : html`<button @click=${() => this.app.whatIf.taint(device)}>it broke?</button> `}
      ${device.node ? html`<button @click=${() => this.app.whatIf.drain(device.node)}>${device.node} were drained?</button>` : nothing}</p>`;
  }

  // The devices of the same physical device: on the map only a pointer reaches partitions.
  #partitions(device) {
    const { model } = this.app;
    const { devices } = model.cells.get(cellKeyOf(device));
    if (devices.length === 1) return nothing;
    return html`<h3>Partitions of the same device (${devices.length.toLocaleString("en")})</h3>
      <ul class="list">${devices.slice(0, SHOWN).map((one) => html`<li>${one === device ? html`<strong>${one.device}</strong>` : html`<button class="link" @click=${() => this.showDevice(keyOf(one))}>${one.device}</button>`} <span class="faint">${one.state}</span></li>`)}</ul>
      ${devices.length > SHOWN ? html`<p class="faint">and more</p>` : nothing}`;
  }

  #holder(one) {
    return html`<div class="box"><button class="link" @click=${() => this.explain(`claim ${one.claim}`)}>claim ${one.claim}</button>${one.adminAccess ? " (admin access)" : ""}
      <dl class="two">
        ${one.since ? html`<dt>since</dt><dd>${one.since}</dd>` : nothing}
        <dt>request</dt><dd>${one.request}</dd>
        ${one.pods.length ? html`<dt>pods</dt><dd>${one.pods.map((pod) => html`<button class="link" @click=${() => this.explain(`pod ${one.claim.split("/")[0]}/${pod}`)}>${pod}</button> `)}</dd>` : nothing}
        ${Object.keys(one.consumed).length ? html`<dt>takes</dt><dd>${pairs(one.consumed)}</dd>` : nothing}
        ${one.conditions.length ? html`<dt>conditions</dt><dd>${one.conditions.join(", ")}</dd>` : nothing}
      </dl></div>`;
  }
}

function values(title, found) {
  const entries = Object.entries(found);
  if (!entries.length) return nothing;
  return html`<h3>${title}</h3><dl class="two">${entries.map(([name, value]) => html`<dt>${breakable(name)}</dt><dd>${value}</dd>`)}</dl>`;
}

// A qualified name may be broken behind its domain.
const breakable = (name) => name.split("/").map((part, i) => (i ? html`/<wbr>${part}` : part));
