// Ask an engine about a study, a report or an uploaded image.

import { ask as fetchJson, h, put, say, select, send } from "./dom.js";
import { go, state } from "./state.js";
import { noView, Viewer, viewOf } from "./viewer.js";

const VIEWS = { radiograph: "a radiograph", "radiograph PA": "a radiograph, PA", "radiograph AP": "a radiograph, AP", "radiograph LAT": "a radiograph, lateral" };
const TASKS = { entity_qa: "a field (entity)", table_qa: "a cell of the table", table_nr_qa: "normal or abnormal" };

const KINDS = (name, of) => of === "image" ? VIEWS[name] ?? `a report: ${TASKS[name]}` : TASKS[name] ?? name;

export class Ask {
  constructor(about, all) {
    this.about = about;
    this.all = all;
    this.keys = [["Ctrl+Enter", "ask"], ["a", "write a question"]];
    this.viewer = new Viewer({ onchange: (view) => go(view, { replace: true, quiet: true }) });
    this.said = new Map();
    this.brought = null;
    this.element = h("div", { className: "part ask-part" });
    this.element.addEventListener("dragover", (event) => { if (this.of === "image") event.preventDefault(); });
    this.element.addEventListener("drop", (event) => {
      if (this.of !== "image") return;
      event.preventDefault();
      this.bring(event.dataTransfer.files[0]);
    });
    this.element.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key === "Enter") { event.preventDefault(); this.send(); }
    });
  }

  title() {
    const { model } = this.about;
    if (!model) return "rules only. Choose a model with --engine or --model.";
    return `${model.name}${model.endpoint ? ` at ${model.endpoint}` : ", in this process"}`;
  }

  async update(current) {
    const there = this.subjects().map(([name]) => name);
    if (!there.length) {
      put(this.element, h("p", { className: "problem" }, `Nothing can be asked here. Images cannot be uploaded: ${this.about.brought.refusal}`));
      return;
    }
    const of = there.includes(current.of) ? current.of : current.report && !current.study && there.includes("report") ? "report" : there[0];
    const subject = { study: current.study, report: current.report, image: this.brought?.name }[of];
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

  subjects() {
    const { image } = this.about.engines;
    return [["study", "a study", this.all.studies], ["report", "a report", this.all.reports], ["image", "your image", image.length]].filter(([, , there]) => there);
  }

  async first(of) {
    if (of === "image") return null;
    if (of === "study") return (await fetchJson("api/studies")).studies[0].study_id;
    return (await fetchJson("api/reports")).reports[0].path;
  }

  draw(current) {
    const { about, of, subject } = this, engines = about.engines[of];
    const kinds = { study: about.categories, report: about.tasks, image: about.brought.kinds }[of].map((name) => [name, KINDS(name, of)]);
    this.kind = current.kind && kinds.some(([name]) => name === current.kind) ? current.kind : kinds[0][0];
    this.engine = engines.includes(current.engine) ? current.engine : engines.at(-1);
    this.films = h("div", { className: "films", role: "tablist", "aria-label": "Images" });
    this.question = h("textarea", { rows: 3, value: current.ask ?? "", placeholder: of === "report" ? "该报告中姓名是什么？" : "Is there a pleural effusion?", "aria-label": "Question", onchange: () => go({ ask: this.question.value }, { replace: true, quiet: true }) });
    this.suggested = h("div", { className: "suggested" });
    this.talk = h("ol", { className: "talk", "aria-live": "polite" });
    this.button = h("button", { type: "button", className: "primary", onclick: () => this.send() }, "Ask (Ctrl+Enter)");
    put(this.element,
      h("section", { className: "pictures" }, h("header", {}, h("h1", {}, this.heading()), h("span", { className: "patient" }), this.films), subject || of !== "image" ? this.viewer.element : this.place()),
      h("section", { className: "rating asking", "aria-label": "Ask" },
        h("div", { className: "choices" },
          select("About", of, this.subjects(), (value) => go({ of: value, image: null, kind: null, ...noView })),
          this.chooser(),
          select("Engine", this.engine, engines.map((name) => [name]), (value) => { this.engine = value; go({ engine: value }, { replace: true, quiet: true }); })),
        this.aboutBrought(),
        select({ study: "Category", report: "Task", image: "Content" }[of], this.kind, kinds, (value) => { this.kind = value; go({ kind: value }, { replace: true, quiet: true }); this.suggest(); }),
        this.question, this.suggested, h("div", {}, this.button), this.talk));
    this.suggest();
    this.drawTalk();
  }

  heading() {
    return { study: `Study ${this.subject}`, report: this.subject, image: this.brought?.title ?? "Your image" }[this.of];
  }

  // A study by its id, a report by its path, an image by its file.
  chooser() {
    const { of, subject } = this;
    if (of === "image") {
      const file = h("input", { type: "file", accept: "image/png,image/jpeg", hidden: true, onchange: () => this.bring(file.files[0]) });
      return h("div", { className: "field" }, h("span", {}, "Image"), h("button", { type: "button", onclick: () => file.click() }, subject ? "Another …" : "Choose …"), file);
    }
    const which = h("input", { type: "text", value: subject, "aria-label": of === "study" ? "Study" : "Report", onchange: (event) => go({ of, [of]: event.target.value.trim(), image: null, ...noView }) });
    return h("label", { className: "field" }, h("span", {}, of === "study" ? "Study" : "Report"), which);
  }

  place() {
    return h("p", { className: "bring" }, "Choose a PNG or JPEG file, or drop it here.");
  }

  // Where an uploaded image is sent, or why it cannot be uploaded.
  aboutBrought() {
    const { brought, engines, model } = this.about;
    if (this.of === "image") {
      const sent = model.endpoint ? `and sent to ${model.endpoint}` : "and stays in this process";
      return h("p", { className: "quiet-text" }, `Your image is treated as ${brought.governance} ${sent}. It is kept in memory until the explorer ends.`);
    }
    return brought.refusal && !engines.image.length ? h("p", { className: "quiet-text" }, `Images cannot be uploaded: ${brought.refusal}. If they have a weaker class, pass --image-class.`) : null;
  }

  async bring(file) {
    if (!file) return;
    try {
      if (file.size > this.about.brought.most_bytes) throw new Error(`The image has more than ${this.about.brought.most_bytes >> 20} MiB. Save a smaller copy.`);
      const { name } = await send("api/upload", file);
      if (this.brought) URL.revokeObjectURL(this.brought.source);
      this.brought = { name, title: file.name, source: URL.createObjectURL(file) };
      say("");
      go({ of: "image", image: null, ...noView }, { replace: true, quiet: true });
      this.update({ ...state(), of: "image" });
    } catch (error) {
      say(error.message, true);
    }
  }

  // The release's own questions of the category, with their reference answers.
  suggest() {
    const own = this.study?.questions.filter((question) => question.category === this.kind) ?? [];
    put(this.suggested, own.map((question) => h("button", { type: "button", onclick: () => { this.question.value = question.question; this.send(); } }, question.question)));
  }

  async send() {
    const text = this.question.value.trim();
    if (!text || this.button.disabled) return;
    if (!this.subject) { say("Choose an image first.", true); return; }
    const asked = { engine: this.engine, about: this.of, subject: String(this.subject), kind: this.kind, text };
    go({ ask: text, of: this.of, ...(this.of === "image" ? {} : { [this.of]: this.subject }), engine: this.engine, kind: this.kind }, { replace: true, quiet: true });
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
      h("p", { className: "quiet-text" }, [entry.engine, entry.seconds !== undefined && `${entry.seconds} s`, entry.note].filter(Boolean).join(" · ")),
      entry.reference ? h("p", { className: `answer ${entry.reference.says}` }, h("span", { className: "name" }, "reference"), entry.reference.answer) : null)));
  }

  showImage(current) {
    const count = this.study ? this.study.images.length : 1, shown = Math.min(Number(current.image ?? 0), count - 1);
    if (this.image === shown) return;
    this.image = shown;
    put(this.films, this.study?.images.map((image, place) => h("button", { type: "button", role: "tab", "aria-selected": String(place === shown), onclick: () => go({ image: place || null, ...noView }) }, image.view ?? `image ${place + 1}`)));
    if (count < 1 || !this.subject) return;
    const source = this.of === "image" ? this.brought.source : this.study ? `image?${new URLSearchParams({ study: this.subject, number: shown })}` : `page_image?${new URLSearchParams({ path: this.subject })}`;
    this.viewer.show(source, this.heading(), viewOf(current));
  }

  key(event) {
    if (event.key === "a") { this.question?.focus(); return true; }
    return this.viewer.key(event);
  }
}

// gradio's queue: join it, then read the event stream until it ends.
async function queued(name, argument) {
  const { event_id } = await fetchJson(`gradio_api/call/${name}`, {}, { data: [argument] });
  const stream = await (await fetch(`gradio_api/call/${name}/${event_id}`)).text();
  const last = stream.trim().split("\n\n").at(-1);
  const data = last.match(/^data: (.*)$/m)?.[1];
  if (!/^event: complete$/m.test(last) || !data) throw new Error("The engine failed. See the explorer's terminal for the error.");
  return JSON.parse(JSON.parse(data)[0]);
}
