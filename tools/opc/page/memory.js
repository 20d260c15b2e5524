/* The part Memory: addresses over steps of the plan, and what lies there when most is alive. */
/* SPDX-License-Identifier: Apache-2.0 */
parts.memory = section => {
  const m = data.memory, stays = s => s[1] > 1; // kinds: activation, workspace, then those that stay
  const kinds = ["activation", "workspace", "input", "variable", "constant", "graph"];
  const steps = Math.max(1, ...m.slots.filter(s => !stays(s)).map(s => s[5] + 1));
  const width = 1000, height = 460, x0 = 80, y0 = 28, w = width - x0 - 10, h = height - y0 - 28;
  const x = t => x0 + t / steps * w, y = a => y0 + (1 - a / Math.max(1, m.arena)) * h;
  const bar = make(section, "div", {class: "bar"});
  kinds.forEach((k, i) => { const e = make(make(bar, "span", {class: "key"}), "i"); e.parentNode.append(k); e.style.setProperty("--c", `var(--${["act", "work", "input", "var", "const", "split2"][i]})`); e.style.setProperty("--f", "var(--c)"); });
  const scroll = make(section, "div", {class: "scroll"}), said = make(section, "p", {role: "status"}, "arrow keys go from buffer to buffer");
  const svg = make(null, "svg", {class: "m", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "memory: addresses over steps"});
  for (let i = 0; i <= 4; ++i) {
    make(svg, "path", {d: `M${x0} ${y(m.arena * i / 4)}H${width - 10}`});
    make(svg, "text", {class: "t", x: x0 - 6, y: y(m.arena * i / 4) + 4, "text-anchor": "end"}, bytes(m.arena * i / 4));
  }
  const words = s => text(s[0]) + ": " + kinds[s[1]] + ", " + bytes(s[3]) + " at " + count(s[2]) + (stays(s) ? ", stays" : ", steps " + s[4] + " to " + s[5]);
  const things = m.slots.map((s, i) => {
    const a = stays(s) ? 0 : s[4], b = stays(s) ? steps : s[5] + 1;
    const e = make(svg, "rect", {class: kinds[s[1]] + (x(b) - x(a) < 3 || y(s[2]) - y(s[2] + s[3]) < 3 ? " thin" : ""), x: x(a), y: y(s[2] + s[3]), width: x(b) - x(a), height: y(s[2]) - y(s[2] + s[3]), tabindex: -1, role: "img", "aria-label": words(s), "data-i": i});
    make(e, "title", {}, words(s));
    return e;
  });
  make(svg, "path", {class: "peak", d: `M${x0} ${y(m.arena)}H${width - 10}`});
  make(svg, "text", {class: "t", x: x0, y: y0 - 10}, "peak " + bytes(m.arena));
  make(svg, "text", {class: "t", x: x0, y: height - 8}, "step 0");
  make(svg, "text", {class: "t", x: width - 10, y: height - 8, "text-anchor": "end"}, "step " + (steps - 1));
  const order = m.slots.map((_, i) => i).sort((a, b) => m.slots[a][4] - m.slots[b][4] || m.slots[a][2] - m.slots[b][2]), at = [];
  order.forEach((slot, i) => { at[slot] = i; });
  const act = i => { said.textContent = words(m.slots[i]); };
  rove(svg, things, (i, key) => {
    const by = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[key], to = by && order[at[i] + by];
    if (to !== undefined) act(to);
    return to;
  }, act);
  scroll.appendChild(svg);
  const change = new Array(steps + 1).fill(0);
  for (const s of m.slots) if (!stays(s)) { change[s[4]] += s[3]; change[s[5] + 1] -= s[3]; }
  let live = 0, most = -1, peak = 0;
  for (let t = 0; t < steps; ++t) if ((live += change[t]) > most) { most = live; peak = t; }
  const there = m.slots.filter(s => stays(s) || s[4] <= peak && s[5] >= peak).sort((a, b) => b[3] - a[3]);
  make(section, "h3", {}, "The largest buffers at step " + peak + ", where most is alive");
  table(section, ["buffer", "kind", ">size", ">address", ">steps"], there.slice(0, 20).map(s => [text(s[0]), kinds[s[1]], bytes(s[3]), count(s[2]), stays(s) ? "all" : s[4] + " to " + s[5]]));
};
