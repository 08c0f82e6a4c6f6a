// The frame of the page: title, class, tabs, theme and keys.

import { Ask } from "./ask.js";
import { ask, h, put, say } from "./dom.js";
import { onState, tell } from "./state.js";
import { Review } from "./review.js";
import { Reports } from "./reports.js";
import { Studies } from "./studies.js";

const CLASSES = {
  open: "Open: synthetic data that may be shown to anyone",
  "share-alike": "Share-alike: may be shared under the same licence",
  "no-derivatives": "No derivatives: derived data must stay on this machine",
  credentialed: "Credentialed: only for people who signed the agreement, and only on this machine",
};
const KEYS = [
  ["/", "search"], ["+ / − / 0", "zoom in, out, reset"], ["i", "invert"], ["m", "measure: drag, or arrows (Shift: the other end, Enter: next line)"], ["t", "light or dark"], ["?", "these keys"],
];
const TABS = [["studies", "Studies", Studies], ["reports", "Reports", Reports], ["review", "Review", Review], ["ask", "Ask", Ask]];
const main = document.getElementById("main"), bar = document.getElementById("bar");
const parts = {};
let about, shown;

function theme(next) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const current = localStorage.getItem("theme") ?? (dark ? "dark" : "light");
  const chosen = next ? (current === "dark" ? "light" : "dark") : current;
  document.documentElement.dataset.theme = chosen;
  if (next) localStorage.setItem("theme", chosen);
}

function drawBar(name) {
  const tabs = TABS.filter(([part]) => about[part]).map(([part, title]) =>
    h("a", { href: `?view=${part}`, className: "tab", "aria-current": part === name ? "page" : null, onclick: (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      history.pushState(null, "", `?view=${part}`);
      tell();
    } }, title));
  put(bar, 
    h("a", { className: "brand", href: "./" }, h("img", { src: "static/icon.svg", alt: "", width: 20, height: 20 }), "medvqa-hub"),
    h("nav", { "aria-label": "Parts" }, tabs),
    h("span", { className: "opened" }, parts[name]?.title() ?? ""),
    h("span", { className: `class ${about.governance}`, title: CLASSES[about.governance] }, about.governance),
    h("button", { type: "button", className: "quiet", title: "Light or dark (t)", "aria-label": "Light or dark", onclick: () => theme(true) }, "◑"),
    h("button", { type: "button", className: "quiet keys", title: "Keys (?)", "aria-label": "Keys", onclick: showKeys }, "?"));
}

function showKeys() {
  const keys = [...KEYS, ...(parts[shown]?.keys ?? [])];
  const dialog = h("dialog", { onclose: () => dialog.remove() },
    h("h2", {}, "Keys"),
    h("dl", {}, keys.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
    h("form", { method: "dialog" }, h("button", { type: "submit", autofocus: true }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

function show(current) {
  const known = TABS.filter(([part]) => about[part]);
  const [name, , Part] = known.find(([part]) => part === current.view) ?? known[0];
  if (!(name in parts)) parts[name] = new Part(about[name], about);
  if (shown !== name) {
    put(main, parts[name].element);
    shown = name;
  }
  drawBar(name);
  parts[name].update(current);
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isTyping = event.target.matches("input:not([type=range]), textarea, select");
  if (isTyping) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "?") showKeys();
  else if (event.key === "t") theme(true);
  else if (event.key === "/") { const field = main.querySelector("input[type=search]"); if (!field) return; field.focus(); }
  else if (!parts[shown]?.key?.(event)) return;
  event.preventDefault();
});

theme();
try {
  about = await ask("api/about");
  onState(show);
  tell();
  document.documentElement.dataset.ready = "true";
} catch (error) {
  put(main, h("p", { className: "problem" }, error.message));
  say(error.message, true);
}
