/* The part Timeline: what runs when, planned or measured, a line for each stream. */
/* SPDX-License-Identifier: Apache-2.0 */
parts.timeline = section => data.timelines.forEach(line => {
  const end = line.spans.reduce((most, s) => Math.max(most, s[2] + s[3]), 1);
  let zoom = 1;
  make(section, "h3", {}, text(line.title));
  if (line.note) make(section, "p", {class: "dim"}, text(line.note));
  const bar = make(section, "div", {class: "bar"});
  const said = make(section, "p", {role: "status"}, "arrow keys go from task to task, + and - change the scale");
  const scroll = make(section, "div", {class: "scroll"});
  const kinds = ["compute", "comm", "backward", "other"];
  const words = s => text(s[1]) + ": " + seconds(s[3] / 1e9) + " from " + seconds(s[2] / 1e9);
  function draw(focus) {
    const x0 = 170, width = x0 + 880 * zoom + 10, rowHigh = 30, height = 30 + line.lanes.length * rowHigh;
    const x = t => x0 + t / end * (width - x0 - 10);
    const svg = make(null, "svg", {class: "m", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": text(line.title)});
    const ticks = Math.min(200, 5 * zoom);
    for (let i = 0; i <= ticks; ++i) {
      make(svg, "path", {d: `M${x(end * i / ticks)} 20V${height}`});
      make(svg, "text", {class: "t", x: x(end * i / ticks) + (i === ticks ? -4 : 3), y: 14, "text-anchor": i === ticks ? "end" : undefined}, seconds(end * i / ticks / 1e9));
    }
    line.lanes.forEach((name, i) => make(svg, "text", {class: "t", x: 4, y: 44 + i * rowHigh}, clipped(text(name), 24)));
    const things = line.spans.map((s, i) => {
      const e = make(svg, "rect", {class: kinds[s[5]] + (x(s[2] + s[3]) - x(s[2]) < 3 ? " thin" : ""), x: x(s[2]), y: 26 + s[0] * rowHigh, width: Math.max(0.5, x(s[2] + s[3]) - x(s[2])), height: rowHigh - 6, tabindex: -1, role: "img", "aria-label": words(s), "data-i": i});
      make(e, "title", {}, words(s));
      return e;
    });
    line.spans.forEach(s => {
      const columns = Math.floor((x(s[2] + s[3]) - x(s[2]) - 6) / 7);
      if (columns > 4) make(svg, "text", {class: "in", x: x(s[2]) + 4, y: 43 + s[0] * rowHigh}, clipped(text(s[1]), columns));
    });
    const go = rove(svg, things, (i, key) => {
      if (key === "+" || key === "-") { scale(key === "+" ? 2 : 0.5, i); return undefined; }
      const s = line.spans[i], by = {ArrowRight: 1, ArrowLeft: -1}[key], up = {ArrowUp: -1, ArrowDown: 1}[key];
      let to;
      if (by) for (to = i + by; line.spans[to] && line.spans[to][0] !== s[0]; ) to += by;
      if (up) to = line.spans.findIndex(o => o[0] === s[0] + up && o[2] + o[3] >= s[2]);
      if (to !== undefined && line.spans[to]) said.textContent = words(line.spans[to]);
      return to === -1 ? undefined : to;
    }, i => { said.textContent = words(line.spans[i]); if (line.spans[i][4] >= 0 && showNode) said.textContent += ", " + placeOf(nodes[line.spans[i][4]]); });
    scroll.textContent = "";
    scroll.appendChild(svg);
    if (focus !== undefined) go(focus, true);
  }
  function scale(by, focus) { zoom = Math.max(1, Math.min(64, zoom * by)); draw(focus); }
  for (const [label, by] of [["+", 2], ["-", 0.5]]) make(bar, "button", {class: "tool", type: "button", "aria-label": by > 1 ? "larger scale" : "smaller scale"}, label).addEventListener("click", () => scale(by));
  kinds.forEach((k, i) => { if (!line.spans.some(s => s[5] === i)) return; const e = make(make(bar, "span", {class: "key"}), "i"); e.parentNode.append(["compute", "communication", "backward", "update"][i]); e.style.setProperty("--c", `var(--${["act", "box", "var", "const"][i]})`); e.style.setProperty("--f", "var(--c)"); });
  draw();
});
