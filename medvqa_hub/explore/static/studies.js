// Studies of a release: a filtered list, and a study with its images, report and questions.

import { ask, h, number, put, say, select } from "./dom.js";
import { go, state } from "./state.js";
import { noView, Viewer, viewOf } from "./viewer.js";

export const LABEL_NAMES = { positive: "positive", negative: "negative", uncertain: "uncertain", not_mentioned: "not mentioned", undecided: "undecided", failed: "no answer", absent: "not asked" };
const LABELS = ["positive", "negative", "uncertain", "not_mentioned"];
const FILTERS = ["split", "category", "label", "flag", "q", "difference", "verdict"];
const DIFFERENCES = [["from reference", "a run contradicts the reference"], ["from label", "a run contradicts the label"], ["between runs", "runs differ"], ["failed", "a run has no answer"]];

export class Studies {
  constructor(about) {
    this.about = about;
    this.keys = [["j / k", "next or previous study"], ["n / p", "next or previous page"], ["[ / ]", "previous or next image"], ["s", "frontal and lateral side by side"], ["a", "ask about this study"]];
    this.list = h("ol", { className: "studies", "aria-label": "Studies" });
    this.filters = h("form", { className: "filters", role: "search", onsubmit: (event) => event.preventDefault() });
    this.count = h("p", { className: "count", "aria-live": "polite" });
    this.pager = h("div", { className: "pager" });
    this.detail = h("article", { className: "study" });
    this.viewer = new Viewer({ onchange: (view) => go(view, { replace: true, quiet: true }) });
    this.other = new Viewer();
    this.element = h("div", { className: "part studies-part" },
      h("aside", { className: "side" }, this.filters, this.count, this.list, this.pager), this.detail);
    this.page = null;
  }

  title() {
    return `${this.about.folder} · ${number(this.about.studies)} studies · ${number(this.about.rows)} questions`;
  }

  wanted(current) {
    return Object.fromEntries(FILTERS.map((name) => [name, current[name]]));
  }

  async update(current) {
    const asked = JSON.stringify([this.wanted(current), current.at ?? 0]), turn = this.turn = (this.turn ?? 0) + 1;
    if (asked !== this.asked) {
      this.asked = asked;
      this.drawFilters(current);
      this.loading = this.load(current, asked);
    }
    await this.loading;
    if (turn !== this.turn) return; // a later state has been asked for meanwhile
    const study = current.study ?? this.page?.studies[0]?.study_id;
    if (study === undefined) {
      this.study = this.shown = null;
      put(this.detail, h("p", { className: "empty" }, this.page?.next != null ? "No match so far. Next → searches on." : "No study matches."));
      return;
    }
    const wanted = JSON.stringify([String(study), this.wanted(current)]);
    if (wanted !== this.shown) {
      this.shown = wanted;
      await this.open(study, current, wanted);
    } else if (this.study && `${this.imageOf(current)} ${current.both ?? ""}` !== this.image) this.showImage(current);
    this.mark(study);
  }

  async load(current, asked) {
    this.list.setAttribute("aria-busy", "true");
    try {
      let page = await ask("api/studies", { ...this.wanted(current), at: current.at });
      if (asked !== this.asked) return;
      // A request reads a part of the rows. Continue until there is a study to show, for up to 2 seconds.
      const end = performance.now() + 2000;
      while (!page.studies.length && page.next !== null && performance.now() < end) {
        this.count.textContent = `searched ${Math.round(page.looked * 100)}% …`;
        page = await ask("api/studies", { ...this.wanted(current), at: page.next });
        if (asked !== this.asked) return;
      }
      this.page = page;
      this.drawList(current);
      say("");
    } catch (error) {
      if (asked === this.asked) { this.page = { studies: [] }; put(this.list); this.count.textContent = ""; say(error.message, true); }
    } finally {
      this.list.removeAttribute("aria-busy");
    }
  }

  drawFilters(current) {
    const { about } = this;
    const set = (name) => (value) => go({ [name]: value || null, at: null, study: null, image: null, ...noView });
    const all = [["", "any"]];
    const rows = (c) => about.counts[c].reduce((sum, count) => sum + count, 0);
    const labelRows = (l) => about.counts.reduce((sum, counts) => sum + counts[l], 0);
    const search = h("input", { type: "search", value: current.q ?? "", placeholder: "text, study or patient", "aria-label": "Search questions and answers", onchange: (event) => set("q")(event.target.value) });
    const active = FILTERS.some((name) => current[name]);
    put(this.filters, 
      h("label", { className: "field wide" }, h("span", {}, "Search"), search),
      select("Category", current.category ?? "", [...all, ...about.categories.map((name, c) => [name, `${name} (${number(rows(c))})`])], set("category")),
      select("Label", current.label ?? "", [...all, ...about.labels.map((name, l) => [name, `${LABEL_NAMES[name]} (${number(labelRows(l))})`])], set("label")),
      select("Split", current.split ?? "", [...all, ...about.splits.map((name) => [name])], set("split")),
      about.flags.length ? select("Lint flag", current.flag ?? "", [...all, ...about.flags.map(({ name, rows: count }) => [name, `${name} (${number(count)})`])], set("flag")) : null,
      about.runs.length ? select("Answers", current.difference ?? "", [...all, ...DIFFERENCES], set("difference")) : null,
      about.judges.length ? select("Judge", current.verdict ?? "", [...all, ...Object.entries(about.verdicts)], set("verdict")) : null,
      active ? h("button", { type: "button", className: "clear", onclick: () => go({ ...Object.fromEntries(FILTERS.map((name) => [name, null])), at: null, study: null, image: null, ...noView }) }, "Clear filters") : null);
  }

  drawList(current) {
    const { page } = this;
    this.count.textContent = page.total !== null ? `${number(page.total)} ${page.total === 1 ? "study" : "studies"}` : `${page.next !== null && page.studies.length < 20 ? "partial result: " : ""}searched ${Math.round(page.looked * 100)}% of the rows`;
    const isFiltered = FILTERS.some((name) => current[name]);
    put(this.list, page.studies.map((study) =>
      h("li", { dataset: { study: study.study_id } },
        h("a", { href: `?${new URLSearchParams({ ...current, study: study.study_id })}`, onclick: (event) => {
          if (event.metaKey || event.ctrlKey || event.shiftKey) return;
          event.preventDefault();
          this.choose(study.study_id);
        } },
        h("b", {}, study.study_id), h("span", { className: "patient" }, `p${study.subject_id}`), h("span", { className: "split" }, study.split),
        this.strip(study.labels),
        h("span", { className: "asked" }, isFiltered ? `${study.wanted} of ${study.questions}` : `${study.questions} questions`)))));
    put(this.pager, 
      h("button", { type: "button", disabled: page.previous === null && !(current.at > 0), onclick: () => this.leaf(-1) }, "← Previous"),
      h("button", { type: "button", disabled: page.next === null, onclick: () => this.leaf(1) }, "Next →"));
  }

  strip(labels) {
    const said = this.about.categories.map((name, c) => labels[c] >= 0 ? `${name}: ${LABEL_NAMES[LABELS[labels[c]]]}` : null).filter(Boolean);
    return h("span", { className: "strip", title: said.join("\n"), role: "img", "aria-label": said.join(", ") }, labels.map((label) => h("i", { className: label >= 0 ? LABELS[label] : "" })));
  }

  choose(study) {
    go({ study, image: null, ...noView });
  }

  leaf(direction) {
    const at = direction > 0 ? this.page?.next : this.page?.previous;
    if (direction > 0 && at === null) return;
    if (direction < 0 && at === null) { if (state().at > 0) history.back(); return; }
    go({ at: at || null, study: null, image: null, ...noView });
  }

  step(direction) {
    const ids = this.page?.studies.map((study) => String(study.study_id)) ?? [];
    const place = ids.indexOf(String(this.study?.study_id)) + direction;
    if (place < 0) this.leaf(-1);
    else if (place >= ids.length) this.leaf(1);
    else this.choose(ids[place]);
  }

  mark(study) {
    for (const item of this.list.children) {
      const isShown = item.dataset.study === String(study);
      item.firstElementChild.setAttribute("aria-current", String(isShown));
      if (isShown) item.scrollIntoView({ block: "nearest" });
    }
  }

  async open(study, current, wanted) {
    this.detail.setAttribute("aria-busy", "true");
    try {
      const found = await ask("api/study", { ...this.wanted(current), study });
      if (wanted !== this.shown) return;
      this.study = found;
      this.drawStudy(current);
    } catch (error) {
      if (wanted === this.shown) put(this.detail, h("p", { className: "problem" }, error.message));
    } finally {
      this.detail.removeAttribute("aria-busy");
    }
  }

  imageOf(current) {
    return Math.min(Number(current.image ?? 0), this.study.images.length - 1);
  }

  drawStudy(current) {
    const { study } = this;
    this.tabs = h("div", { className: "films", role: "tablist", "aria-label": "Images" });
    const sections = ["indication", "findings", "impression"].filter((name) => study[name]);
    put(this.detail, 
      h("section", { className: "pictures" },
        h("header", {}, h("h1", {}, `Study ${study.study_id}`), h("span", { className: "patient" }, `patient ${study.subject_id} · ${study.split}`), h("button", { type: "button", className: "quiet", title: "Ask about this study (a)", onclick: () => go({ view: "ask", of: "study", study: study.study_id }) }, "Ask"), this.tabs),
        h("div", { className: "viewers" }, this.viewer.element, this.other.element),
        h("section", { className: "report", "aria-label": "Report" }, sections.length ? sections.map((name) => [h("h2", {}, name), h("p", {}, study[name])]) : h("p", { className: "quiet-text" }, "The release has no report text."))),
      this.questions(study, current));
    this.showImage(current);
  }

  showImage(current) {
    const { study } = this, shown = this.imageOf(current);
    this.image = `${shown} ${current.both ?? ""}`;
    put(this.tabs, study.images.map((image, place) =>
      h("button", { type: "button", role: "tab", "aria-selected": String(place === shown), onclick: () => go({ image: place || null, ...noView }) }, image.view ?? `image ${place + 1}`)),
      study.images.length > 1 ? h("button", { type: "button", title: "Side by side (s)", "aria-pressed": String(Boolean(current.both)), onclick: () => this.toggleBoth() }, "Both") : null);
    if (!study.images.length) { this.viewer.element.hidden = true; return; }
    this.viewer.element.hidden = false;
    const source = new URLSearchParams({ study: study.study_id, number: shown });
    const isLateral = (image) => /^L/.test(image.view ?? ""), beside = study.images.findIndex((image) => isLateral(image) !== isLateral(study.images[shown]));
    const other = beside < 0 ? (shown + 1) % study.images.length : beside;
    this.other.element.hidden = !current.both || study.images.length < 2;
    if (!this.other.element.hidden) this.other.show(`image?${new URLSearchParams({ study: study.study_id, number: other })}`, `${study.images[other].view ?? "Radiograph"} of study ${study.study_id}`);
    this.viewer.show(`image?${source}`, `${study.images[shown].view ?? "Radiograph"} of study ${study.study_id}`, viewOf(current));
  }

  questions(study, current) {
    const isFiltered = FILTERS.some((name) => current[name]);
    const groups = Map.groupBy ? Map.groupBy(study.questions, (question) => question.category) : groupBy(study.questions);
    const asked = new Set(study.questions.flatMap((question) => question.runs.filter(isAsked).map((run) => run.run)));
    const runs = this.about.runs.map(({ name }) => name).filter((name) => !asked.has(name));
    const wanted = (questions) => questions.some((question) => question.wanted);
    const sorted = [...groups].sort(([, one], [, other]) => Number(wanted(other)) - Number(wanted(one)));
    return h("section", { className: "questions", "aria-label": "Questions" },
      h("p", { className: "legend" }, LABELS.map((label) => h("span", { className: `chip ${label}` }, LABEL_NAMES[label]))),
      sorted.map(([category, questions]) =>
        h("section", { className: `category${isFiltered && !wanted(questions) ? " dim" : ""}` },
          h("h2", {}, category, h("span", { className: `chip ${questions[0].label}` }, LABEL_NAMES[questions[0].label])),
          questions.map((question) => this.question(question, current, isFiltered, asked)))),
      runs.length ? h("p", { className: "provenance" }, `Not asked about this study: ${runs.join(", ")}`) : null,
      Object.keys(study.provenance).length ? h("p", { className: "provenance" }, "Answers: ", ["engine", "model", "revision"].map((name) => study.provenance[name]).filter(Boolean).filter((value, place, all) => all.indexOf(value) === place).join(" · ")) : null);
  }

  question(question, current, isFiltered, asked) {
    const answer = (said, className, ...content) => h("p", { className: `answer ${className} ${said}`, title: `says: ${LABEL_NAMES[said]}` }, ...content);
    return h("div", { className: `question${isFiltered && !question.wanted ? " dim" : ""}`, id: question.qa_id },
      h("p", { className: "asked" }, highlight(question.question, current.q), question.flags.map((flag) => h("span", { className: "flag" }, flag))),
      answer(question.says, "reference", highlight(question.answer ?? "", current.q)),
      question.judged.map(({ judge, faults, error }) => h("p", { className: "judged" }, h("span", { className: "name" }, judge), error ? h("em", {}, `no verdict: ${error}`) : faults.length ? faults.map((fault) => h("span", { className: "flag" }, fault)) : "no faults")),
      question.runs.filter((run) => isAsked(run) || asked.has(run.run)).map((run) => answer(run.says, run.differs ? "run differs" : "run",
        h("span", { className: "name" }, run.run), run.answer ?? (isAsked(run) ? h("em", {}, run.error ? `no answer: ${run.error}` : "several answers with this id. The images are needed to find the right one.") : "not asked"))));
  }

  toggleBoth() {
    go({ both: state().both ? null : 1 });
  }

  key(event) {
    if (this.other.element.contains(document.activeElement) && !"[]".includes(event.key) && this.other.key(event)) return true;
    if (event.key === "s" && this.study?.images.length > 1) this.toggleBoth();
    else if (event.key === "a" && this.study) go({ view: "ask", of: "study", study: this.study.study_id });
    else if (event.key === "j") this.step(1);
    else if (event.key === "k") this.step(-1);
    else if (event.key === "n") this.leaf(1);
    else if (event.key === "p") this.leaf(-1);
    else if ("[]".includes(event.key) && this.study) {
      const next = this.imageOf(state()) + (event.key === "]" ? 1 : -1);
      if (next >= 0 && next < this.study.images.length) go({ image: next || null, ...noView });
    } else return this.viewer.key(event);
    return true;
  }
}

const isAsked = (run) => run.says !== "absent" || run.is_unclear;

function highlight(text, wanted) {
  const place = wanted ? text.toLowerCase().indexOf(wanted.toLowerCase()) : -1;
  return place < 0 ? [text] : [text.slice(0, place), h("mark", {}, text.slice(place, place + wanted.length)), text.slice(place + wanted.length)];
}

function groupBy(questions) {
  const groups = new Map();
  for (const question of questions) groups.set(question.category, [...(groups.get(question.category) ?? []), question]);
  return groups;
}
