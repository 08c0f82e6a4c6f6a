// Versions of a report or rating: their history, and the choice between two versions field by field.

import { h } from "./dom.js";

const FIELDS = ["report_type", "image_type", "image_quality"];
const PARTS = { key_values: "pair", table: "row" };

// An annotation as a map from the name of a field, pair or row to its value.
export function split(annotation) {
  const found = new Map(FIELDS.map((name) => [name.replace("_", " "), { name, value: annotation[name] }]));
  for (const [part, title] of Object.entries(PARTS)) {
    const seen = {};
    for (const value of annotation[part]) {
      const count = seen[value[0]] = (seen[value[0]] ?? 0) + 1;
      found.set(`${title} ${value[0] || "without a name"}${count > 1 ? ` (${count})` : ""}`, { name: part, value });
    }
  }
  return found;
}

export function join(fields) {
  const annotation = { key_values: [], table: [] };
  for (const { name, value } of fields.values()) {
    if (name in PARTS) annotation[name].push(value);
    else annotation[name] = value;
  }
  return annotation;
}

const text = (field) => (field === undefined ? "(absent)" : [field.value].flat().join(" | ") || "(empty)");
const same = (one, other) => JSON.stringify(one?.value) === JSON.stringify(other?.value);

// The chosen fields, or null if the dialog was closed. What only one side changed since `base` is chosen already.
export function choose(title, mine, theirs, names, base = null) {
  const all = [...new Set([...mine.keys(), ...theirs.keys()])];
  const open = all.filter((name) => !same(mine.get(name), theirs.get(name)));
  const chosen = new Map();
  if (base) for (const name of open) {
    if (same(base.get(name), mine.get(name))) chosen.set(name, theirs);
    else if (same(base.get(name), theirs.get(name))) chosen.set(name, mine);
  }
  const button = h("button", { type: "submit", className: "primary", value: "save" });
  const count = () => { const left = open.length - chosen.size; button.disabled = left > 0; button.textContent = left ? `${left} to choose` : "Save the choice"; };
  count();
  return show(title, open.map((name, place) => h("fieldset", {}, h("legend", {}, name), [mine, theirs].map((side, number) =>
    h("label", { className: "choice" },
      h("input", { type: "radio", name: `field ${place}`, checked: chosen.get(name) === side, onchange: () => { chosen.set(name, side); count(); } }),
      h("span", {}, h("b", {}, names[number]), " ", text(side.get(name))))))), button).then((answer) => {
    if (answer !== "save") return null;
    const kept = all.map((name) => [name, (chosen.get(name) ?? mine).get(name)]);
    return new Map(kept.filter(([, field]) => field !== undefined));
  });
}

// Lists versions, newest first. Resolves to the version to restore, or null.
export function showHistory(versions) {
  const lines = [...versions].reverse().map((edit, place) => h("tr", {},
    h("td", {}, edit.version), h("td", {}, edit.author), h("td", {}, edit.time.replace("T", " ").slice(0, 16)), h("td", {}, edit.changed.join(", ").replaceAll("_", " ")),
    h("td", {}, place === 0 ? "current" : h("button", { type: "submit", value: edit.version, "aria-label": `Restore version ${edit.version}` }, "Restore"))));
  const table = lines.length ? h("table", {}, h("thead", {}, h("tr", {}, ["", "Author", "Time (UTC)", "Changed", ""].map((name) => h("th", {}, name)))), h("tbody", {}, lines)) : h("p", {}, "Nobody has saved this yet.");
  return show("History", table).then((answer) => versions.find((edit) => String(edit.version) === answer) ?? null);
}

function show(title, content, button = null) {
  const dialog = h("dialog", { className: "versions" }, h("form", { method: "dialog" }, h("h2", {}, title), h("div", { className: "versions-list" }, content),
    h("p", { className: "pager" }, button, h("button", { type: "submit", value: "" }, "Close")))); // Enter takes the first
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue); }));
}

// The name under which edits are saved. Returns null, and moves to its field, if there is none.
export function author() {
  const name = localStorage.getItem("author")?.trim();
  if (!name) document.querySelector("input.author")?.focus();
  return name || null;
}

export const authorField = () => h("input", { className: "author", value: localStorage.getItem("author") ?? "", maxLength: 64, placeholder: "Your name", "aria-label": "Your name, saved with each edit", oninput: (event) => localStorage.setItem("author", event.target.value) });
