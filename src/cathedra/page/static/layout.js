// Places of groups, nodes and cells in the plane, in units of which a cell has `CELL`.

export const CELL = 16;
const GAP = 3;
const LABEL = 10;
const PAD = 5;
const HEAD = 15;
const MARGIN = 12;

const SHAPES = [0.6, 1, 1.5, 2.5, 4, 7]; // Widths of groups by heights that are tried for a small cluster
const SMALL = 3000; // cells

// Returns {width, height, groups: [{name, x, y, width, height, nodes: [{name, x, y, width, height, cells}]}], cells}.
// A cell of it has x, y and the model's cell; rows of cells are as wide as `perRow`.
export function layOut(model, grouping, aspect) {
  const given = grouped(model, grouping);
  // Of several shapes of groups the one that lets the cells be largest. A large cluster fills any shape.
  const shapes = model.cells.size > SMALL ? [1.5] : SHAPES;
  const room = (one) => Math.min(aspect / one.width, 1 / one.height);
  const best = shapes.map((shape) => arranged(given, shape, aspect)).reduce((a, b) => (room(b) > room(a) * 1.02 ? b : a));
  best.cells = new Map();
  for (const group of best.groups) for (const node of group.nodes) for (const one of node.cells) best.cells.set(one.cell.key, one);
  return best;
}

function arranged(given, shape, aspect) {
  const groups = given.map(([name, nodes]) => placed(name, nodes, shape));
  const area = groups.reduce((sum, one) => sum + (one.width + MARGIN) * (one.height + MARGIN), 0);
  const width = Math.max(Math.sqrt(area * aspect), ...groups.map((one) => one.width), 60);
  let [x, y, tall, right] = [0, 0, 0, 0];
  for (const group of groups) {
    if (x > 0 && x + group.width > width + 1) [x, y, tall] = [0, y + tall + MARGIN, 0];
    move(group, x, y);
    x += group.width + MARGIN;
    right = Math.max(right, x - MARGIN);
    tall = Math.max(tall, group.height);
  }
  return { width: Math.max(right, 60), height: Math.max(y + tall, 60), groups };
}

// [[group, Map(node → cells)]], in the order of names; numbers in names count as numbers.
function grouped(model, grouping) {
  const found = new Map();
  for (const cell of model.cells.values()) {
    const name = groupOf(model, cell, grouping);
    if (!found.has(name)) found.set(name, new Map());
    const nodes = found.get(name);
    const node = cell.node || cell.devices[0].pool;
    if (!nodes.has(node)) nodes.set(node, []);
    nodes.get(node).push(cell);
  }
  const { compare } = new Intl.Collator("en", { numeric: true });
  const byName = (a, b) => compare(a[0], b[0]);
  for (const nodes of found.values())
    for (const cells of nodes.values()) if (cells.length > 1) cells.sort((a, b) => compare(a.key, b.key));
  return [...found].sort(byName).map(([name, nodes]) => [name, [...nodes].sort(byName)]);
}

function groupOf(model, cell, grouping) {
  const device = cell.devices[0];
  switch (grouping) {
    case "":
      return "";
    case "driver":
      return device.driver;
    case "pool":
      return `${device.driver}/${device.pool}`;
    case "class":
      return device.classes[0] ?? "no class";
    default:
      return labelled(grouping, model.nodes.get(cell.node)?.labels[grouping]);
  }
}

const labelled = (name, value) => (value === undefined ? `without ${name}` : `${name.split("/").at(-1)} ${value}`);

function placed(name, nodes, shape) {
  const blocks = nodes.map(([node, cells]) => block(node, cells));
  const head = name ? HEAD : 0;
  const area = blocks.reduce((sum, one) => sum + (one.width + PAD) * (one.height + PAD), 0);
  const width = Math.max(Math.sqrt(area * shape), ...blocks.map((one) => one.width));
  let [x, y, tall, right] = [PAD, PAD + head, 0, 0];
  for (const one of blocks) {
    if (x > PAD && x + one.width > width + PAD + 1) [x, y, tall] = [PAD, y + tall + PAD, 0];
    shift(one, x, y);
    x += one.width + PAD;
    right = Math.max(right, x);
    tall = Math.max(tall, one.height);
  }
  return { name, x: 0, y: 0, width: right, height: y + tall + PAD, nodes: blocks };
}

function block(name, cells) {
  const perRow = Math.min(cells.length, Math.max(8, Math.ceil(Math.sqrt(cells.length * 2))));
  const step = CELL + GAP;
  const places = cells.map((cell, i) => ({ cell, x: (i % perRow) * step, y: LABEL + Math.floor(i / perRow) * step }));
  const rows = Math.ceil(cells.length / perRow);
  // A label needs some room, even where a node has one device.
  return { name, x: 0, y: 0, width: Math.max(perRow * step - GAP, 44), height: LABEL + rows * step - GAP, cells: places };
}

function shift(node, dx, dy) {
  node.x += dx;
  node.y += dy;
  for (const one of node.cells) {
    one.x += dx;
    one.y += dy;
  }
}

function move(group, dx, dy) {
  group.x += dx;
  group.y += dy;
  for (const node of group.nodes) shift(node, dx, dy);
}
