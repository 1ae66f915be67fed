// The cluster as the page holds it: devices in cells, nodes, subjects, and indexes over them.
//
// A cell is one physical device: a device alone, or a device with its partitions, which share a counter set.

export const keyOf = (device) => `${device.driver}/${device.pool}/${device.device}`;
export const cellKeyOf = (device) =>
  device.counterSet ? `${device.driver}/${device.pool}/#${device.counterSet}` : keyOf(device);

// What makes devices interchangeable for selectors: driver, attributes and capacity.
const formOf = (device) => JSON.stringify([device.driver, device.attributes, device.capacity]);

// Expands the compact form of a map (`insight/inventory/compactmap.py`). Empty values are shared: no code changes them.
const [NONE, NOTHING] = [Object.freeze([]), Object.freeze({})];
const expandedHolder = (one) => ({ pods: NONE, request: "", consumed: NOTHING, shareId: "", adminAccess: false, share: 1, since: "", conditions: NONE, ...one });

export function expanded({ forms, devices, subjects, ...map }) {
  const found = new Array(devices.length);
  for (let i = 0; i < devices.length; i++) {
    const [number, node, pool, device, state, rest] = devices[i];
    const form = forms[number];
    const one = {
      node, driver: form.driver, pool, device, state, holders: NONE, classes: form.classes, attributes: form.attributes, capacity: form.capacity,
      left: NOTHING, counters: NOTHING, counterSet: "", blockedBy: NONE, taints: NONE, health: "", bindingConditions: NONE, at: 0, size: 1, lane: 0, used: 0,
    };
    if (rest) {
      Object.assign(one, rest);
      if (rest.holders) one.holders = rest.holders.map(expandedHolder);
    }
    found[i] = one;
  }
  const subject = ([kind, namespace, name, state, waits, claims, owner, replicas, since]) => ({ kind, namespace, name, state, waits, claims, owner, replicas, since });
  return { ...map, devices: found, subjects: subjects.map(subject) };
}

export class ClusterModel {
  constructor(map) {
    this.replace(map);
  }

  replace(map) {
    this.source = map.source;
    this.now = map.now;
    this.notes = map.notes ?? [];
    this.pools = map.pools ?? [];
    this.classes = map.classes ?? [];
    this.profiles = map.profiles ?? [];
    this.taintRules = map.taintRules ?? [];
    this.nodes = new Map(map.nodes.map((node) => [node.name, node]));
    this.subjects = new Map(map.subjects.map((one) => [subjectKey(one), one]));
    this.devices = new Map();
    this.cells = new Map();
    this.forms = this.totals = this.names = null;
    for (const device of map.devices) this.#put(device);
    this.#changed();
  }

  // Applies a change: devices, nodes and subjects that are new or different, and keys of those that have gone.
  // Returns true if the layout is different, and not only the state of devices.
  apply(change) {
    let moved = false;
    for (const device of change.devices ?? []) {
      const old = this.devices.get(keyOf(device));
      moved ||= !old || old.node !== device.node || old.counterSet !== device.counterSet;
      if (old && cellKeyOf(old) !== cellKeyOf(device)) this.#remove(keyOf(device));
      this.#put(device);
    }
    for (const key of change.goneDevices ?? []) moved = this.#remove(key) || moved;
    for (const node of change.nodes ?? []) {
      moved ||= JSON.stringify(this.nodes.get(node.name)?.labels) !== JSON.stringify(node.labels);
      this.nodes.set(node.name, node);
    }
    for (const name of change.goneNodes ?? []) moved = this.nodes.delete(name) || moved;
    if (change.nodes?.length || change.goneNodes?.length) this.names = null;
    for (const one of change.subjects ?? []) this.subjects.set(subjectKey(one), one);
    for (const key of change.goneSubjects ?? []) this.subjects.delete(key);
    for (const name of ["classes", "taintRules", "pools", "notes"]) if (change[name]) this[name] = change[name];
    if (change.now) this.now = change.now;
    this.#changed();
    return moved;
  }

  #put(device) {
    const key = keyOf(device);
    const cellKey = cellKeyOf(device);
    this.#count(this.devices.get(key), device);
    this.devices.set(key, device);
    const cell = this.cells.get(cellKey);
    if (!cell) {
      this.cells.set(cellKey, { key: cellKey, node: device.node, devices: [device] });
      return;
    }
    const place = cell.devices.findIndex((one) => one.device === device.device);
    if (place < 0) cell.devices.push(device);
    else cell.devices[place] = device;
    cell.look = undefined;
  }

  #remove(key) {
    const device = this.devices.get(key);
    if (!device) return false;
    this.#count(device, null);
    this.devices.delete(key);
    const cell = this.cells.get(cellKeyOf(device));
    cell.devices = cell.devices.filter((one) => one.device !== device.device);
    cell.look = undefined;
    if (!cell.devices.length) this.cells.delete(cell.key);
    return true;
  }

  // Indexes and totals are made when they are read first. Totals and forms then follow each change: a page that follows
  // 100 changes per second reads them at every one, and a cluster has 40,000 devices.
  #changed() {
    this.held = null;
    this.version = (this.version ?? 0) + 1;
  }

  #count(old, device) {
    if (this.totals) {
      if (old) this.totals[old.state]--;
      if (device) this.totals[device.state]++;
    }
    if (!this.forms) return;
    if (old) this.forms.get(formOf(old))?.delete(keyOf(old));
    if (device) this.#file(device);
  }

  #file(device) {
    const form = formOf(device);
    if (!this.forms.has(form)) this.forms.set(form, new Set());
    this.forms.get(form).add(keyOf(device));
  }

  // Devices of equal form, the given one included.
  neighbours(device) {
    if (!this.forms) {
      this.forms = new Map();
      for (const one of this.devices.values()) this.#file(one);
    }
    return [...(this.forms.get(formOf(device)) ?? [])].map((key) => this.devices.get(key));
  }

  // Devices that a claim «namespace/name» holds.
  heldBy(claim) {
    if (!this.held) {
      this.held = new Map();
      for (const device of this.devices.values())
        for (const holder of device.holders) {
          if (!this.held.has(holder.claim)) this.held.set(holder.claim, []);
          this.held.get(holder.claim).push(device);
        }
    }
    return this.held.get(claim) ?? [];
  }

  counts() {
    if (this.totals) return this.totals;
    const found = this.totals = { free: 0, held: 0, shared: 0, blocked: 0, tainted: 0, unusable: 0, gone: 0 };
    for (const device of this.devices.values()) found[device.state]++;
    return found;
  }

  // Labels by which nodes can be grouped: those whose values repeat. Topology first.
  labels() {
    if (this.names) return this.names;
    const values = new Map();
    for (const node of this.nodes.values())
      for (const [name, value] of Object.entries(node.labels)) {
        if (!values.has(name)) values.set(name, new Set());
        values.get(name).add(value);
      }
    const useful = [...values].filter(([, set]) => set.size > 1 && set.size <= Math.max(2, this.nodes.size / 2));
    const first = (name) => (/zone|rack|region|topology/.test(name) ? 0 : 1);
    return this.names = useful.map(([name]) => name).sort((a, b) => first(a) - first(b) || a.localeCompare(b));
  }
}

// The present with devices of nodes that a simulation has added.
export function withAdded(present, added) {
  const names = new Set(added.map((one) => one.node).filter((name) => !present.nodes.has(name)));
  const nodes = [...names].map((name) => ({ name, labels: {}, taints: [], ready: true, unschedulable: false }));
  return changed(present, [...present.nodes.values(), ...nodes], present.subjects.values(), [...present.devices.values(), ...added]);
}

const changed = (present, nodes, subjects, devices, more = {}) =>
  new ClusterModel({
    source: present.source, now: present.now, notes: present.notes, pools: present.pools, classes: present.classes, profiles: present.profiles,
    taintRules: present.taintRules, nodes, subjects: [...subjects], devices, ...more,
  });

// The model as it was at a moment: the present with all later changes taken back.
export function asOf(present, changes, seconds) {
  const [devices, nodes, subjects] = [new Map(present.devices), new Map(present.nodes), new Map(present.subjects)];
  const takeBack = (values, after, before, key) => {
    for (const one of after ?? []) values.delete(key(one));
    for (const one of before ?? []) values.set(key(one), one);
  };
  for (let i = changes.length - 1; i >= 0 && changes[i].now > seconds; i--) {
    const one = changes[i];
    takeBack(devices, one.devices, one.before, keyOf);
    takeBack(nodes, one.nodes, one.beforeNodes, (node) => node.name);
    takeBack(subjects, one.subjects, one.beforeSubjects, subjectKey);
  }
  return changed(present, [...nodes.values()], subjects.values(), [...devices.values()], { now: seconds, pools: [] });
}

export const subjectKey = (one) => `${one.kind}/${one.namespace}/${one.name}`;

// The whole device of a cell: the one that takes the most of it.
export const wholeOf = (cell) => cell.devices.reduce((a, b) => (b.size > a.size || (b.size === a.size && b.device.length < a.device.length) ? b : a));

// What is held of a device: one bar over all of it, or one on top of the other for the shares of its holders.
function barsOf(device) {
  const { at, size, state } = device;
  if (!["held", "shared", "gone"].includes(state)) return [];
  const shares = device.holders.filter((one) => !one.adminAccess).map((one) => one.share);
  if (state === "gone" || shares.every((share) => share === 1)) return [{ at, size, low: 0, fill: 1, device }];
  let low = 0;
  return shares.map((share) => {
    const bar = { at, size, low, fill: Math.min(share, 1 - low), device };
    low += bar.fill;
    return bar;
  });
}

// How a cell is filled: bars of what is held, the state of the rest, and marks.
export function lookOf(cell) {
  if (cell.look) return cell.look;
  const { devices } = cell;
  const bars = [];
  for (const one of devices) bars.push(...barsOf(one));
  const any = (state) => devices.some((one) => one.state === state);
  let rest = devices[0].state;
  if (devices.length > 1 || bars.length)
    rest = ["free", "shared", "blocked", "tainted", "unusable", "held", "gone"].find(any);
  if (rest === "shared") rest = "free";
  cell.look = {
    bars,
    rest,
    unhealthy: devices.some((one) => one.health && one.health !== "Healthy"),
    waiting: devices.some(isBinding),
    tainted: any("tainted") || devices.some((one) => one.taints.length),
    lanes: Math.max(...devices.map((one) => one.lane)) + 1,
  };
  return cell.look;
}

// True while a pod with this device waits for one of its binding conditions.
export const isBinding = (device) =>
  device.holders.length > 0 &&
  device.bindingConditions.some((name) => !device.holders.some((one) => one.conditions.includes(`${name}=True`)));

// Why a device cannot be had, or what can be had of it, in one sentence.
export function reasonOf(device) {
  const claims = device.holders.map((one) => one.claim).join(", ");
  switch (device.state) {
    case "free":
      return "free";
    case "held":
      return `held by ${claims}`;
    case "shared":
      return `held in part by ${claims}; left: ${pairs(device.left)}`;
    case "blocked":
      return `blocked by ${device.blockedBy.join(", ") || "other partitions"}: needs ${shortage(device.counters)}`;
    case "tainted":
      return `tainted: ${device.taints.join(", ")}`;
    case "unusable":
      return "unusable: its pool is incomplete or invalid";
    default:
      return `in no slice any more, held by ${claims}`;
  }
}

const LISTED = 4; // Counters in a sentence; the panel lists all of them
const UNITS = { n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 };

// A quantity of Kubernetes as a number.
function amount(text) {
  const [, number, unit] = /^([-+.\d]+(?:[eE][-+]?\d+)?)([a-zA-Z]*)$/.exec(text) ?? [];
  return Number(number) * (unit ? UNITS[unit] : 1);
}

// Large amounts are bytes.
const readable = (text) => (amount(text) < 2 ** 20 ? text : `${Math.round((amount(text) / 2 ** 30) * 10) / 10}Gi`);

// The counters of which less is left than a device needs, from «set/counter» → «wanted of left».
function shortage(counters) {
  const all = Object.entries(counters).map(([name, text]) => [name.slice(name.lastIndexOf("/") + 1), ...text.split(" ").filter((_, i) => i % 2 === 0)]);
  const short = all.filter(([, wanted, left]) => amount(wanted) > amount(left));
  const shown = (short.length ? short : all).slice(0, LISTED).map(([name, wanted, left]) => `${name} ${readable(wanted)} of ${readable(left)} left`);
  return shown.join(", ") + (short.length > LISTED ? ` and ${short.length - LISTED} more` : "");
}

export const pairs = (values) => Object.entries(values).map(([name, value]) => `${name} ${value}`).join(", ");

export function describe(cell) {
  const whole = wholeOf(cell);
  const where = cell.node ? ` on ${cell.node}` : "";
  if (cell.devices.length === 1) return `${whole.device}${where}: ${reasonOf(whole)}${marksOf(whole)}`;
  const held = cell.devices.filter((one) => one.state === "held" || one.state === "shared");
  const free = cell.devices.filter((one) => one.state === "free").length;
  const taken = held.length ? `${held.length} held (${held.map((one) => one.device).slice(0, 4).join(", ")})` : "none held";
  return `${whole.device}${where} with ${cell.devices.length - 1} partitions: ${taken}, ${free} free`;
}

export function marksOf(device) {
  const marks = [];
  if (device.health && device.health !== "Healthy") marks.push(device.health.toLowerCase());
  if (device.state !== "tainted" && device.taints.length) marks.push(`tainted: ${device.taints.join(", ")}`);
  if (isBinding(device)) marks.push(`waits for ${device.bindingConditions.join(", ")}`);
  return marks.length ? `; ${marks.join("; ")}` : "";
}
