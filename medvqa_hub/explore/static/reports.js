// Report pages: boxes over the image, restored text beside it, and the annotation, which can be corrected and saved.

import { ask, h, number, put, say, select, svg } from "./dom.js";
import { go, state } from "./state.js";
import { author, authorField, choose, join, showHistory, split } from "./versions.js";

const NAMELESS = "Enter your name. It is saved with each edit.";
const STATUS = { saved: "saved", annotated: "annotated", draft: "draft", none: "no annotation" };

export class Reports {
  constructor(about) {
    this.about = about;
    this.keys = [["j / k", "next or previous report"], ["e", "edit the first field"], ["Ctrl+Enter", "save the correction"], ["z", "undo the removal of a row"], ["h", "history"], ["f / s", "flag, or skip"], ["d", "decide between two annotators"], ["b", "move boxes: Tab to one, arrows move it (Shift: further)"]];
    this.filters = h("form", { className: "filters", role: "search", onsubmit: (event) => event.preventDefault() });
    this.count = h("p", { className: "count", "aria-live": "polite" });
    this.list = h("ol", { className: "studies", "aria-label": "Reports" });
    this.pager = h("div", { className: "pager" });
    this.detail = h("article", { className: "report-detail" });
    this.element = h("div", { className: "part reports-part" },
      h("aside", { className: "side" }, this.filters, this.count, this.list, this.pager), this.detail);
    this.element.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key === "Enter") { event.preventDefault(); this.save(); }
    });
    addEventListener("beforeunload", (event) => { if (this.isChanged) event.preventDefault(); });
  }

  title() {
    return `${this.about.folder} · ${number(this.about.reports)} reports${this.about.saves ? ` · corrections are saved in ${this.about.saves}` : ""}`;
  }

  async update(current) {
    const asked = JSON.stringify([current.find, current.status, current.at]), turn = this.turn = (this.turn ?? 0) + 1;
    if (asked !== this.asked) {
      this.asked = asked;
      this.drawFilters(current);
      this.loading = this.load(current);
    }
    await this.loading;
    if (turn !== this.turn) return; // a later state has been asked for meanwhile
    const path = current.report ?? this.page?.reports[0]?.path;
    if (path === undefined) { this.shown = null; put(this.detail, h("p", { className: "empty" }, "No report matches.")); return; }
    if (path !== this.shown) {
      if (this.isChanged && !confirm(`The correction of ${this.shown} is not saved. Leave it?`)) {
        go({ report: this.shown }, { quiet: true });
        return;
      }
      this.isChanged = false;
      this.shown = path;
      await this.open(path);
    }
    this.mark();
  }

  drawFilters(current) {
    const set = (name) => (value) => go({ [name]: value || null, at: null, report: null });
    put(this.filters,
      h("label", { className: "field wide" }, h("span", {}, "Search"), h("input", { type: "search", value: current.find ?? "", placeholder: "file name", "aria-label": "Search file names", onchange: (event) => set("find")(event.target.value) })),
      this.about.saves ? select("Corrected", current.status ?? "", [["", "any"], ["saved", "saved"], ["open", "not yet"], ["flagged", "flagged"], ["skipped", "skipped"], ...(this.about.compared ? [["differ", "annotators differ"], ["agree", "annotators agree"]] : [])], set("status")) : null,
      this.about.compared ? this.drawAgreement(this.about.compared) : null);
  }

  drawAgreement({ names, reports, equal, key_values, table, verdicts }) {
    const percent = (share) => (share === null ? "–" : `${(share * 100).toFixed(1)}%`), decimal = (value) => (value === null ? "–" : value.toFixed(2));
    return h("p", { className: "wide agreement" }, `${names.join(" and ")}: ${reports} reports by both, ${equal} equal. Pairs ${percent(key_values)}, rows ${percent(table)}, verdicts ${percent(verdicts.agreement)} of ${verdicts.rows} (kappa ${decimal(verdicts.kappa)}, AC1 ${decimal(verdicts.ac1)}).`);
  }

  // Chooses between the annotations of two people field by field.
  async adjudicate() {
    const { compared } = this.report;
    if (!author()) { say(NAMELESS, true); return; }
    if (compared.length < 2) { say("Not both annotators have corrected this report."); return; }
    const fields = await choose(`Decide on ${this.shown}`, ...compared.map(({ annotation }) => split(annotation)), compared.map(({ name }) => name));
    if (fields) await this.send({ annotation: join(fields) });
  }

  async load(current) {
    try {
      this.page = await ask("api/reports", { text: current.find, status: current.status, at: current.at });
      this.drawList(current);
    } catch (error) {
      say(error.message, true);
    }
  }

  drawList(current) {
    const { page } = this;
    this.count.textContent = `${number(page.total)} ${page.total === 1 ? "report" : "reports"}`;
    put(this.list, page.reports.map((report) => h("li", { dataset: { report: report.path } },
      h("a", { href: `?${new URLSearchParams({ ...current, view: "reports", report: report.path })}`, onclick: (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        go({ report: report.path });
      } },
      h("b", {}, report.path), h("span", {}), h("span", { className: `state ${report.mark || report.status}` }, report.mark || STATUS[report.status]),
      h("span", { className: "strip patient" }, [report.type, report.quality && `${report.quality} quality`].filter(Boolean).join(" · ")), h("span", { className: "asked" }, report.values === null ? "" : `${report.values} entries`)))));
    put(this.pager, page.previous === null && page.next === null ? null : [
      h("button", { type: "button", disabled: page.previous === null, onclick: () => go({ at: page.previous || null, report: null }) }, "← Previous"),
      h("button", { type: "button", disabled: page.next === null, onclick: () => go({ at: page.next, report: null }) }, "Next →")]);
  }

  mark() {
    for (const item of this.list.children) {
      const isShown = item.dataset.report === this.shown;
      item.firstElementChild.setAttribute("aria-current", String(isShown));
      if (isShown) item.scrollIntoView({ block: "nearest" });
    }
  }

  async open(path) {
    this.detail.setAttribute("aria-busy", "true");
    try {
      const report = await ask("api/report", { path });
      if (path === this.shown) this.draw(report);
    } catch (error) {
      put(this.detail, h("p", { className: "problem" }, error.message));
    } finally {
      this.detail.removeAttribute("aria-busy");
    }
  }

  draw(report) {
    this.report = report;
    this.isChanged = false;
    this.removed = [];
    this.corners = null;
    this.boxes = new Map();
    this.texts = new Map();
    put(this.detail, this.drawImage(report),
      h("div", { className: "reading" }, this.drawText(report), this.drawAnnotation(report)));
  }

  drawImage({ path, page }) {
    const image = h("img", { src: `page_image?${new URLSearchParams({ path })}`, alt: `Report ${path}`, draggable: false });
    image.onerror = async () => {
      const found = await fetch(image.src).then((answer) => answer.json()).catch(() => null);
      image.replaceWith(h("p", { className: "problem" }, found?.error ?? "The image cannot be read."));
    };
    let zoom = 1;
    const sheet = h("div", { className: "sheet" }, image, page && svg("svg", { viewBox: `0 0 ${page.width} ${page.height}`, class: "boxes", "aria-hidden": "true" },
      page.boxes.map((box, place) => {
        const shape = svg("polygon", { points: box.points.map((point) => point.join(",")).join(" "), onmouseenter: () => this.point(place, true), onmouseleave: () => this.point(place, false), onclick: () => this.texts.get(place)?.scrollIntoView({ block: "center" }) }, svg("title", {}, `${box.text} (${box.score.toFixed(2)})`));
        this.listenToBox(shape, place);
        this.boxes.set(place, shape);
        return shape;
      })));
    const resize = (factor) => { zoom = Math.min(6, Math.max(1, zoom * factor)); sheet.style.width = `${zoom * 100}%`; shown.textContent = `${zoom.toFixed(1)}×`; };
    this.zoomBy = resize;
    const shown = h("output", { className: "zoomed" }, "1.0×");
    const facts = page ? `${page.width} × ${page.height} · ${page.image_type} · ${page.quality} quality: ${page.quality_reason}` : "No restored page. Run medvqa-hub meddqa esra.";
    return h("section", { className: "pictures" },
      h("header", {}, h("h1", {}, path), h("span", { className: "zooming" },
        h("button", { type: "button", className: "quiet", title: "Ask about this report (a)", onclick: () => this.askAbout() }, "Ask"),
        page && this.about.saves !== null ? h("button", { type: "button", className: "quiet", title: "Move boxes (b)", onclick: () => this.moveBoxes() }, "Boxes") : null,
        h("button", { type: "button", "aria-label": "Zoom out (-)", onclick: () => resize(1 / 1.3) }, "−"), shown, h("button", { type: "button", "aria-label": "Zoom in (+)", onclick: () => resize(1.3) }, "+")), h("p", { className: "facts" }, facts)),
      h("div", { className: "paper", tabIndex: 0, role: "group", "aria-label": "Report image with boxes" }, sheet));
  }

  // Boxes can be focused and moved, with the arrow keys or the pointer.
  moveBoxes() {
    if (!this.report?.page || this.about.saves === null) return;
    this.corners ??= this.report.page.boxes.map((box) => box.points.map((point) => [...point]));
    for (const [place, shape] of this.boxes) { shape.setAttribute("tabindex", 0); shape.setAttribute("role", "button"); shape.setAttribute("aria-label", `Box ${place + 1}: ${this.report.page.boxes[place].text}`); }
    this.boxes.get(0)?.closest("svg").removeAttribute("aria-hidden");
    this.boxes.get(0)?.focus();
    say("Arrow keys move the box, with Shift further. Save with Ctrl+Enter.");
  }

  move(place, dx, dy) {
    this.corners[place] = this.corners[place].map(([x, y]) => [x + dx, y + dy]);
    this.boxes.get(place).setAttribute("points", this.corners[place].map((point) => point.join(",")).join(" "));
    this.changed();
  }

  listenToBox(shape, place) {
    shape.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!this.corners || !step) return;
      event.preventDefault();
      this.move(place, ...step.map((value) => value * (event.shiftKey ? 10 : 1)));
    });
    shape.addEventListener("pointerdown", (event) => {
      if (!this.corners) return;
      shape.setPointerCapture(event.pointerId);
      const scale = this.report.page.width / shape.closest("svg").clientWidth;
      const drag = (moved) => this.move(place, moved.movementX * scale, moved.movementY * scale);
      shape.addEventListener("pointermove", drag);
      shape.addEventListener("pointerup", () => shape.removeEventListener("pointermove", drag), { once: true });
    });
  }

  drawText({ page }) {
    if (!page) return null;
    return h("section", { className: "restored", "aria-label": "Restored text" }, h("h2", {}, "Restored text"),
      h("pre", { lang: "zh-Hans" }, page.lines.map((line) => [line.map(([text, box]) => {
        if (box === null) return text;
        const piece = h("span", { className: "piece", onmouseenter: () => this.point(box, true), onmouseleave: () => this.point(box, false), onclick: () => this.boxes.get(box)?.scrollIntoView({ block: "center", inline: "center" }) }, text);
        this.texts.set(box, piece);
        return piece;
      }), "\n"])));
  }

  point(box, isOn) {
    this.boxes.get(box)?.classList.toggle("on", isOn);
    this.texts.get(box)?.classList.toggle("on", isOn);
  }

  // The boxes whose text is part of a field.
  pointAt(text, isOn) {
    if (!text?.trim()) return;
    this.report.page?.boxes.forEach((box, place) => {
      if (box.text.includes(text) || (box.text.length > 1 && text.includes(box.text))) this.point(place, isOn);
    });
  }

  drawAnnotation(report) {
    const { about } = this, annotation = report.annotation ?? { key_values: [], table: [], reasons: [], report_type: "", image_type: "pdf", image_quality: "high" };
    const canSave = about.saves !== null;
    const changed = this.changed = () => { this.isChanged = true; this.saveButton.disabled = false; this.saved.textContent = "not saved"; this.undoButton.disabled = !this.removed.length; };
    const field = (value, label) => {
      const input = h("textarea", { value, rows: 1, "aria-label": label, readOnly: !canSave, spellcheck: false, lang: "zh-Hans", oninput: () => { changed(); grow(input); }, onfocus: () => this.pointAt(input.value, true), onblur: () => this.pointAt(input.value, false), onmouseenter: () => this.pointAt(input.value, true), onmouseleave: () => document.activeElement !== input && this.pointAt(input.value, false) });
      return input;
    };
    const remover = (label) => canSave && h("button", { type: "button", className: "quiet", title: label, "aria-label": label, onclick: (event) => { const row = event.target.closest("tr"); this.removed.push([row, row.parentElement, row.nextSibling]); row.remove(); changed(); this.undoButton.focus(); } }, "×");
    const pair = ([key, value]) => h("tr", {}, h("td", {}, field(key, "Key")), h("td", {}, field(value, "Value")), h("td", {}, remover("Remove this pair")));
    const row = ([item, result, range, verdict], reason) => {
      const why = h("td", { className: "why", colSpan: 4 }, reason ?? "");
      const choice = h("select", { "aria-label": "Normal", disabled: !canSave, lang: "zh-Hans", onchange: () => { changed(); why.textContent = ""; colour(); } }, about.verdicts.map((name) => h("option", { value: name, selected: name === verdict }, name)));
      const colour = () => { choice.className = VERDICTS[choice.value] ?? ""; };
      colour();
      return h("tr", {}, [[item, "Item"], [result, "Result"], [range, "Range"]].map(([value, label]) => h("td", {}, field(value, label))), h("td", {}, choice, reason ? h("p", { className: "why" }, reason) : null), h("td", {}, remover("Remove this row")));
    };
    const pairs = h("tbody", {}, annotation.key_values.map(pair));
    const rows = h("tbody", {}, annotation.table.map((values, place) => row(values, annotation.reasons[place])));
    const choices = ["report_type", "image_type", "image_quality"].map((name) => {
      const named = about.choices[name].includes(annotation[name]) ? about.choices[name] : [annotation[name], ...about.choices[name]];
      return select(name.replace("_", " "), annotation[name], named.map((value) => [value, value || "choose"]), changed);
    });
    choices.forEach((label) => { label.querySelector("select").disabled = !canSave; });
    this.saveButton = h("button", { type: "button", className: "primary", disabled: !!report.version, onclick: () => this.save() }, "Save (Ctrl+Enter)");
    this.undoButton = h("button", { type: "button", disabled: true, title: "Put the removed row back (z)", onclick: () => this.undo() }, "Undo removal");
    this.saved = h("span", { className: "quiet-text", role: "status" }, report.version ? `version ${report.version}` : STATUS[report.status]);
    const marker = (mark, label) => h("button", { type: "button", title: label, "aria-pressed": String(report.mark === mark), onclick: () => this.setMark(mark) }, report.mark === mark ? mark : label);
    this.collect = () => ({
      key_values: [...pairs.rows].map((tr) => [...tr.querySelectorAll("textarea")].map((input) => input.value)),
      table: [...rows.rows].map((tr) => [...[...tr.querySelectorAll("textarea")].map((input) => input.value), tr.querySelector("select").value]),
      ...Object.fromEntries(["report_type", "image_type", "image_quality"].map((name, place) => [name, choices[place].querySelector("select").value])),
    });
    const add = (text, body, make) => canSave && h("button", { type: "button", className: "add", onclick: () => { const made = make(); body.append(made); changed(); made.querySelector("textarea").focus(); } }, text);
    const section = h("section", { className: "annotation", "aria-label": "Annotation" },
      h("h2", {}, report.status === "draft" ? "Draft" : "Annotation", h("span", { className: `state ${report.status}` }, STATUS[report.status])),
      canSave ? null : h("p", { className: "quiet-text" }, "To correct it, start the explorer with --corrections FOLDER."),
      h("div", { className: "choices" }, choices),
      report.findings.length ? h("ul", { className: "findings", "aria-label": "Findings of the checks" }, report.findings.map(({ kind, where, message }) => h("li", { title: about.kinds[kind] ?? kind }, h("b", {}, where), " ", message))) : h("p", { className: "fine" }, "The checks found no problem."),
      h("table", { className: "pairs" }, h("thead", {}, h("tr", {}, ["Key", "Value", ""].map((name) => h("th", {}, name)))), pairs), add("+ pair", pairs, () => pair(["", ""])),
      h("table", { className: "rows" }, h("thead", {}, h("tr", {}, ["Item", "Result", "Range", "Normal?", ""].map((name) => h("th", {}, name)))), rows), add("+ row", rows, () => row(["", "", "", about.verdicts.at(-1)], "")),
      canSave ? h("div", { className: "saving" }, authorField(), this.saveButton, this.undoButton, marker("flagged", "Flag (f)"), marker("skipped", "Skip (s)"), h("button", { type: "button", onclick: () => this.showHistory() }, "History (h)"), about.compared ? h("button", { type: "button", disabled: report.compared.length < 2, onclick: () => this.adjudicate() }, "Decide (d)") : null, this.saved) : null);
    requestAnimationFrame(() => section.querySelectorAll("textarea").forEach(grow));
    return section;
  }

  askAbout() {
    go({ view: "ask", of: "report", report: this.shown });
  }

  undo() {
    const [row, body, next] = this.removed.pop() ?? [];
    if (!row) return;
    body.insertBefore(row, next?.parentElement === body ? next : null);
    this.changed();
    row.querySelector("textarea").focus();
  }

  save() {
    if ((this.isChanged || !this.report.version) && this.about.saves !== null) return this.send({ annotation: this.collect(), boxes: this.corners }); // a draft may be right as it is
  }

  async setMark(mark) {
    if (this.about.saves === null) return;
    const isSet = this.report.mark !== mark;
    if (this.isChanged) { say("Save the correction first.", true); return; }
    if (await this.send({ mark: isSet ? mark : "" }) && isSet && mark === "skipped") this.step(1);
  }

  async showHistory() {
    try {
      const chosen = await showHistory(await ask("api/report_history", { path: this.shown }));
      if (chosen?.annotation) await this.send({ annotation: chosen.annotation });
    } catch (error) {
      say(error.message, true);
    }
  }

  // Saves an edit of the version on the page. If someone else has saved meanwhile, both are shown. Returns whether it was saved.
  async send(edit) {
    const path = this.shown, name = author();
    if (!name) { say(NAMELESS, true); return false; }
    this.saveButton.disabled = true;
    try {
      const report = await ask("api/save_report", {}, { path, edit: { author: name, base: this.report.version, ...edit } });
      say("Saved.");
      this.isChanged = false;
      if (path === this.shown) {
        const place = this.detail.querySelector(".reading").scrollTop;
        this.draw(report);
        this.detail.querySelector(".reading").scrollTop = place;
      }
      await this.load(state());
      this.mark();
      return true;
    } catch (error) {
      this.saveButton.disabled = !this.isChanged && !!this.report.version;
      if (error.status === 409 && path === this.shown) return this.merge(edit, path);
      say(error.message, true);
      return false;
    }
  }

  async merge(edit, path) {
    const [theirs, history] = [await ask("api/report", { path }), await ask("api/report_history", { path })];
    const by = history.at(-1)?.author ?? "someone";
    let fields = null;
    if (edit.annotation && theirs.annotation) {
      const base = this.report.annotation && split(this.report.annotation);
      fields = await choose(`${by} saved ${path} in the meantime`, split(edit.annotation), split(theirs.annotation), ["yours", `${by}'s`], base);
      if (!fields) return false;
    }
    this.report = { ...theirs, annotation: theirs.annotation };
    return this.send(fields ? { ...edit, annotation: join(fields) } : edit);
  }

  step(direction) {
    const paths = this.page?.reports.map((report) => report.path) ?? [];
    const next = paths[paths.indexOf(this.shown) + direction];
    if (next !== undefined) go({ report: next });
  }

  key(event) {
    const step = { j: 1, k: -1 }[event.key];
    const acts = { a: () => this.askAbout(), z: () => this.undo(), h: () => this.showHistory(), f: () => this.setMark("flagged"), s: () => this.setMark("skipped"), b: () => this.moveBoxes(), d: () => this.about.compared && this.about.saves !== null && this.adjudicate(), e: () => this.detail.querySelector(".annotation textarea")?.focus() };
    if (step) this.step(step);
    else if (event.key in acts) acts[event.key]();
    else if (event.key === "+" || event.key === "=") this.zoomBy?.(1.3);
    else if (event.key === "-") this.zoomBy?.(1 / 1.3);
    else if (event.key === "0") this.zoomBy?.(0);
    else return false;
    return true;
  }
}

const VERDICTS = { 是: "negative", "否(偏高)": "positive", "否(偏低)": "positive", 否: "positive", 无法判断: "uncertain" };

function grow(input) {
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight + 2}px`;
}
