// An Explanation as a funnel: steps with the devices left after each, the causes, and the remedies that were tried.

import { html, nothing } from "../vendor/lit-html.js";

export function explanation(found, app) {
  return html`
    <p class=${found.fits ? "good" : "bad"}><strong>${found.summary}</strong></p>
    ${(found.parts ?? []).map((part) => html`<h3>${part.subject}</h3>${explanation(part, app)}`)}
    ${found.parts?.length ? nothing : found.causes.filter((one) => one.text !== found.summary).map((one) => html`<p>${one.text}${one.nodes != null ? html` <span class="faint">(on ${one.nodes} of ${found.nodes} nodes)</span>` : nothing}</p>`)}
    ${found.groups.slice(0, 6).map((group) => nodeGroup(group))}
    ${found.changes.length ? html`<h3>What would help (tried)</h3>${found.changes.map(remedy)}` : nothing}
    ${found.claims.map((claim) => claimReport(claim))}`;
}

function nodeGroup(group) {
  const names = group.nodes.slice(0, 3).join(", ") + (group.nodes.length > 3 ? ` and ${group.nodes.length - 3} more` : "");
  return html`<h3>On ${names}</h3>
    ${group.fits ? html`<p class="good">it fits</p>` : nothing}
    ${group.outside.map((text) => html`<p>${text}</p>`)}
    ${group.refusal && !group.requests.length ? html`<p>${group.refusal}</p>` : nothing}
    ${group.requests.map(funnel)}`;
}

// Each step is a bar: the devices that are left, of those at the beginning.
function funnel(request) {
  const most = Math.max(...request.steps.map((step) => step.left + step.lost), 1);
  return html`<div class="box">
    <strong>${request.request}</strong> <span class="faint">${request.allDevices ? "all" : request.wanted} × ${request.deviceClass}</span>
    <ol class="steps" aria-label="Devices left after each test">${request.steps.map((step) => html`<li class=${step.test === request.obstacle ? "stop" : ""}>
      <svg aria-hidden="true" preserveAspectRatio="none" viewBox="0 0 100 1"><rect width=${(100 * step.left) / most} height="1" fill="#0072b2" fill-opacity="0.22"></rect></svg>
      <span>${step.test}${step.detail ? html` <span class="faint">${step.detail}</span>` : nothing}</span>
      <span class="number">${step.left}${step.lost ? html` <span class="faint">(−${step.lost})</span>` : nothing}</span></li>`)}</ol>
    ${request.selectors.filter((one) => one.passed < one.asked).map((one) => html`<p><code>${one.expression}</code><br><span class="faint">${one.origin}: passes ${one.passed} of ${one.asked}</span></p>`)}
    ${request.text ? html`<p>${request.text}</p>` : nothing}
    ${request.constraints.map((text) => html`<p>${text}</p>`)}</div>`;
}

function remedy(one) {
  return html`<div class="box">${one.text}
    <div class="faint">then it fits on ${one.fitsOn.slice(0, 4).join(", ")}${one.fitsOn.length > 4 ? ` and ${one.fitsOn.length - 4} more` : ""}</div>
    ${one.commands.length ? html`<pre>${one.commands.join("\n")}</pre>` : nothing}</div>`;
}

function claimReport(claim) {
  return html`<h3>claim ${claim.name}</h3>
    <dl class="two"><dt>state</dt><dd>${claim.state}</dd>
      ${claim.since ? html`<dt>since</dt><dd>${claim.since}</dd>` : nothing}
      ${claim.requests.map((text) => html`<dt>request</dt><dd>${text}</dd>`)}
      ${claim.reservedFor.length ? html`<dt>reserved for</dt><dd>${claim.reservedFor.join(", ")}</dd>` : nothing}
      ${claim.devices.map((one) => html`<dt>device</dt><dd>${one.device}${one.exists ? "" : " (gone)"}${one.conditions.length ? ` ${one.conditions.join(", ")}` : ""}</dd>`)}</dl>`;
}

// The devices that come nearest to what is missing, on the nodes that were tried: of those that pass all selectors of a
// request, the ones that can be had are lit, and the ones that are held, blocked or tainted have a dashed frame. If none
// passes, those that a single condition keeps out have it.
export async function nearestDevices(app, answers) {
  const flat = (one) => [one, ...(one.parts ?? []).flatMap(flat)];
  const groups = answers.flatMap(flat).flatMap((one) => one.groups).filter((group) => !group.fits);
  const nodes = new Set(groups.flatMap((group) => group.nodes));
  const expressions = new Set();
  for (const group of groups)
    for (const request of group.requests)
      if (request.selectors.length) expressions.add(request.selectors.map((one) => `(${one.expression})`).join(" && "));
  const lit = new Map();
  const reached = (keys) => keys.map((key) => [key, app.model.devices.get(key)]).filter(([, one]) => one && (!one.node || nodes.has(one.node)));
  for (const expression of [...expressions].slice(0, 4)) {
    const found = await app.ask("match", { expression });
    const passing = reached(found.matched);
    for (const [key, one] of passing) lit.set(key, one.state === "free" || one.state === "shared" ? "match" : "near");
    if (!passing.length) for (const [key] of reached(found.nearMisses.flatMap((one) => one.devices))) lit.set(key, "near");
  }
  return lit;
}
