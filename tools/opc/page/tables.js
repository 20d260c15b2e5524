/* The parts that are tables: ops, tasks, states with what they could have been, transitions. */
/* SPDX-License-Identifier: Apache-2.0 */
parts.ops = section => {
  const all = nodes.filter(n => n.kind === kOp), flops = all.reduce((sum, n) => sum + n.flops, 0);
  const costs = flops > 0;
  const heads = ["op", "type", "outputs", "source"].concat(costs ? [">flops", ">share", ">bytes"] : []).concat(measured.size ? [">measured"] : []);
  searchRows(section, "search the ops", heads, all.map(n => [n.name, n.type, typesOf(n).join(" "), placeOf(n)]
    .concat(costs ? [count(n.flops), flops ? digits(100 * n.flops / flops, 3) + " %" : "", bytes(n.bytes)] : [])
    .concat(measured.size ? [measured.has(n.i) ? seconds(measured.get(n.i)) : ""] : [])));
};
parts.tasks = section => searchRows(section, "search the tasks", [">task", ">stream", "op", "kernel"], data.tasks.map((t, i) => [i, t[2], text(t[3]), text(t[1])]));
parts.sbp = section => {
  const moves = (data.moves || []).slice().sort((a, b) => b[5] - a[5]);
  make(section, "h3", {}, "Transitions by bytes");
  if (!moves.length) make(section, "p", {}, "no transitions");
  else table(section, ["tensor", "kind", "from", "to", ">sent by a rank", ">time"], moves.map(m => [text(m[7]), text(m[2]), text(m[3]), text(m[4]), m[5] < 0 ? "with another" : bytes(m[5]), m[5] < 0 ? "" : seconds(m[6])]));
  make(section, "h3", {}, "Tensors: what was chosen, and what else could have been");
  if (data.choices) {
    make(section, "p", {class: "dim"}, "Prices are of the op and of the transitions at its inputs and outputs, all else as it is. Differences are to what was chosen: one may be negative where another op would have had to pay for it.");
    const more = c => c[2] + c[3];
    searchRows(section, "search the tensors", ["tensor", "chosen", "signature", ">cost", "alternatives"], data.choices.list.map(c => {
      const chosen = c.choices.find(x => x[4]) || c.choices[0];
      const others = c.choices.filter(x => x !== chosen).map(x => text(x[0]) + " " + (more(x) < more(chosen) ? "-" : "+") + seconds(Math.abs(more(x) - more(chosen))) + "  " + text(x[1]));
      if (c.possible > c.choices.length) others.push("and " + (c.possible - c.choices.length) + " more");
      return [text(c.tensors), text(chosen[0]), text(chosen[1]), seconds(more(chosen)), others.join("\n")];
    }));
    for (const row of section.querySelectorAll("tbody tr")) if (row.cells.length === 5) row.cells[4].style.whiteSpace = "pre-wrap";
  }
};
/* Tables that stand in the page already. */
for (const box of document.querySelectorAll(".search.rows"))
  box.addEventListener("input", () => {
    for (const row of box.parentElement.querySelectorAll("tbody tr")) row.hidden = !row.textContent.toLowerCase().includes(box.value.toLowerCase());
  });
startTabs();
