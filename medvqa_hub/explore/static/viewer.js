// A radiograph with zoom, window and level (a linear SVG filter).

import { h, svg } from "./dom.js";
import { Measure } from "./measure.js";

const NEUTRAL = { zoom: 1, x: 0, y: 0, level: 50, window: 100, invert: 0 };
let filters = 0;

export class Viewer {
  // onchange(view) is called with the values that differ from the defaults.
  constructor({ onchange = () => {} } = {}) {
    this.view = { ...NEUTRAL };
    this.onchange = onchange;
    const id = `window-${++filters}`;
    this.ramps = ["feFuncR", "feFuncG", "feFuncB"].map((name) => svg(name, { type: "linear", slope: 1, intercept: 0 }));
    const filter = svg("svg", { width: 0, height: 0, "aria-hidden": "true", class: "filter" },
      svg("filter", { id, "color-interpolation-filters": "sRGB", x: 0, y: 0, width: "100%", height: "100%" },
        svg("feComponentTransfer", {}, this.ramps)));
    this.filter = `url(#${id})`;
    this.image = h("img", { alt: "", draggable: false });
    this.measure = new Measure();
    this.stage = h("div", { className: "stage", tabIndex: 0, role: "group", "aria-label": "Radiograph: wheel or + and - to zoom, drag to move, shift and drag for the window" }, filter, this.image, this.measure.element);
    this.tools = this.makeTools();
    this.element = h("div", { className: "viewer" }, this.stage, this.tools);
    this.listen();
  }

  // Show a small image at once and replace it by the full one.
  show(source, alt, view = {}) {
    this.source = source;
    this.view = { ...NEUTRAL, ...view };
    this.image.alt = alt;
    this.stage.classList.add("loading");
    this.stage.classList.remove("failed");
    this.isWhole = false;
    if (!source.startsWith("blob:")) { // what the browser has itself is there at once
      const small = new Image();
      small.onload = () => this.source === source && !this.isWhole && this.put(small);
      small.src = `${source}&side=512`;
    }
    const whole = new Image();
    whole.onload = () => { if (this.source === source) { this.isWhole = true; this.put(whole); } };
    whole.onerror = () => this.source === source && this.fail(source);
    whole.src = source;
    this.draw();
  }

  async fail(source) {
    const answer = await fetch(source).catch(() => null);
    const found = await answer?.json().catch(() => null);
    this.stage.classList.remove("loading");
    this.stage.classList.add("failed");
    this.stage.dataset.reason = found?.error ?? "The image cannot be read.";
  }

  put(image) {
    image.alt = this.image.alt;
    image.draggable = false;
    this.image.replaceWith(image);
    this.image = image;
    this.stage.classList.remove("loading");
    if (this.isWhole) this.measure.attach(image);
    this.draw();
  }

  change(changes, isDone = true) {
    const view = { ...this.view, ...changes };
    view.zoom = Math.min(16, Math.max(1, view.zoom));
    view.window = Math.min(200, Math.max(2, view.window));
    view.level = Math.min(100, Math.max(0, view.level));
    const room = (view.zoom - 1) / 2 * 100;
    view.x = Math.min(room, Math.max(-room, view.x));
    view.y = Math.min(room, Math.max(-room, view.y));
    this.view = view;
    this.draw();
    if (isDone) this.tellSoon();
  }

  reset() {
    this.change(NEUTRAL);
  }

  tellSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const changed = Object.entries(NEUTRAL).map(([name, neutral]) => [name, this.view[name] === neutral ? null : +this.view[name].toFixed(2)]);
      this.onchange(Object.fromEntries(changed));
    }, 250);
  }

  draw() {
    const { zoom, x, y, level, window, invert } = this.view;
    this.image.style.transform = this.measure.element.style.transform = `translate(${x}%, ${y}%) scale(${zoom})`;
    let slope = 100 / window;
    let intercept = 0.5 - (level / 100) * slope;
    if (invert) [slope, intercept] = [-slope, 1 - intercept];
    const isNeutral = slope === 1 && intercept === 0;
    this.image.style.filter = isNeutral ? "" : this.filter;
    for (const ramp of this.ramps) { ramp.setAttribute("slope", slope); ramp.setAttribute("intercept", intercept); }
    this.sliders.level.value = level;
    this.sliders.window.value = window;
    this.inverted.setAttribute("aria-pressed", String(Boolean(invert)));
    this.zoomed.textContent = `${zoom.toFixed(1)}×`;
  }

  makeTools() {
    const button = (text, label, act) => h("button", { type: "button", title: label, "aria-label": label, onclick: act }, text);
    const slider = (name, label, low, high) => {
      const input = h("input", { type: "range", min: low, max: high, step: 1, "aria-label": label, oninput: (event) => this.change({ [name]: Number(event.target.value) }) });
      return [input, h("label", { className: "slider" }, h("span", {}, label), input)];
    };
    const [level, levelField] = slider("level", "Level", 0, 100);
    const [window, windowField] = slider("window", "Window", 2, 200);
    this.sliders = { level, window };
    this.zoomed = h("output", { className: "zoomed" }, "1.0×");
    this.inverted = button("◐", "Invert (i)", () => this.change({ invert: this.view.invert ? 0 : 1 }));
    return h("div", { className: "tools" },
      button("−", "Zoom out (-)", () => this.zoomBy(1 / 1.4)), this.zoomed, button("+", "Zoom in (+)", () => this.zoomBy(1.4)),
      levelField, windowField, this.inverted, button("↺", "Reset (0)", () => this.reset()), this.measure.button, this.measure.output);
  }

  // Zoom around the pointer, or around the centre.
  zoomBy(factor, event = null) {
    const zoom = Math.min(16, Math.max(1, this.view.zoom * factor));
    const ratio = zoom / this.view.zoom;
    const box = this.stage.getBoundingClientRect();
    const at = event ? [(event.clientX - box.left) / box.width - 0.5, (event.clientY - box.top) / box.height - 0.5] : [0, 0];
    this.change({ zoom, x: at[0] * 100 - (at[0] * 100 - this.view.x) * ratio, y: at[1] * 100 - (at[1] * 100 - this.view.y) * ratio });
  }

  listen() {
    this.stage.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY / 400), event);
    }, { passive: false });
    this.stage.addEventListener("dblclick", () => this.reset());
    this.stage.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const start = { ...this.view }, box = this.stage.getBoundingClientRect(), windowing = event.shiftKey;
      this.stage.setPointerCapture(event.pointerId);
      const isMeasuring = this.measure.isOn && this.measure.points;
      if (isMeasuring) this.measure.start(event);
      const move = (moved) => {
        if (isMeasuring) { this.measure.drag(moved); return; }
        const [dx, dy] = [(moved.clientX - event.clientX) / box.width * 100, (moved.clientY - event.clientY) / box.height * 100];
        this.change(windowing ? { window: start.window + dx, level: start.level + dy } : { x: start.x + dx, y: start.y + dy });
      };
      this.stage.addEventListener("pointermove", move);
      this.stage.addEventListener("pointerup", () => this.stage.removeEventListener("pointermove", move), { once: true });
    });
  }

  key(event) {
    const acts = { "+": () => this.zoomBy(1.4), "=": () => this.zoomBy(1.4), "-": () => this.zoomBy(1 / 1.4), 0: () => this.reset(), i: () => this.change({ invert: this.view.invert ? 0 : 1 }), m: () => { this.stage.focus(); this.measure.toggle(); } };
    if (this.measure.isOn && document.activeElement === this.stage && this.measure.key(event)) return true;
    if (event.key in acts) { acts[event.key](); return true; }
    const step = { ArrowLeft: [5, 0], ArrowRight: [-5, 0], ArrowUp: [0, 5], ArrowDown: [0, -5] }[event.key];
    if (step && document.activeElement === this.stage) { this.change({ x: this.view.x + step[0], y: this.view.y + step[1] }); return true; }
    return false;
  }
}

export const VIEW_NAMES = Object.keys(NEUTRAL);
export const viewOf = (state) => Object.fromEntries(VIEW_NAMES.filter((name) => name in state).map((name) => [name, Number(state[name]) || 0]));
export const noView = Object.fromEntries(VIEW_NAMES.map((name) => [name, null]));
