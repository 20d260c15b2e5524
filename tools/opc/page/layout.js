/* The part Graph's nodes, groups of them by the parts of their names, and where each stands: forward ops in one lane, each
   backward op beside what it is of. */
/* SPDX-License-Identifier: Apache-2.0 */
const kDrawnAtMost = 3000, kShownAtFirst = 400;
const kInput = 0, kVariable = 1, kOp = 2, kOutput = 3;

const nodes = (data.nodes || []).map((n, i) => ({
  i, kind: n[0], lane: n[1], name: text(n[2]), type: text(n[3]), makes: n[4], reads: n[5], place: n[6], attrs: n[7],
  flops: n[8] || 0, bytes: n[9] || 0, loc: n[10], state: n[11], mark: n[12], device: n[13], of: (n[14] || 0) - 1,
}));
const drawn = nodes.filter(n => n.kind !== kVariable);
const typesOf = n => n.makes.map(m => text(m[1]));

/* Groups are parts of names that end in / or a dot; a group has at least two nodes of one lane. Where names have no parts,
   nodes that follow one another make a group. */
function makeGroups() {
  const counts = new Map();
  const add = (n, key, title, parent) => {
    let g = counts.get(key);
    if (!g) counts.set(key, g = {key, title, parent, members: [], open: true});
    g.members.push(n);
    return g;
  };
  for (const n of drawn) {
    let parent = null, from = 0;
    for (let at; (at = n.name.slice(from).search(/[/.]/)) > 0; ) {
      from += at + 1;
      const title = n.name.slice(0, from - 1);
      parent = add(n, n.lane + title, title, parent);
    }
    n.group = parent;
  }
  const real = g => { while (g && (g.members.length < 2 || g.parent && g.parent.members.length === g.members.length)) g = g.parent; return g; };
  for (const g of counts.values()) g.parent = real(g.parent);
  for (const n of drawn) n.group = real(n.group);
  const alone = drawn.filter(n => !n.group);
  if (alone.length <= kDrawnAtMost) return [...counts.values()].filter(g => real(g) === g);
  const groups = [...counts.values()].filter(g => real(g) === g);
  for (const lane of [0, 1, 2]) {
    const list = alone.filter(n => n.lane === lane), size = Math.max(20, Math.ceil(list.length / 60));
    for (let i = 0; i < list.length; i += size) {
      const members = list.slice(i, i + size);
      const g = {key: lane + " " + i, title: members[0].name + " ... " + members[members.length - 1].name, parent: null, members, open: true};
      members.forEach(n => n.group = g);
      groups.push(g);
    }
  }
  return groups;
}
const groups = makeGroups();

/* What is drawn: nodes, and closed groups in place of theirs. */
function makeUnits() {
  const units = [], ofNode = new Array(nodes.length), ofGroup = new Map();
  for (const n of drawn) {
    let closed = null;
    for (let g = n.group; g; g = g.parent) if (!g.open) closed = g;
    let unit = closed && ofGroup.get(closed);
    if (!unit) {
      unit = {index: units.length, lane: n.lane, group: closed, node: closed ? null : n, makers: new Map(), readers: [], row: -1, x: 0};
      if (closed) ofGroup.set(closed, unit);
      units.push(unit);
    }
    ofNode[n.i] = unit;
  }
  for (const n of drawn) {
    const unit = ofNode[n.i];
    for (let k = 0; k < n.reads.length; k += 3) {
      const maker = n.reads[k] < 0 ? null : ofNode[n.reads[k]];
      if (!maker || maker === unit) continue;
      if (!unit.makers.has(maker)) { unit.makers.set(maker, null); maker.readers.push(unit); }
      const move = moveOf(n.reads[k], n.reads[k + 2]);
      if (move) unit.makers.set(maker, move);
    }
  }
  return {units, ofNode};
}
/* Transitions by what they begin at: several steps one after the other are called after the tensor that the first takes. */
const moves = new Map();
for (const m of data.moves || []) {
  if (m[0] >= 0 && !moves.has(m[0] + " " + m[1])) moves.set(m[0] + " " + m[1], Object.assign(m, {steps: [m]}));
  else if (m[0] < 0) {
    const first = [...moves.values()].find(k => text(m[7]).startsWith(text(k[7]) + "->"));
    if (first) first.steps.push(m);
  }
}
const moveWords = move => move.steps.map(s => text(s[2]) + (s[5] < 0 ? " with others" : " " + bytes(s[5]))).join(", ");
const moveOf = (node, port) => moves.get(node + " " + port) || null;

/* A unit's row: a forward one stands below what it reads, a backward one beside the op whose gradient it is, others beside the
   lowest forward op that they read. */
function placeRows(units, ofNode) {
  for (const u of units) {
    let forward = -1, other = -1, first = -1;
    for (const m of u.makers.keys()) {
      if (m.row < 0) continue; // of two groups that read each other, the first stands above
      if (first < 0) first = m.lane;
      if (m.lane === 0) forward = Math.max(forward, m.row); else if (other < 0) other = m.row;
    }
    if (u.node && u.node.kind === kOutput) {
      u.lane = Math.max(first, 0);
      u.row = Math.max(forward, other) + 1;
    } else {
      const of = u.node && u.node.of >= 0 ? ofNode[u.node.of].row : -1;
      u.row = u.lane === 0 ? forward + 1 : Math.max(0, of >= 0 ? of : forward >= 0 ? forward : other);
    }
  }
  for (const u of units)
    if (u.node && u.node.kind === kInput && u.readers.length) u.row = Math.max(0, Math.min(...u.readers.map(r => r.row)) - 1);
}

/* Within a row, below the middle of what is read. Gives rows, and the columns where lanes begin. */
function layOut(units, ofNode) {
  placeRows(units, ofNode);
  const rows = units.reduce((most, u) => Math.max(most, u.row), 0) + 1;
  const cells = Array.from({length: rows * 3}, () => []);
  for (const u of units) cells[u.row * 3 + u.lane].push(u);
  const widest = [0, 0, 0], start = [0, 0, 0, 0];
  cells.forEach((c, i) => { widest[i % 3] = Math.max(widest[i % 3], c.length); });
  for (let lane = 0; lane < 3; ++lane) start[lane + 1] = start[lane] + widest[lane] + (widest[lane] && lane < 2 ? 0.3 : 0);
  cells.forEach((cell, i) => {
    const wish = new Map(cell.map(u => {
      const xs = [...u.makers.keys()].filter(m => m.lane === u.lane && m.row < u.row).map(m => m.x);
      return [u, xs.length ? xs.reduce((a, b) => a + b) / xs.length : 1e9];
    }));
    cell.sort((a, b) => wish.get(a) - wish.get(b) || a.index - b.index);
    const left = start[i % 3] + (widest[i % 3] - cell.length) / 2;
    cell.forEach((u, k) => { u.x = left + k; });
  });
  return {rows, start};
}

/* At first: all nodes where that is a drawing to be looked at, else groups, opened as deep as can be read at a glance. */
(function closeGroups() {
  if (drawn.length <= kDrawnAtMost) return;
  for (const g of groups) g.open = false;
  const inside = new Map(groups.map(g => [g, 0])); // what opening a group shows
  for (const g of groups) if (g.parent) inside.set(g.parent, inside.get(g.parent) + 1);
  for (const n of drawn) if (n.group) inside.set(n.group, inside.get(n.group) + 1);
  let shown = makeUnits().units.length;
  for (let list = groups.filter(g => !g.parent); list.length; list = groups.filter(g => list.includes(g.parent))) {
    shown += list.reduce((sum, g) => sum + inside.get(g) - 1, 0);
    if (shown > kShownAtFirst) return;
    for (const g of list) g.open = true;
  }
})();
