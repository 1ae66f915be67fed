// Panel «What if»: changes that are simulated on a copy, their difference on the map, and how many more fit.

import { html, nothing } from "../vendor/lit-html.js";
import { keyOf, withAdded } from "../model.js";

const COPIES = 200;
const EMPTY = { scale: "", replicas: 1, nodes: 1, profile: "", drain: "", force: true, taint: "", remove: "", manifest: "" };

export class WhatIf {
  #asked = 0;

  constructor(app) {
    this.app = app;
    this.form = { ...EMPTY };
    this.answer = null;
    this.rooms = null;
    this.fault = "";
    this.busy = "";
  }

  // --- entries from other panels

  scale(subject) {
    this.#prepare({ scale: `${subject.kind}/${subject.name}`, replicas: (subject.replicas ?? 0) + 1, namespace: subject.namespace });
  }

  drain(node) {
    this.#prepare({ drain: node });
    this.run();
  }

  taint(device) {
    this.#prepare({ taint: `${keyOf(device)}=broken:NoExecute` });
    this.run();
  }

  untaint(device) {
    this.#prepare({ taint: device.taints.map((one) => `${keyOf(device)}=${one}-`).join(" ") });
    this.run();
  }

  free(subject) {
    const { model } = this.app;
    const claim = `${subject.namespace}/${subject.name}`;
    // A claim is freed when its pods have gone; those that a workload creates again are part of the answer.
    const pods = subject.kind === "claim" ? [...new Set(model.heldBy(claim).flatMap((one) => one.holders.filter((each) => each.claim === claim).flatMap((each) => each.pods)))].map((name) => `pod/${name}`) : [];
    this.#prepare({ remove: [...pods, `${subject.kind}/${subject.name}`].join(" "), namespace: subject.namespace });
    this.run();
  }

  async room(subject) {
    this.#prepare({});
    await this.#measure(async () => [[`${subject.kind} ${subject.namespace}/${subject.name}`, await this.#more(await this.#manifestsLike(subject), subject.namespace)]]);
  }

  #prepare(fields) {
    this.form = { ...EMPTY, ...fields };
    this.answer = this.rooms = null;
    this.fault = "";
    this.app.open("whatif");
  }

  // --- questions

  async run(event) {
    event?.preventDefault();
    const { form } = this;
    const words = (text) => text.split(/[\s,]+/).filter(Boolean);
    const fields = {
      replicas: form.scale ? [`${form.scale}=${form.replicas}`] : [],
      addNodes: form.profile ? [`${form.nodes}=${form.profile}`] : [],
      drain: words(form.drain),
      force: form.force,
      taint: words(form.taint),
      delete: words(form.remove),
      files: form.manifest.trim() ? [{ name: "manifest", text: form.manifest }] : [],
      namespace: form.namespace || this.#namespace(),
      copies: 100,
    };
    const asked = this.#begin("simulated");
    try {
      const answer = await this.app.ask("simulate", fields);
      if (asked !== this.#asked) return;
      this.answer = answer;
      if (answer.added?.length) this.app.showModel(withAdded(this.app.timeline.model(), answer.added), true);
      this.app.light(difference(answer));
    } catch (error) {
      if (asked === this.#asked) this.fault = error.message;
    }
    this.#end(asked);
  }

  // How many more pods with one device of each class fit.
  classes() {
    const namespace = this.#namespace();
    return this.#measure(async (report) => {
      const found = [];
      for (const name of this.app.model.classes) {
        const body = { devices: { requests: [{ name: "device", exactly: { deviceClassName: name } }] } };
        found.push([`one ${name}`, await this.#more(podWith([body]), namespace)]);
        report(found);
      }
      return found;
    });
  }

  async #measure(measured) {
    const asked = this.#begin("counted");
    const report = (found) => {
      if (asked !== this.#asked) return;
      this.rooms = [...found];
      this.app.update();
    };
    try {
      report(await measured(report));
    } catch (error) {
      if (asked === this.#asked) this.fault = error.message;
    }
    this.#end(asked);
  }

  async #more(manifests, namespace) {
    const files = manifests.map((one, i) => ({ name: `${i}.json`, text: JSON.stringify(one) }));
    const found = await this.app.ask("simulate", { files, namespace, copies: COPIES });
    const placed = found.placed.filter((one) => one.pod.endsWith("/how-many-more")).length;
    const copies = found.copies[0];
    return { number: placed + (placed ? (copies?.more ?? 0) : 0), limited: Boolean(placed && copies?.limited), why: placed ? "" : (found.pending[0]?.why ?? found.failures[0] ?? "") };
  }

  // A pod that requests what a claim or pod requests.
  async #manifestsLike({ kind, namespace, name }) {
    const object = async (objectKind, objectName) => (await this.app.ask("object", { objectKind, name: objectName, namespace })).object;
    if (kind === "claim") return podWith([(await object("ResourceClaim", name)).spec]);
    const pod = await object("Pod", name);
    const claims = this.app.model.subjects.get(`pod/${namespace}/${name}`)?.claims ?? [];
    const specs = await Promise.all(claims.map(async (claim) => (await object("ResourceClaim", claim)).spec));
    const { nodeSelector, tolerations, affinity, containers } = pod.spec;
    const resources = containers.map((one) => ({ name: one.name, image: one.image, resources: { requests: one.resources?.requests } }));
    return podWith(specs, { nodeSelector, tolerations, affinity, containers: resources });
  }

  // Taken from the cluster: a dump may not have «default».
  #namespace() {
    return this.app.model.subjects.values().next().value?.namespace ?? "default";
  }

  #begin(word) {
    this.busy = word;
    this.fault = "";
    this.answer = this.rooms = null;
    this.#back();
    this.app.update();
    return ++this.#asked;
  }

  // Another moment is shown, of which nothing was simulated.
  forget() {
    if (this.answer || this.rooms) this.#begin("");
  }

  // Shows the cluster again, if nodes of a simulation are on the map.
  #back() {
    if (this.app.hypothesis) this.app.showModel(this.app.timeline.model());
  }

  #end(asked) {
    if (asked !== this.#asked) return;
    this.busy = "";
    this.app.say(this.fault || (this.answer ? summary(this.answer) : "counted"));
    this.app.update();
  }

  // --- view

  render() {
    const { form, app } = this;
    const { model } = app;
    const set = (name) => (event) => {
      form[name] = event.target.value;
      if (name === "scale") form.namespace = scalable.find((one) => `${one.kind}/${one.name}` === event.target.value)?.namespace;
      app.update();
    };
    const scalable = [...model.subjects.values()].filter((one) => one.replicas != null);
    return html`
      <form @submit=${(event) => this.run(event)} aria-label="Changes to simulate">
        <label class="row"><span>scale</span><select .value=${form.scale} @change=${set("scale")}>
          <option value="">nothing</option>${scalable.map((one) => html`<option value=${`${one.kind}/${one.name}`} ?selected=${form.scale === `${one.kind}/${one.name}`}>${one.kind} ${one.namespace}/${one.name} (${one.replicas})</option>`)}</select></label>
        ${form.scale ? html`<label class="row"><span>to replicas</span><input type="number" min="0" max="150000" .value=${String(form.replicas)} @input=${set("replicas")}></label>` : nothing}
        <label class="row"><span>add nodes like</span><input list="kinds" placeholder="a node or a profile, as h100-8" .value=${form.profile} @input=${set("profile")}></label>
        <datalist id="nodes">${[...model.nodes.keys()].slice(0, 200).map((name) => html`<option value=${name}></option>`)}</datalist>
        <datalist id="kinds">${[...model.profiles, ...[...model.nodes.keys()].slice(0, 100)].map((name) => html`<option value=${name}></option>`)}</datalist>
        ${form.profile ? html`<label class="row"><span>how many</span><input type="number" min="1" max="5000" .value=${String(form.nodes)} @input=${set("nodes")}></label>` : nothing}
        <label class="row"><span>drain nodes</span><input list="nodes" placeholder="node-1" .value=${form.drain} @input=${set("drain")}></label>
        ${form.drain ? html`<label><input type="checkbox" .checked=${form.force} @change=${(event) => { form.force = event.target.checked; }}> also pods that nothing creates again</label>` : nothing}
        <label class="row"><span>taint or untaint</span><input placeholder="node-1=key:NoSchedule[-]" .value=${form.taint} @input=${set("taint")}></label>
        <label class="row"><span>delete</span><input placeholder="pod/NAME claim/NAME" .value=${form.remove} @input=${set("remove")}></label>
        <details ?open=${form.manifest !== ""}><summary>apply manifests</summary><textarea aria-label="Manifests to apply" .value=${form.manifest} @input=${set("manifest")} placeholder="YAML or JSON"></textarea></details>
        <p><button class="main" ?disabled=${this.busy !== ""}>Simulate</button> <button type="button" ?disabled=${this.busy !== "" || !model.classes.length} @click=${() => this.classes()}>How many more fit?</button></p>
      </form>
      ${this.busy ? html`<p class="faint" role="status">being ${this.busy} …</p>` : nothing}
      ${this.fault ? html`<p class="note" role="alert">${this.fault}</p>` : nothing}
      ${this.rooms ? rooms(this.rooms) : nothing}
      ${app.hypothesis ? html`<p>Added nodes are on the map. <button type="button" @click=${() => this.#back()}>Back to the present</button></p>` : nothing}
      ${this.answer ? differenceTables(this.answer) : nothing}`;
  }
}

function podWith(specs, rest = {}) {
  const metadata = { name: "how-many-more" };
  const templates = specs.map((spec, i) => ({
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaimTemplate",
    metadata: { name: `how-many-more-${i}` },
    spec: { spec },
  }));
  const containers = (rest.containers ?? [{ name: "main", image: "none", resources: {} }]).map((one) => ({
    ...one,
    resources: { ...one.resources, claims: specs.map((_, i) => ({ name: `claim-${i}` })) },
  }));
  const resourceClaims = specs.map((_, i) => ({ name: `claim-${i}`, resourceClaimTemplateName: `how-many-more-${i}` }));
  return [...templates, { apiVersion: "v1", kind: "Pod", metadata, spec: { ...rest, containers, resourceClaims } }];
}

// Devices that would be taken are lit; those that would be given back have a dashed frame.
function difference(answer) {
  const lit = new Map();
  const enter = (devices, kind) => Object.values(devices).flat().forEach((key) => lit.set(key, kind));
  for (const pod of answer.gone) enter(pod.devices, "old");
  for (const pod of answer.placed) enter(pod.devicesBefore, "old");
  for (const pod of answer.placed) enter(pod.devices, "new");
  return lit;
}

const summary = (answer) => {
  const pending = answer.pending.filter((one) => !one.before).reduce((sum, one) => sum + one.pods.length, 0);
  return `${answer.placed.length} placed, ${answer.gone.length} gone, ${pending} without a node`;
};

function differenceTables(answer) {
  const pods = (list) => list.slice(0, 40).map((one) => html`<tr><th scope="row">${one.pod}</th><td>${one.before ? `${one.before} → ` : ""}${one.node}</td></tr>`);
  return html`
    <h2>${summary(answer)}</h2>
    <p class="faint">after ${answer.seconds} s of the cluster's time; on the map: framed would be taken, dashed given back</p>
    ${answer.pending.map((one) => html`<div class="box"><strong class=${one.before ? "faint" : "bad"}>${one.pods.length} ${one.before ? "waited before" : "without a node"}</strong><div>${one.why}</div><div class="faint">${one.pods.slice(0, 6).join(", ")}${one.pods.length > 6 ? " …" : ""}</div></div>`)}
    ${answer.placed.length ? html`<h3>Placed</h3><table><tbody>${pods(answer.placed)}</tbody></table>` : nothing}
    ${answer.gone.length ? html`<h3>Gone</h3><table><tbody>${pods(answer.gone)}</tbody></table>` : nothing}
    ${answer.copies.map((one) => html`<p>${one.limited ? "at least " : ""}${one.more} more of ${one.of} fit</p>`)}
    ${answer.nodes.length ? html`<h3>Devices in use</h3><table><thead><tr><th scope="col">node</th><th scope="col" class="number">before</th><th scope="col" class="number">after</th><th scope="col" class="number">of</th></tr></thead><tbody>${answer.nodes.slice(0, 60).map((one) => html`<tr><th scope="row">${one.node}</th><td class="number">${one.heldBefore}</td><td class="number">${one.heldAfter}</td><td class="number">${one.devices}</td></tr>`)}</tbody></table>` : nothing}
    ${answer.failures.map((text) => html`<p class="note">${text}</p>`)}`;
}

function rooms(found) {
  return html`<h2>How many more fit</h2><table><thead><tr><th scope="col">pods with</th><th scope="col" class="number">more</th></tr></thead><tbody>
    ${found.map(([name, room]) => html`<tr><th scope="row">${name}${room.why ? html`<div class="faint">${room.why}</div>` : nothing}</th><td class="number">${room.limited ? `${room.number} or more` : room.number}</td></tr>`)}</tbody></table>`;
}
