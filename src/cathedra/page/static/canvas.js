// The map on its canvas: camera, drawing, pointer and keyboard. It knows places and colours; what a cell means is in
// `model.js`.

import { STATES, THEMES, UNHEALTHY, WAITING } from "./colours.js";
import { CELL } from "./layout.js";
import { describe, isBinding, lookOf, wholeOf, keyOf } from "./model.js";

const MARKED = 7; // Pixels of a cell from which on states have a pattern besides their colour.
const DETAILED = 30; // … partitions are drawn in lanes
const NAMED = 64; // … devices have their names
const LARGEST = 480; // … no closer

export class MapView {
  #frame = 0;
  #pointers = new Map();
  #moved = 0;
  #fitted = true;

  // listener: hover(place, x, y), select(cell, device), say(text)
  constructor(canvas, listener) {
    this.canvas = canvas;
    this.listener = listener;
    this.context = canvas.getContext("2d", { alpha: false });
    this.camera = { x: 0, y: 0, scale: 1 };
    this.layout = { width: 1, height: 1, groups: [], cells: new Map() };
    this.nodes = new Map();
    this.lit = new Map();
    this.focused = "";
    this.selected = "";
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", () => this.redraw());
    new ResizeObserver(() => this.#resize()).observe(canvas);
    this.#listen();
    this.#resize();
  }

  get aspect() {
    return this.canvas.clientWidth / Math.max(this.canvas.clientHeight, 1);
  }

  show(layout, nodes) {
    this.layout = layout;
    this.nodes = nodes;
    if (this.#fitted) this.fit();
    this.redraw();
  }

  // Lights devices: key → "match", "near", "new" or "old". All others are dimmed.
  light(lit) {
    this.lit = lit;
    this.redraw();
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const margin = 8;
    const scale = Math.min((width - 2 * margin) / this.layout.width, (height - 2 * margin) / this.layout.height);
    this.camera.scale = Math.min(Math.max(scale, 0.01), 90 / CELL);
    this.camera.x = (this.layout.width - width / this.camera.scale) / 2;
    this.camera.y = Math.min(-margin / this.camera.scale, (this.layout.height - height / this.camera.scale) / 2);
    this.#fitted = true;
    this.redraw();
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const { camera } = this;
    const smallest = Math.min(this.canvas.clientWidth / this.layout.width, this.canvas.clientHeight / this.layout.height) / 2;
    const scale = Math.min(Math.max(camera.scale * factor, Math.min(smallest, 0.5)), LARGEST / CELL);
    camera.x += x / camera.scale - x / scale;
    camera.y += y / camera.scale - y / scale;
    camera.scale = scale;
    this.#fitted = false;
    this.redraw();
  }

  pan(dx, dy) {
    this.camera.x += dx / this.camera.scale;
    this.camera.y += dy / this.camera.scale;
    this.#fitted = false;
    this.redraw();
  }

  // Brings a cell to the middle if it is not in sight, close enough to be recognized.
  reveal(key, closest = 0) {
    const place = this.layout.cells.get(key);
    if (!place) return;
    const { camera, canvas } = this;
    if (closest && CELL * camera.scale < closest) camera.scale = closest / CELL;
    const [x, y] = [(place.x - camera.x) * camera.scale, (place.y - camera.y) * camera.scale];
    const size = CELL * camera.scale;
    if (closest || x < 0 || y < 0 || x + size > canvas.clientWidth || y + size > canvas.clientHeight) {
      camera.x = place.x + CELL / 2 - canvas.clientWidth / camera.scale / 2;
      camera.y = place.y + CELL / 2 - canvas.clientHeight / camera.scale / 2;
      this.#fitted = false;
    }
    this.redraw();
  }

  redraw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.draw();
    });
  }

  // --- drawing

  get theme() {
    const chosen = document.documentElement.dataset.theme;
    return THEMES[chosen ?? (this.dark.matches ? "dark" : "light")];
  }

  draw() {
    const { context, camera, canvas, theme } = this;
    const ratio = devicePixelRatio;
    const width = canvas.width / ratio;
    const height = canvas.height / ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.globalAlpha = 1;
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, width, height);
    const size = CELL * camera.scale;
    // Far away there are tens of thousands of cells of a few pixels: they are written as pixels, which takes a tenth of
    // the time of rectangles.
    const batches = size < MARKED ? new Pixels(context, canvas, theme, ratio) : new Batches();
    const close = [];
    const labels = [];
    for (const group of this.layout.groups) {
      const [gx, gy, gw, gh] = this.#box(group);
      if (gx > width || gy > height || gx + gw < 0 || gy + gh < 0) continue;
      batches.panel(context, theme, gx, gy, gw, gh);
      if (group.name) {
        const letters = Math.min(Math.max(11 * camera.scale, 11), 22);
        labels.push([group.name, gx + 5 * camera.scale, gy + Math.max(12 * camera.scale, 10), letters, gw, true]);
      }
      for (const node of group.nodes) {
        const [nx, ny, nw, nh] = this.#box(node);
        if (nx > width || ny > height || nx + nw < 0 || ny + nh < 0) continue;
        if (camera.scale >= 0.9) labels.push([this.#nodeText(node.name), nx, ny + 7 * camera.scale, Math.min(7.5 * camera.scale, 15), nw, false]);
        for (const place of node.cells) {
          const x = (place.x - camera.x) * camera.scale;
          const y = (place.y - camera.y) * camera.scale;
          if (size >= DETAILED && (x > width || y > height || x + size < 0 || y + size < 0)) continue;
          this.#cell(batches, place.cell, x, y, size);
          if (size >= DETAILED) close.push([place.cell, x, y]);
        }
      }
    }
    batches.paint(context, theme, size);
    for (const [cell, x, y] of close) this.#detail(cell, x, y, size);
    this.#labels(labels);
    this.#frames(size);
  }

  // The name of a node, and what keeps pods away from all of its devices.
  #nodeText(name) {
    const node = this.nodes.get(name);
    if (!node) return name;
    const marks = [node.ready ? "" : "not ready", node.unschedulable ? "cordoned" : "", ...node.taints].filter(Boolean);
    return marks.length ? `${name} ⚠ ${marks.join(", ")}` : name;
  }

  #box(one) {
    const { x, y, scale } = this.camera;
    return [(one.x - x) * scale, (one.y - y) * scale, one.width * scale, one.height * scale];
  }

  #cell(batches, cell, x, y, size) {
    const look = lookOf(cell);
    const kind = this.lit.size ? this.#kindOf(cell) : "";
    const dim = this.lit.size > 0 && !kind;
    // Partitions are drawn below a bar of what is held, where there is room for both.
    const tall = size >= DETAILED && look.lanes > 1 ? size * 0.42 : size;
    batches.fill(STATES[look.rest].colour, dim, x, y, size, size);
    for (const bar of look.bars) {
      const colour = STATES[bar.device.state === "gone" ? "gone" : "held"].colour;
      // A line of what lies below is left between two shares.
      const high = Math.max(tall * bar.fill - (bar.low && size >= DETAILED ? 1 : 0), Math.min(tall, 1));
      batches.bar(colour, dim, x + bar.at * size, y + tall * (1 - bar.low) - tall * bar.fill, bar.size * size, high);
    }
    if (size >= MARKED) {
      if (!look.bars.length || look.bars.every((bar) => bar.size < 1)) batches.pattern(look.rest, dim, x, y, size, look.bars);
      if (look.tainted && look.rest !== "tainted") batches.pattern("tainted", dim, x, y, size, []);
    }
    if (look.unhealthy) batches.mark(UNHEALTHY, x + size, y, Math.min(Math.max(size / 3, 3), 18));
    if (look.waiting) batches.mark(WAITING, x + size, y + size, Math.min(Math.max(size / 3, 3), 18));
    if (kind) batches.frame(kind, x, y, size);
  }

  #kindOf(cell) {
    for (const device of cell.devices) {
      const kind = this.lit.get(keyOf(device));
      if (kind) return kind;
    }
    return "";
  }

  #detail(cell, x, y, size) {
    const { context, theme } = this;
    const look = lookOf(cell);
    context.globalAlpha = this.lit.size && !this.#kindOf(cell) ? 0.25 : 1;
    context.lineWidth = 1;
    context.strokeStyle = theme.paper;
    if (look.lanes > 1) {
      const top = y + size * 0.46;
      const tall = (y + size - top) / look.lanes;
      context.fillStyle = theme.panel;
      // A little wider than the cell, whose edge would shine through.
      context.fillRect(x - 0.5, top - size * 0.04, size + 1, y + size - top + size * 0.04 + 0.5);
      for (const one of cell.devices) {
        const [px, pw] = [x + one.at * size, Math.max(one.size * size - 1, 1)];
        context.fillStyle = STATES[one.state].colour;
        context.fillRect(px, top + one.lane * tall, pw, Math.max(tall - 1, 1));
        const kind = this.lit.get(keyOf(one));
        if (kind && tall > 3) {
          context.strokeStyle = theme.mark;
          context.strokeRect(px + 0.5, top + one.lane * tall + 0.5, pw - 1, tall - 2);
        }
        if (tall >= 11 && pw > 40) this.#text(one.device, px + 3, top + one.lane * tall + tall / 2 + 3.5, 10, pw - 6, inkOn(one.state));
      }
    }
    if (size >= NAMED) {
      const whole = wholeOf(cell);
      const state = look.bars.length ? "held" : look.rest;
      const small = Math.min(size / 7, 15);
      const used = `${Math.round(100 * look.bars.reduce((sum, bar) => sum + bar.size * bar.fill, 0))} %`;
      const both = look.bars.length > 0 && size >= 90;
      // A plate behind the name: a bar may end anywhere beneath it. The bar above partitions has room for one.
      this.#plate(both && look.lanes > 1 && size >= 130 ? `${whole.device}: ${used}` : whole.device, x + 3, y + 3, small, size - 6, state);
      if (both && look.lanes === 1) this.#plate(`${used} used`, x + 3, y + 5 + small * 1.4, small * 0.85, size - 6, state);
      if (look.lanes === 1 && look.bars.length && size >= 90) {
        const holders = cell.devices[0].holders;
        holders.slice(0, 4).forEach((one, i) =>
          this.#plate(one.claim, x + 3, y + 8 + small * (2.7 + 1.35 * i), small * 0.85, size - 6, state));
      }
      if (isBinding(whole)) this.#plate("waits for its binding conditions", x + 3, y + size - small * 1.5, small * 0.8, size - 6, state);
    }
    context.globalAlpha = 1;
  }

  #plate(text, x, y, size, width) {
    const { context, theme } = this;
    context.font = `${size}px system-ui, sans-serif`;
    const shown = fitted(context, text, width - 6);
    if (!shown) return;
    context.fillStyle = theme.paper;
    context.fillRect(x, y, context.measureText(shown).width + 6, size * 1.25);
    context.fillStyle = theme.ink;
    context.fillText(shown, x + 3, y + size);
  }

  #text(text, x, y, size, width, colour) {
    const { context } = this;
    context.font = `${size}px system-ui, sans-serif`;
    context.fillStyle = colour;
    context.fillText(fitted(context, text, width), x, y);
  }

  #labels(labels) {
    const { context, theme } = this;
    context.globalAlpha = 1;
    for (const [text, x, y, size, width, strong] of labels) {
      context.font = `${strong ? "600 " : ""}${size}px system-ui, sans-serif`;
      context.fillStyle = strong ? theme.ink : theme.faint;
      const shown = fitted(context, text, width);
      if (shown) context.fillText(shown, Math.max(x, strong ? 3 : x), y);
    }
  }

  // The frames of what is focused and selected.
  #frames(size) {
    const { context, camera, theme } = this;
    for (const [key, dash] of [[this.selected, []], [this.focused, [4, 3]]]) {
      const place = this.layout.cells.get(key);
      if (!place) continue;
      const grown = Math.max(size, 6);
      context.strokeStyle = theme.mark;
      context.lineWidth = 2.5;
      context.setLineDash(dash);
      context.strokeRect((place.x - camera.x) * camera.scale - 2.5, (place.y - camera.y) * camera.scale - 2.5, grown + 5, grown + 5);
    }
    context.setLineDash([]);
  }

  // --- pointer and keyboard

  #resize() {
    const { canvas } = this;
    canvas.width = Math.round(canvas.clientWidth * devicePixelRatio);
    canvas.height = Math.round(canvas.clientHeight * devicePixelRatio);
    if (this.#fitted) this.fit();
    this.redraw();
  }

  // The place at a point of the canvas, or null.
  at(x, y) {
    const { camera } = this;
    const [wx, wy] = [x / camera.scale + camera.x, y / camera.scale + camera.y];
    const within = (one) => wx >= one.x && wx <= one.x + one.width && wy >= one.y && wy <= one.y + one.height;
    for (const group of this.layout.groups) {
      if (!within(group)) continue;
      for (const node of group.nodes) {
        if (!within(node)) continue;
        const place = node.cells.find((one) => wx >= one.x && wx <= one.x + CELL && wy >= one.y && wy <= one.y + CELL);
        if (place) return place;
      }
    }
    return null;
  }

  // The device of a cell at a point: the partition, where partitions are drawn.
  #deviceAt(place, x, y) {
    const { camera } = this;
    const size = CELL * camera.scale;
    const whole = wholeOf(place.cell);
    const look = lookOf(place.cell);
    if (look.lanes === 1 || size < DETAILED) return whole;
    const [fx, fy] = [(x / camera.scale + camera.x - place.x) / CELL, (y / camera.scale + camera.y - place.y) / CELL];
    const lies = (one) => fx >= one.at && fx <= one.at + one.size;
    if (fy < 0.42) return look.bars.map((bar) => bar.device).find(lies) ?? whole;
    const lane = Math.floor(((fy - 0.46) / 0.54) * look.lanes);
    return place.cell.devices.find((one) => one.lane === lane && lies(one)) ?? whole;
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.shiftKey) this.pan(event.deltaX || event.deltaY, 0);
      else this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.#pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
      this.#moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => this.#pointerMoved(event));
    canvas.addEventListener("pointerleave", () => this.listener.hover(null));
    canvas.addEventListener("pointercancel", (event) => this.#pointers.delete(event.pointerId));
    canvas.addEventListener("pointerup", (event) => {
      const pressed = this.#pointers.delete(event.pointerId);
      if (pressed && this.#moved < 5) this.#select(this.at(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
    });
    canvas.addEventListener("dblclick", (event) => this.zoom(3, event.offsetX, event.offsetY));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("focus", () => {
      if (!this.layout.cells.has(this.focused)) this.#focus(this.layout.cells.values().next().value);
      this.redraw();
    });
    canvas.addEventListener("blur", () => {
      this.focused = "";
      this.redraw();
    });
  }

  #pointerMoved(event) {
    const before = this.#pointers.get(event.pointerId);
    if (!before) {
      const place = this.at(event.offsetX, event.offsetY);
      this.canvas.style.cursor = place ? "pointer" : "grab";
      this.listener.hover(place && { ...place, device: this.#deviceAt(place, event.offsetX, event.offsetY) }, event.offsetX, event.offsetY);
      return;
    }
    const now = [event.offsetX, event.offsetY];
    this.#moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    const other = [...this.#pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const distance = (one) => Math.hypot(one[0] - other[0], one[1] - other[1]) || 1;
      this.zoom(distance(now) / distance(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    } else if (this.#moved >= 5) {
      this.pan(before[0] - now[0], before[1] - now[1]);
      this.listener.hover(null);
    }
    this.#pointers.set(event.pointerId, now);
  }

  #select(place, x, y) {
    if (!place) return this.listener.select(null);
    this.focused = "";
    this.listener.select(place.cell, x === undefined ? wholeOf(place.cell) : this.#deviceAt(place, x, y));
  }

  #focus(place) {
    if (!place) return;
    this.focused = place.cell.key;
    this.reveal(place.cell.key);
    this.listener.say(describe(place.cell));
  }

  #key(event) {
    const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const direction = directions[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (direction && event.shiftKey) this.pan(direction[0] * 60, direction[1] * 60);
    else if (direction) this.#focus(this.#beside(direction));
    else if (event.key === "+" || event.key === "=") this.#zoomFocused(1.4);
    else if (event.key === "-") this.#zoomFocused(1 / 1.4);
    else if (event.key === "0") this.fit();
    else if (event.key === "Home") this.#focus(this.layout.cells.values().next().value);
    else if (event.key === "End") this.#focus([...this.layout.cells.values()].at(-1));
    else if (event.key === "Enter" || event.key === " ") this.#select(this.layout.cells.get(this.focused));
    else if (event.key === "Escape") this.listener.select(null);
    else return;
    event.preventDefault();
  }

  // Zooms around the cell that has the keyboard, or the selected one.
  #zoomFocused(factor) {
    const place = this.layout.cells.get(this.focused) ?? this.layout.cells.get(this.selected);
    const { camera } = this;
    if (place) this.zoom(factor, (place.x + CELL / 2 - camera.x) * camera.scale, (place.y + CELL / 2 - camera.y) * camera.scale);
    else this.zoom(factor);
  }

  // The nearest place in a direction; what lies to the side counts three times.
  #beside([dx, dy]) {
    const from = this.layout.cells.get(this.focused);
    if (!from) return this.layout.cells.values().next().value;
    let best = null;
    let least = Infinity;
    for (const one of this.layout.cells.values()) {
      const along = (one.x - from.x) * dx + (one.y - from.y) * dy;
      if (along <= 1) continue;
      const aside = Math.abs((one.x - from.x) * dy) + Math.abs((one.y - from.y) * dx);
      const distance = along + 3 * aside;
      if (distance < least) [best, least] = [one, distance];
    }
    return best;
  }
}

let image = null;

// Rectangles as pixels of the canvas, for a far view. Patterns have no room there.
class Pixels {
  #batches = new Batches();
  #colours = new Map();

  constructor(context, canvas, theme, ratio) {
    // One image for all frames: a new one of megabytes for each would keep the garbage collector busy.
    const { width, height } = canvas;
    if (image?.width !== width || image.height !== height) image = context.createImageData(width, height);
    this.image = image;
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.theme = theme;
    this.ratio = ratio;
    this.pixels.fill(packed(theme.paper));
  }

  panel(context, theme, x, y, width, height) {
    this.#rectangle(packed(theme.panel), x, y, width, height);
  }

  fill(colour, dim, x, y, width, height) {
    const key = dim ? `dim ${colour}` : colour;
    let value = this.#colours.get(key);
    if (value === undefined) this.#colours.set(key, (value = packed(colour, dim ? this.theme.panel : "")));
    this.#rectangle(value, x, y, width, height);
  }

  bar(...bar) {
    this.fill(...bar);
  }

  pattern() {}

  mark(...mark) {
    this.#batches.mark(...mark);
  }

  frame(...frame) {
    this.#batches.frame(...frame);
  }

  paint(context, theme, size) {
    context.putImageData(this.image, 0, 0);
    this.#batches.paint(context, theme, size);
  }

  #rectangle(value, x, y, width, height) {
    const { image, pixels, ratio } = this;
    const left = Math.max(Math.round(x * ratio), 0);
    const right = Math.min(Math.max(Math.round((x + width) * ratio), left + 1), image.width);
    const top = Math.max(Math.round(y * ratio), 0);
    const bottom = Math.min(Math.max(Math.round((y + height) * ratio), top + 1), image.height);
    if (left >= right) return;
    for (let row = top; row < bottom; row++) {
      const begin = row * image.width;
      // A call of `fill` costs more than a few pixels.
      if (right - left > 64) pixels.fill(value, begin + left, begin + right);
      else for (let i = begin + left; i < begin + right; i++) pixels[i] = value;
    }
  }
}

// A colour as a pixel of little-endian machines, which all that run browsers are; `under` is seen through a dimmed one.
function packed(colour, under = "") {
  const part = (text, at) => parseInt(text.slice(at, at + 2), 16);
  const mixed = (at) => (under ? Math.round(0.22 * part(colour, at) + 0.78 * part(under, at)) : part(colour, at));
  return (0xff000000 | (mixed(5) << 16) | (mixed(3) << 8) | mixed(1)) >>> 0;
}

// Rectangles by colour, so that a frame changes the context's colour a few times and not once per cell.
class Batches {
  #fills = new Map();
  #bars = new Map(); // Painted after all fills, which lie below them
  #lines = new Map();
  #marks = new Map();
  #frames = new Map();

  panel(context, theme, x, y, width, height) {
    context.fillStyle = theme.panel;
    context.fillRect(x, y, width, height);
  }

  fill(colour, dim, x, y, width, height) {
    this.#enter(this.#fills, dim ? `dim ${colour}` : colour, x, y, width, height);
  }

  bar(colour, dim, x, y, width, height) {
    this.#enter(this.#bars, dim ? `dim ${colour}` : colour, x, y, width, height);
  }

  #enter(layer, key, x, y, width, height) {
    let batch = layer.get(key);
    if (!batch) layer.set(key, (batch = []));
    batch.push(x, y, width, height);
  }

  // Patterns: blocked has a diagonal, tainted a cross, unusable a dash.
  pattern(state, dim, x, y, size, bars) {
    if (dim || !["blocked", "tainted", "unusable"].includes(state)) return;
    const start = bars.length ? Math.max(...bars.map((bar) => bar.at + bar.size)) : 0;
    if (start >= 1) return;
    const left = x + start * size;
    const key = state;
    if (!this.#lines.has(key)) this.#lines.set(key, []);
    const lines = this.#lines.get(key);
    if (state === "unusable") lines.push(left + 2, y + size / 2, x + size - 2, y + size / 2);
    else lines.push(left + 1, y + size - 1, x + size - 1, y + 1);
    if (state === "tainted") lines.push(left + 1, y + 1, x + size - 1, y + size - 1);
  }

  mark(colour, x, y, size) {
    if (!this.#marks.has(colour)) this.#marks.set(colour, []);
    this.#marks.get(colour).push(x, y, size);
  }

  frame(kind, x, y, size) {
    if (!this.#frames.has(kind)) this.#frames.set(kind, []);
    this.#frames.get(kind).push(x, y, size);
  }

  paint(context, theme, size) {
    for (const [key, batch] of [...this.#fills, ...this.#bars]) {
      const dim = key.startsWith("dim ");
      context.globalAlpha = dim ? 0.22 : 1;
      context.fillStyle = dim ? key.slice(4) : key;
      for (let i = 0; i < batch.length; i += 4) context.fillRect(batch[i], batch[i + 1], batch[i + 2], batch[i + 3]);
    }
    context.globalAlpha = 1;
    context.lineWidth = Math.max(1, Math.min(size / 12, 2.5));
    context.strokeStyle = "#00000099";
    for (const lines of this.#lines.values()) {
      context.beginPath();
      for (let i = 0; i < lines.length; i += 4) {
        context.moveTo(lines[i], lines[i + 1]);
        context.lineTo(lines[i + 2], lines[i + 3]);
      }
      context.stroke();
    }
    for (const [colour, marks] of this.#marks) {
      context.fillStyle = colour;
      context.strokeStyle = "#000000";
      context.lineWidth = 1;
      context.beginPath();
      for (let i = 0; i < marks.length; i += 3) {
        const [x, y, r] = [marks[i], marks[i + 1], marks[i + 2]];
        context.moveTo(x, y);
        context.arc(x - r / 2, y, r / 2, 0, 7);
      }
      context.fill();
      if (size >= MARKED) context.stroke();
    }
    for (const [kind, frames] of this.#frames) {
      context.strokeStyle = theme.mark;
      context.lineWidth = Math.max(1, Math.min(size / 6, 3));
      context.setLineDash(kind === "near" || kind === "old" ? [Math.max(size / 5, 2), Math.max(size / 8, 1.5)] : []);
      for (let i = 0; i < frames.length; i += 3) context.strokeRect(frames[i] - 1, frames[i + 1] - 1, frames[i + 2] + 2, frames[i + 2] + 2);
    }
    context.setLineDash([]);
  }
}

const inkOn = (state) => (["held", "gone", "free"].includes(state) ? "#ffffff" : "#000000");

// The text, cut to a width; "" if nothing of it fits.
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, Math.min(text.length, 200)];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? `${text.slice(0, low)}…` : "";
}
