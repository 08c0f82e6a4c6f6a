// Rate a sample with the keyboard: a number chooses a category, Enter opens the next item.

import { ask, h, number, put, say } from "./dom.js";
import { go, state } from "./state.js";
import { choose, showHistory } from "./versions.js";
import { noView, Viewer, viewOf } from "./viewer.js";

export class Review {
  constructor(about) {
    this.about = about;
    this.keys = [["1 – 3", "choose a category"], ["↑ / ↓", "choose a dimension"], ["Enter or →", "next item"], ["←", "item before"], ["u", "first unrated item"], ["c", "comment"], ["z", "undo"], ["h", "history"], ["f / s", "flag, or skip"]];
    this.viewer = new Viewer({ onchange: (view) => go(view, { replace: true, quiet: true }) });
    this.element = h("div", { className: "part review-part" });
    this.active = 0;
  }

  title() {
    return `${number(this.about.items)} items, blinded`;
  }

  async update(current) {
    const rater = current.rater ?? (this.about.raters.length === 1 ? this.about.raters[0] : null);
    if (!rater) {
      put(this.element, h("section", { className: "choose" }, h("h1", {}, "Choose a rater"), h("p", {}, "Each rater has their own order. Ratings are saved at once. You can stop and continue later."),
        h("p", {}, this.about.raters.map((name) => h("button", { type: "button", onclick: () => go({ rater: name, item: null }) }, name)))));
      this.shown = null;
      return;
    }
    const wanted = JSON.stringify([rater, current.item]);
    if (wanted === this.shown) { this.showImage(current); return; }
    this.shown = wanted;
    try {
      const found = await ask("api/review_item", { rater, number: current.item });
      if (wanted !== this.shown) return;
      this.rater = rater;
      this.item = found;
      if (!current.item) { this.shown = JSON.stringify([rater, String(found.number)]); go({ rater, item: found.number }, { replace: true, quiet: true }); }
      const open = this.about.dimensions.findIndex(({ name }) => !(name in found.ratings));
      this.active = open < 0 ? 0 : open;
      this.image = null;
      this.draw();
    } catch (error) {
      put(this.element, h("p", { className: "problem" }, error.message));
    }
  }

  draw() {
    const { item, about } = this, done = item.done.filter(Boolean).length;
    this.films = h("div", { className: "films", role: "tablist", "aria-label": "Images" });
    this.form = h("form", { className: "ratings", onsubmit: (event) => event.preventDefault() });
    this.comment = h("textarea", { rows: 2, value: item.comment, "aria-label": "Comment", placeholder: "Comment (c)", onchange: () => this.save({}) });
    this.progress = h("progress", { max: about.items, value: done });
    this.counted = h("span", {}, `${done} of ${about.items} rated`);
    put(this.element,
      h("section", { className: "pictures" }, h("header", {}, h("h1", {}, `Item ${item.number} of ${about.items}`), h("span", { className: "patient" }, `rater ${this.rater}`), this.films),
        item.images ? this.viewer.element : h("p", { className: "quiet-text" }, "The sample was exported without images."),
        h("section", { className: "report", "aria-label": "Report" }, ["indication", "findings"].filter((name) => item[name]).map((name) => [h("h2", {}, name), h("p", {}, item[name])]))),
      h("section", { className: "rating", "aria-label": "Ratings" },
        h("p", { className: "progress" }, this.progress, this.counted),
        h("div", { className: "pair" }, h("p", { className: "asked" }, item.question), h("p", { className: "answer" }, item.answer)),
        this.form, this.comment, this.marks = h("div", { className: "marks" }),
        h("div", { className: "pager" }, h("button", { type: "button", disabled: item.number === 1, onclick: () => this.step(-1) }, "← Before"), h("button", { type: "button", className: "primary", disabled: item.number === about.items, onclick: () => this.step(1) }, "Next (Enter) →"))));
    this.drawForm();
    this.showImage(state());
  }

  drawForm() {
    const { mark, version } = this.item, marker = (name, label) => h("button", { type: "button", "aria-pressed": String(mark === name), onclick: () => this.setMark(name) }, mark === name ? name : label);
    put(this.marks, marker("flagged", "Flag (f)"), marker("skipped", "Skip (s)"), h("button", { type: "button", disabled: !version, onclick: () => this.undo() }, "Undo (z)"), h("button", { type: "button", disabled: !version, onclick: () => this.showHistory() }, "History (h)"));
    put(this.form, this.about.dimensions.map(({ name, title, asks, categories }, place) =>
      h("fieldset", { className: [place === this.active && "active", this.item.chosen?.[name] && "pending"].filter(Boolean).join(" "), onclick: () => { this.active = place; this.mark(); } },
        h("legend", {}, title), h("p", { className: "quiet-text" }, asks),
        categories.map((category, key) => h("label", { className: "choice", title: category.means },
          h("input", { type: "radio", name, value: category.name, checked: (this.item.chosen?.[name] ?? this.item.ratings[name]) === category.name, onchange: () => this.choose(place, key) }),
          h("kbd", {}, key + 1), h("span", {}, h("b", {}, category.name), h("small", {}, category.means)))))));
  }

  mark() {
    [...this.form.children].forEach((field, place) => field.classList.toggle("active", place === this.active));
    this.form.children[this.active]?.scrollIntoView({ block: "nearest" });
  }

  // The next dimension is selected at once. A choice is pale until it is saved.
  choose(place, key) {
    const { name, categories } = this.about.dimensions[place], { item } = this;
    if (!categories[key]) return;
    item.chosen = { ...item.chosen, [name]: categories[key].name };
    const open = this.about.dimensions.findIndex((dimension) => !(dimension.name in { ...item.ratings, ...item.chosen }));
    this.active = open >= 0 ? open : place;
    this.drawForm();
    this.mark();
    this.save({ [name]: categories[key].name });
  }

  setMark(name) {
    const isSet = this.item.mark !== name;
    this.save({}, isSet ? name : "");
    if (isSet && name === "skipped") this.saving.then(() => this.step(1));
  }

  // The fields of another version, as an edit of the current one.
  restore({ comment = "", mark = "", ...ratings } = {}) {
    const cleared = Object.fromEntries(Object.keys(this.item.ratings).map((name) => [name, ""]));
    this.comment.value = comment;
    this.save({ ...cleared, ...ratings }, mark);
  }

  undo() {
    if (this.item.version) this.restore(this.item.history.at(-2)?.state);
  }

  async showHistory() {
    const versions = this.item.history.map((edit, place, all) => ({ ...edit, author: this.rater, changed: Object.keys(edit.state).filter((name) => edit.state[name] !== (all[place - 1]?.state[name] ?? "")) }));
    const chosen = await showHistory(versions);
    if (chosen) this.restore(chosen.state);
  }

  // Saves run one after another.
  save(ratings, mark = null) {
    const { item, comment } = this;
    this.saving = (this.saving ?? Promise.resolve()).then(() => this.send(item, { ratings, mark, comment: comment.value }));
  }

  async send(item, edit) {
    try {
      const kept = await ask("api/save_rating", {}, { rater: this.rater, item: item.item, edit: { ...edit, base: item.version } });
      this.keep(item, kept);
      say(kept.is_done ? "Saved. Press Enter for the next item." : "Saved.");
    } catch (error) {
      if (error.status === 409) await this.merge(item, edit);
      else say(error.message, true);
    }
    for (const [name, value] of Object.entries(edit.ratings)) if (item.chosen?.[name] === value) delete item.chosen[name];
    if (item !== this.item) return;
    const done = item.done.filter(Boolean).length;
    this.progress.value = done;
    this.counted.textContent = `${done} of ${this.about.items} rated`;
    this.drawForm();
  }

  keep(item, { is_done, ...kept }) {
    Object.assign(item, kept);
    item.done[item.number - 1] = is_done ?? Object.keys(kept.ratings).length === this.about.dimensions.length;
  }

  // The same rater has saved this item in another tab: both are shown.
  async merge(item, edit) {
    const { number: _, done: __, ...theirs } = await ask("api/review_item", { rater: this.rater, number: item.number });
    const fields = (ratings, comment) => new Map(Object.entries({ ...ratings, comment }).filter(([, value]) => value).map(([name, value]) => [name, { name, value }]));
    const mine = fields({ ...item.ratings, ...edit.ratings }, edit.comment), base = fields(item.ratings, item.comment);
    const chosen = await choose("This item was rated in another tab in the meantime", mine, fields(theirs.ratings, theirs.comment), ["this tab", "the other tab"], base);
    this.keep(item, theirs);
    this.comment.value = theirs.comment;
    if (!chosen) return;
    const values = Object.fromEntries([...chosen.values()].map(({ name, value }) => [name, value]));
    const { comment = "", ...ratings } = values;
    this.comment.value = comment;
    const cleared = Object.fromEntries(Object.keys(theirs.ratings).map((name) => [name, ""]));
    await this.send(item, { ...edit, ratings: { ...cleared, ...ratings }, comment });
  }

  step(direction) {
    const next = this.item.number + direction;
    if (next >= 1 && next <= this.about.items) go({ item: next, image: null, ...noView });
  }

  showImage(current) {
    const shown = Math.min(Number(current.image ?? 0), this.item.images - 1);
    if (!this.item.images || this.image === shown) return;
    this.image = shown;
    put(this.films, Array.from({ length: this.item.images }, (_, place) => h("button", { type: "button", role: "tab", "aria-selected": String(place === shown), onclick: () => go({ image: place || null, ...noView }) }, `image ${place + 1}`)));
    this.viewer.show(`review_image?${new URLSearchParams({ rater: this.rater, item: this.item.item, number: shown })}`, `Image ${shown + 1} of the item`, viewOf(current));
  }

  key(event) {
    if (!this.item || !this.form?.isConnected) return false;
    const moves = { ArrowUp: -1, ArrowDown: 1 };
    if (/^[1-9]$/.test(event.key)) this.choose(this.active, Number(event.key) - 1);
    else if (event.key in moves && document.activeElement !== this.viewer.stage) { this.active = (this.active + moves[event.key] + this.about.dimensions.length) % this.about.dimensions.length; this.mark(); }
    else if ((event.key === "Enter" && event.target.tagName !== "BUTTON") || (event.key === "ArrowRight" && document.activeElement !== this.viewer.stage)) this.step(1);
    else if (event.key === "ArrowLeft" && document.activeElement !== this.viewer.stage) this.step(-1);
    else if (event.key === "u") go({ item: null, image: null, ...noView });
    else if (event.key === "c") this.comment.focus();
    else if (event.key === "z") this.undo();
    else if (event.key === "h") this.showHistory();
    else if (event.key === "f" || event.key === "s") this.setMark({ f: "flagged", s: "skipped" }[event.key]);
    else return this.viewer.key(event);
    return true;
  }
}
