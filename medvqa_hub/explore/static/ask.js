// Asking an engine about a study or a report: the image, a question, and what was said so far.

import { ask as fetchJson, h, put, select } from "./dom.js";
import { go } from "./state.js";
import { noView, Viewer, viewOf } from "./viewer.js";

const TASKS = { entity_qa: "a field (entity)", table_qa: "a cell of the table", table_nr_qa: "normal or abnormal" };

export class Ask {
  constructor(about, all) {
    this.about = about;
    this.all = all;
    this.keys = [["Ctrl+Enter", "ask"], ["a", "write a question"]];
    this.viewer = new Viewer({ onchange: (view) => go(view, { replace: true, quiet: true }) });
    this.said = new Map();
    this.element = h("div", { className: "part ask-part" });
    this.element.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key === "Enter") { event.preventDefault(); this.send(); }
    });
  }

  title() {
    const { model } = this.about;
    if (!model) return "rules; name a model with --engine server:URL";
    return `${model.name}${model.endpoint ? ` at ${model.endpoint}` : ", in this process"}`;
  }

  async update(current) {
    const of = current.of ?? (current.report && !current.study ? "report" : this.all.studies ? "study" : "report");
    const subject = of === "study" ? current.study : current.report;
    const wanted = JSON.stringify([of, subject]);
    if (wanted !== this.shown) {
      this.shown = wanted;
      try {
        this.of = of;
        this.subject = subject ?? await this.first(of);
        this.study = of === "study" ? await fetchJson("api/study", { study: this.subject }) : null;
        this.image = null;
        this.draw(current);
      } catch (error) {
        put(this.element, h("p", { className: "problem" }, error.message));
        return;
      }
    }
    this.showImage(current);
  }

  async first(of) {
    if (of === "study") return (await fetchJson("api/studies")).studies[0].study_id;
    return (await fetchJson("api/reports")).reports[0].path;
  }

  draw(current) {
    const { about, of, subject } = this, engines = about.engines[of];
    const kinds = of === "study" ? about.categories.map((name) => [name]) : about.tasks.map((name) => [name, TASKS[name] ?? name]);
    this.kind = current.kind && kinds.some(([name]) => name === current.kind) ? current.kind : kinds[0][0];
    this.engine = engines.includes(current.engine) ? current.engine : engines.at(-1);
    this.films = h("div", { className: "films", role: "tablist", "aria-label": "Images" });
    this.question = h("textarea", { rows: 3, value: current.ask ?? "", placeholder: of === "study" ? "Is there a pleural effusion?" : "该报告中姓名是什么？", "aria-label": "Question", onchange: () => go({ ask: this.question.value }, { replace: true, quiet: true }) });
    this.suggested = h("div", { className: "suggested" });
    this.talk = h("ol", { className: "talk", "aria-live": "polite" });
    this.button = h("button", { type: "button", className: "primary", onclick: () => this.send() }, "Ask (Ctrl+Enter)");
    const which = h("input", { type: "text", value: subject, "aria-label": of === "study" ? "Study" : "Report", onchange: (event) => go({ of, [of]: event.target.value.trim(), image: null, ...noView }) });
    const subjects = [["study", "a study", this.all.studies], ["report", "a report", this.all.reports]].filter(([, , there]) => there);
    put(this.element,
      h("section", { className: "pictures" }, h("header", {}, h("h1", {}, of === "study" ? `Study ${subject}` : subject), h("span", { className: "patient" }), this.films), this.viewer.element),
      h("section", { className: "rating asking", "aria-label": "Ask" },
        h("div", { className: "choices" },
          select("About", of, subjects, (value) => go({ of: value, image: null, kind: null, ...noView })),
          h("label", { className: "field" }, h("span", {}, of === "study" ? "Study" : "Report"), which),
          select("Engine", this.engine, engines.map((name) => [name]), (value) => { this.engine = value; go({ engine: value }, { replace: true, quiet: true }); })),
        select(of === "study" ? "Category" : "It asks for", this.kind, kinds, (value) => { this.kind = value; go({ kind: value }, { replace: true, quiet: true }); this.suggest(); }),
        this.question, this.suggested, h("div", {}, this.button), this.talk));
    this.suggest();
    this.drawTalk();
  }

  // The release's own questions of the category, a click away; their reference answers are compared with.
  suggest() {
    const own = this.study?.questions.filter((question) => question.category === this.kind) ?? [];
    put(this.suggested, own.map((question) => h("button", { type: "button", onclick: () => { this.question.value = question.question; this.send(); } }, question.question)));
  }

  async send() {
    const text = this.question.value.trim();
    if (!text || this.button.disabled) return;
    const asked = { engine: this.engine, about: this.of, subject: String(this.subject), kind: this.kind, text };
    go({ ask: text, of: this.of, [this.of]: this.subject, engine: this.engine, kind: this.kind }, { replace: true, quiet: true });
    const key = this.shown, entry = { ...asked, reference: this.study?.questions.find((question) => question.question === text) };
    this.said.set(key, [entry, ...(this.said.get(key) ?? [])]);
    this.button.disabled = true;
    this.drawTalk();
    try {
      Object.assign(entry, await queued("ask", JSON.stringify(asked)));
    } catch (error) {
      Object.assign(entry, { answer: null, error: error.message });
    }
    this.button.disabled = false;
    this.drawTalk();
  }

  drawTalk() {
    put(this.talk, (this.said.get(this.shown) ?? []).map((entry) => h("li", {},
      h("p", { className: "asked" }, entry.text),
      entry.answer === undefined ? h("p", { className: "answer waiting-for" }, "…") : entry.answer === null ? h("p", { className: "answer failed" }, `no answer: ${entry.error}`) : h("p", { className: "answer", lang: this.of === "report" ? "zh-Hans" : "en" }, entry.answer),
      h("p", { className: "quiet-text" }, `${entry.engine}${entry.seconds !== undefined ? ` · ${entry.seconds} s` : ""}`),
      entry.reference ? h("p", { className: `answer ${entry.reference.says}` }, h("span", { className: "name" }, "reference"), entry.reference.answer) : null)));
  }

  showImage(current) {
    const count = this.study ? this.study.images.length : 1, shown = Math.min(Number(current.image ?? 0), count - 1);
    if (this.image === shown) return;
    this.image = shown;
    put(this.films, this.study?.images.map((image, place) => h("button", { type: "button", role: "tab", "aria-selected": String(place === shown), onclick: () => go({ image: place || null, ...noView }) }, image.view ?? `image ${place + 1}`)));
    if (count < 1) return;
    const source = this.study ? `image?${new URLSearchParams({ study: this.subject, number: shown })}` : `page_image?${new URLSearchParams({ path: this.subject })}`;
    this.viewer.show(source, String(this.subject), viewOf(current));
  }

  key(event) {
    if (event.key === "a") { this.question?.focus(); return true; }
    return this.viewer.key(event);
  }
}

// gradio's queue: a call is joined, then its stream is read until it ends.
async function queued(name, argument) {
  const { event_id } = await fetchJson(`gradio_api/call/${name}`, {}, { data: [argument] });
  const stream = await (await fetch(`gradio_api/call/${name}/${event_id}`)).text();
  const last = stream.trim().split("\n\n").at(-1);
  const data = last.match(/^data: (.*)$/m)?.[1];
  if (!/^event: complete$/m.test(last) || !data) throw new Error("the engine failed; the explorer's terminal says why");
  return JSON.parse(JSON.parse(data)[0]);
}
