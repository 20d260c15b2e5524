/* What is known of a node, beside the graph. */
/* SPDX-License-Identifier: Apache-2.0 */
const tasksOf = new Map();
for (const [node, kernel, stream] of data.tasks || []) if (node >= 0) tasksOf.set(node, (tasksOf.get(node) || []).concat([[kernel, stream]]));
const measured = new Map(); // seconds by node
for (const line of data.timelines || [])
  if (line.measured) for (const s of line.spans) if (s[4] >= 0) measured.set(s[4], (measured.get(s[4]) || 0) + s[3] / 1e9);

function showDetails(panel, n, go, close) {
  panel.textContent = "";
  panel.hidden = false;
  make(panel, "h3", {}, n.name);
  const t = make(make(panel, "table"), "tbody");
  const line = (head, words) => { if (words === undefined || words === "") return; const r = make(t, "tr"); make(r, "th", {scope: "row"}, head); return make(r, "td", {}, words); };
  const links = (head, list) => list.forEach(([words, node], i) => {
    const c = line(i ? "" : head, node ? null : words);
    if (c && node) make(c, "button", {class: "tool", type: "button"}, words).addEventListener("click", () => go(node, true));
  });
  line("type", n.type + (n.lane ? ", " + kLanes[n.lane] : ""));
  line("source", placeOf(n));
  line("made at", n.loc ? text(n.loc) : "");
  line("device", n.device ? text(n.device) : "");
  const reads = [];
  for (let k = 0; k < n.reads.length; k += 3) {
    const maker = n.reads[k] < 0 ? null : nodes[n.reads[k]];
    const made = maker && (maker.makes.find(m => m[0] === n.reads[k + 2]) || maker.makes[0]);
    reads.push([text(n.reads[k + 1]) + ": " + (maker ? maker.name + (made ? " " + text(made[1]) : "") : "?"), maker]);
  }
  links("reads", reads);
  n.makes.forEach((m, i) => line(i ? "" : "makes", text(m[0]) + " " + text(m[1])));
  links("read by", nodes.filter(r => r.reads.some((m, k) => k % 3 === 0 && m === n.i)).map(r => [r.name, r]));
  for (const [key, value] of n.attrs || []) line(text(key), text(value));
  for (const [kernel, stream] of tasksOf.get(n.i) || []) line("kernel", text(kernel) + (stream ? ", stream " + stream : ""));
  if (n.kind === kOp && (n.flops || n.bytes)) line("cost", count(n.flops) + " flops, " + bytes(n.bytes) + " read and written");
  if (measured.has(n.i)) line("measured", seconds(measured.get(n.i)));
  const choice = data.choices && data.choices.list.find(c => c.node === n.i);
  if (choice) {
    const chosen = choice.choices.find(c => c[4]);
    if (chosen) line("signature", text(chosen[1]));
  }
  n.makes.forEach(m => { const move = moveOf(n.i, m[0]); for (const s of move ? move.steps : []) line("transition", text(s[3]) + " -> " + text(s[4]) + ": " + text(s[2]) + (s[5] < 0 ? " with others" : " " + bytes(s[5]))); });
  const b = make(panel, "button", {class: "tool", type: "button"}, "close (Escape)");
  b.addEventListener("click", close);
  panel.onkeydown = e => { if (e.key === "Escape") { e.preventDefault(); close(); } };
}
