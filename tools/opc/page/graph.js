/* The part Graph: two lanes, groups that open and close, a search, and what is known of a node. */
/* SPDX-License-Identifier: Apache-2.0 */
const kWide = 190, kHigh = 38, kGapX = 24, kGapY = 30, kMargin = 16, kTop = 40;
const kLanes = ["forward", "backward", "update"], kLaneClasses = ["", "bwd", "upd"], kMarks = ["", "add", "del", "mod", "ren"];

parts.graph = section => {
  const bar = make(section, "div", {class: "bar"}), split = make(section, "div", {class: "split"});
  const scroll = make(split, "div", {class: "scroll"}), panel = make(split, "aside", {"aria-label": "details", tabindex: -1, hidden: ""});
  let units, ofNode, things, go, hits = [], hit = -1, chosen = null, near = null;

  const left = u => kMargin + u.x * (kWide + kGapX), top = u => kTop + u.row * (kHigh + kGapY);
  function curve(m, u) {
    let x1 = left(m) + kWide / 2, y1 = top(m) + kHigh, x2 = left(u) + kWide / 2, y2 = top(u);
    if (m.lane !== u.lane) {
      const right = m.lane < u.lane;
      x1 = left(m) + (right ? kWide : 0); x2 = left(u) + (right ? 0 : kWide);
      y1 = top(m) + kHigh / 2; y2 = top(u) + kHigh / 2;
      const middle = (x1 + x2) / 2;
      return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
    }
    if (m.row === u.row) { // along the row, above its boxes
      y1 = top(m); y2 = top(u);
      return `M${x1} ${y1}C${x1} ${y1 - 22} ${x2} ${y2 - 22} ${x2} ${y2}`;
    }
    if (m.row > u.row) { y1 = top(m); y2 = top(u) + kHigh; }
    if (u.row > m.row + 1) { // past other boxes: down its own column, or beside it, and across above the reader
      const x = Math.abs(x1 - x2) < 1 ? x1 + (kWide + kGapX) / 2 : x1, g = kGapY;
      const out = x === x1 ? `M${x1} ${y1}` : `M${x1} ${y1}C${x1} ${y1 + g} ${x} ${y1} ${x} ${y1 + g}`;
      return `${out}V${y2 - g}C${x} ${y2} ${x2} ${y2 - g} ${x2} ${y2}`;
    }
    const middle = (y1 + y2) / 2;
    return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
  }
  const titleOf = u => u.group ? u.group.title : u.node.name;
  function secondLine(u) {
    if (u.node) return u.node.type + " " + (typesOf(u.node)[0] || "");
    const kinds = new Map();
    for (const n of u.group.members) kinds.set(n.type, (kinds.get(n.type) || 0) + 1);
    return u.group.members.length + " ops: " + [...kinds].sort((a, b) => b[1] - a[1]).map(k => k[0] + " x" + k[1]).join(" ");
  }
  function classOf(u) {
    if (u.group) return "group";
    const n = u.node, mark = kMarks[n.mark || 0];
    if (mark) return mark;
    return [n.kind === kInput ? "in" : n.kind === kOutput ? "out" : kLaneClasses[u.lane], n.state || ""].join(" ").trim() || undefined;
  }

  function draw(focusOn) {
    ({units, ofNode} = makeUnits());
    const {rows, start} = layOut(units, ofNode);
    const width = 2 * kMargin + start[3] * (kWide + kGapX) - kGapX, height = kTop + rows * (kHigh + kGapY) + kMargin;
    scroll.textContent = "";
    const svg = make(null, "svg", {class: "g", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "graph: arrow keys move, Enter opens"});
    kLanes.forEach((name, lane) => {
      if (start[lane + 1] > start[lane]) make(svg, "text", {class: "t", x: kMargin + start[lane] * (kWide + kGapX), y: 22}, name);
    });
    let plain = "", far = "";
    const labels = [], seen = new Set();
    for (const u of units)
      for (const [m, move] of u.makers) {
        if (!move) { if (m.lane === u.lane) plain += curve(m, u); else far += curve(m, u); continue; }
        const words = moveWords(move), last = move.steps[move.steps.length - 1];
        make(make(svg, "path", {class: "x", d: curve(m, u)}), "title", {}, words + ": " + text(move[3]) + " -> " + text(last[4]));
        if (!seen.has(move)) { seen.add(move); labels.push([m, u, words]); }
      }
    svg.prepend(make(svg, "path", {class: "c", d: far}), make(svg, "path", {d: plain}));
    things = units.map((u, i) => {
      const n = u.node, spoken = (u.group ? "group " : "") + titleOf(u) + ", " + secondLine(u);
      const g = make(svg, "g", {class: classOf(u), role: "button", tabindex: -1, "aria-label": spoken, "data-i": i});
      make(g, "title", {}, spoken + (n && n.place ? " (" + placeOf(n) + ")" : ""));
      make(g, "rect", {x: left(u), y: top(u), width: kWide, height: kHigh, rx: u.group || n.kind === kOp ? 3 : 18});
      make(g, "text", {x: left(u) + 8, y: top(u) + 16}, clipped((u.group ? "+ " : "") + titleOf(u), 24));
      make(g, "text", {class: "t", x: left(u) + 8, y: top(u) + 31}, clipped(secondLine(u), 26));
      return g;
    });
    for (const [m, u, words] of labels)
      make(svg, "text", {class: "xt", x: (left(m) + left(u) + kWide) / 2 + 6, y: m.row === u.row ? Math.min(top(m), top(u)) - 8 : (top(m) + top(u) + kHigh) / 2 + 4}, words);
    near = make(svg, "path", {class: "near", d: ""});
    go = rove(svg, things, neighbour, open);
    scroll.appendChild(svg);
    mark();
    if (focusOn) go(focusOn.index, true);
  }

  /* Up: what it reads first; down: what reads it first; else the nearest in that direction. */
  function neighbour(i, key) {
    const u = units[i], away = {ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1}[key];
    if (key === "-" || key === "Backspace") { close(u); return undefined; }
    if (!away) return undefined;
    const beside = key === "ArrowLeft" || key === "ArrowRight";
    if (!beside) {
      const linked = (away < 0 ? [...u.makers.keys()] : u.readers).filter(o => o.lane === u.lane);
      if (linked.length) return linked[0].index;
    }
    let best, least = Infinity;
    for (const o of units) {
      const across = beside ? (o.x - u.x) * away : (o.row - u.row) * away, along = Math.abs(beside ? o.row - u.row : o.x - u.x);
      if (across > 0 && across + 3 * along < least) { least = across + 3 * along; best = o.index; }
    }
    return best;
  }
  function close(u) {
    let g = u.node ? u.node.group : u.group.parent;
    if (!g) return;
    g.open = false;
    draw(null);
    go(ofNode[g.members[0].i].index, true);
  }
  function open(i) {
    const u = units[i];
    if (!u.group) { show(u.node); return; }
    u.group.open = true;
    const first = u.group.members[0];
    draw(null);
    go(ofNode[first.i].index, true);
  }

  function mark() {
    things.forEach((g, i) => {
      const members = units[i].node ? [units[i].node] : units[i].group.members;
      g.classList.toggle("hit", hits.length > 0 && members.some(n => n.hit));
      g.classList.toggle("sel", chosen !== null && ofNode[chosen.i] === units[i]);
    });
    const u = chosen && ofNode[chosen.i];
    near.setAttribute("d", u ? [...u.makers.keys()].map(m => curve(m, u)).concat(u.readers.map(r => curve(u, r))).join("") : "");
  }
  function show(n) {
    chosen = n;
    showDetails(panel, n, reveal, () => { panel.hidden = true; chosen = null; mark(); const u = ofNode[n.i]; if (u) go(u.index, true); else box.focus(); });
    mark();
    const u = ofNode[n.i]; // the drawing is narrower now
    if (u) things[u.index].scrollIntoView({block: "nearest", inline: "nearest"});
    panel.focus({preventScroll: true});
  }
  /* Opens the groups around a node and goes there. */
  function reveal(n, focus) {
    if (n.kind === kVariable) { show(n); return; }
    let closed = false;
    for (let g = n.group; g; g = g.parent) if (!g.open) closed = g.open = true;
    if (closed) draw(null);
    go(ofNode[n.i].index, focus);
    things[ofNode[n.i].index].scrollIntoView({block: "center", inline: "center"});
  }
  showNode = n => { select(document.getElementById("tab-graph"), false); reveal(n, true); show(n); };

  const box = search(bar, "search names and types", wanted => {
    for (const n of drawn) n.hit = wanted !== "" && (n.name.toLowerCase().includes(wanted) || n.type.toLowerCase().includes(wanted));
    hits = drawn.filter(n => n.hit);
    hit = -1;
    status.textContent = wanted === "" ? "" : hits.length + " found" + (hits.length ? "; Enter goes to the next" : "");
    mark();
  });
  box.addEventListener("keydown", e => {
    if (e.key !== "Enter" || !hits.length) return;
    hit = (hit + 1) % hits.length;
    reveal(hits[hit], false);
    status.textContent = hit + 1 + " of " + hits.length + ": " + hits[hit].name;
    chosen = hits[hit];
    mark();
  });
  const tool = (label, act) => { const b = make(bar, "button", {class: "tool", type: "button"}, label); b.addEventListener("click", act); };
  if (groups.length) {
    tool("collapse all", () => { groups.forEach(g => { g.open = false; }); draw(null); });
    tool("expand all", () => { groups.forEach(g => { g.open = true; }); draw(null); });
  }
  const status = make(bar, "span", {class: "dim", role: "status"});
  if (data.mesh)
    for (const [words, color] of [["split, axis 0", "split0"], ["axis 1", "split1"], ["further axis", "split2"], ["whole", "whole"], ["part of a sum", "part"], ["transition", "box"]])
      make(make(bar, "span", {class: "key"}), "i").parentNode.append(words), bar.lastChild.firstChild.style.setProperty("--c", `var(--${color})`);
  draw(null);
};
let showNode = () => {};
const placeOf = n => n.place ? text(n.place[0]) + ":" + n.place[1] + ":" + n.place[2] : "";
