/* What all parts of a report share: the data, elements made of texts alone, numbers for people, tabs. */
/* SPDX-License-Identifier: Apache-2.0 */
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const text = i => data.texts[i];

/* Names are only ever texts and attribute values: no string becomes markup. */
function make(parent, tag, attributes, words) {
  const svg = parent && parent.namespaceURI === "http://www.w3.org/2000/svg" || tag === "svg";
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const key in attributes) if (attributes[key] !== undefined) e.setAttribute(key, attributes[key]);
  if (words !== undefined) e.textContent = words;
  if (parent) parent.appendChild(e);
  return e;
}
function table(parent, heads, rows) {
  const t = make(parent, "table");
  const head = make(make(t, "thead"), "tr");
  heads.forEach(h => make(head, "th", {scope: "col", class: h[0] === ">" ? "n" : undefined}, h.replace(/^>/, "")));
  const body = make(t, "tbody");
  for (const row of rows) {
    const line = make(body, "tr");
    row.forEach((c, i) => make(line, "td", {class: heads[i] && heads[i][0] === ">" ? "n" : undefined}, c));
  }
  return t;
}
function search(parent, label, onInput) {
  const box = make(parent, "input", {class: "search", type: "search", "aria-label": label, placeholder: label});
  box.addEventListener("input", () => onInput(box.value.toLowerCase()));
  return box;
}
/* A search that hides the rows without its text. */
function searchRows(parent, label, heads, rows) {
  const bar = make(parent, "div", {class: "bar"});
  const box = search(bar, label, wanted => {
    let shown = 0;
    for (const row of t.tBodies[0].rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
      shown += !row.hidden;
    }
    count.textContent = wanted ? shown + " of " + rows.length : "";
  });
  const count = make(bar, "span", {class: "dim", role: "status"});
  const t = table(parent, heads, rows);
  return box;
}

const digits = (v, n) => String(Number(v.toPrecision(n)));
const count = n => Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ",");
function bytes(n) {
  let unit = 0;
  while (n >= 1024 && unit < 5) { n /= 1024; ++unit; }
  return digits(n, 4) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit];
}
function seconds(s) {
  if (!s) return "0 s";
  const unit = s >= 1 ? 0 : s >= 1e-3 ? 1 : s >= 1e-6 ? 2 : 3;
  return digits(s * [1, 1e3, 1e6, 1e9][unit], 3) + " " + ["s", "ms", "us", "ns"][unit];
}
const clipped = (name, columns) => { const c = [...name]; return c.length > columns ? c.slice(0, columns - 2).join("") + ".." : name; };

/* Things in a drawing, of which one is in the order of the keyboard: arrows go from one to the next. */
function rove(holder, things, next, act) {
  let at = -1;
  function go(i, focus) {
    if (i < 0 || !things[i]) return;
    if (things[at]) things[at].setAttribute("tabindex", -1);
    at = i;
    things[i].setAttribute("tabindex", 0);
    if (focus) { things[i].focus({preventScroll: true}); things[i].scrollIntoView({block: "nearest", inline: "nearest"}); }
  }
  const indexOf = e => { for (; e && e !== holder; e = e.parentNode) if (e.dataset && e.dataset.i !== undefined) return Number(e.dataset.i); return -1; };
  holder.onkeydown = e => {
    const i = indexOf(e.target);
    if (i < 0 || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "Enter" || e.key === " ") { e.preventDefault(); act(i); return; }
    const to = e.key === "Home" ? 0 : e.key === "End" ? things.length - 1 : next(i, e.key);
    if (to === undefined) return;
    e.preventDefault();
    go(to, true);
  };
  holder.onclick = e => { const i = indexOf(e.target); if (i >= 0) { go(i, true); act(i); } };
  holder.addEventListener("focusin", e => { const i = indexOf(e.target); if (i >= 0 && i !== at) go(i, false); });
  go(0, false);
  return go;
}

/* Parts that are drawn when they are first looked at, or printed. */
const parts = {};
function drawPart(id) {
  const section = document.getElementById(id);
  if (!parts[id] || !section || section.dataset.drawn) return;
  section.dataset.drawn = "yes";
  parts[id](section);
  performance.mark("drawn-" + id);
}
const tabs = [...document.querySelectorAll("[role=tab]")];
function select(tab, focus) {
  for (const t of tabs) {
    const on = t === tab;
    t.setAttribute("aria-selected", on);
    t.tabIndex = on ? 0 : -1;
    document.getElementById(t.getAttribute("aria-controls")).hidden = !on;
  }
  drawPart(tab.getAttribute("aria-controls"));
  if (focus) tab.focus();
}
function startTabs() {
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => select(tab, false));
    tab.addEventListener("keydown", e => {
      const to = {ArrowRight: i + 1, ArrowLeft: i - 1 + tabs.length, Home: 0, End: tabs.length - 1}[e.key];
      if (to === undefined) return;
      e.preventDefault();
      select(tabs[to % tabs.length], true);
    });
  });
  document.querySelector("[role=tablist]").hidden = false;
  const named = () => tabs.find(t => "#" + t.getAttribute("aria-controls") === location.hash);
  select(named() || tabs[0], false);
  addEventListener("hashchange", () => { if (named()) select(named(), false); });
  addEventListener("beforeprint", () => tabs.forEach(t => drawPart(t.getAttribute("aria-controls"))));
  document.documentElement.dataset.ready = "yes";
}
