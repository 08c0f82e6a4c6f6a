// A line over a radiograph, in pixels of the image. Its length is also given as a share of the line before, as for the cardiothoracic ratio.

import { h, svg } from "./dom.js";

export class Measure {
  constructor() {
    this.line = svg("line");
    this.ends = [0, 1].map(() => svg("circle", { r: 1 }));
    this.element = svg("svg", { class: "measure", hidden: true }, this.line, this.ends);
    this.output = h("output", { className: "measured" });
    this.button = h("button", { type: "button", title: "Measure (m)", "aria-label": "Measure", "aria-pressed": "false", onclick: () => this.toggle() }, "⟷");
  }

  get isOn() {
    return this.button.getAttribute("aria-pressed") === "true";
  }

  // The image whose pixels are measured. A new one has no line.
  attach(image) {
    this.size = [image.naturalWidth, image.naturalHeight];
    this.element.setAttribute("viewBox", `0 0 ${this.size.join(" ")}`);
    this.points = this.before = null;
    this.draw();
  }

  toggle() {
    if (!this.size) return;
    this.button.setAttribute("aria-pressed", String(!this.isOn));
    const [width, height] = this.size;
    if (this.isOn) this.points ??= [[width / 4, height / 2], [3 * width / 4, height / 2]];
    this.draw();
  }

  start(event) {
    this.before = this.points && this.length();
    this.points = [this.at(event), this.at(event)];
    this.draw();
  }

  drag(event) {
    this.points[1] = this.at(event);
    this.draw();
  }

  // Arrow keys move the end of the line, with Shift its start. Enter begins the next line.
  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Enter") this.before = this.length();
    else if (!step) return false;
    else {
      const end = event.shiftKey ? 0 : 1, size = this.size[0] / 200;
      this.points[end] = this.points[end].map((value, axis) => Math.min(this.size[axis], Math.max(0, value + step[axis] * size)));
    }
    this.draw();
    return true;
  }

  at(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.element.getScreenCTM().inverse());
    return [point.x, point.y];
  }

  length() {
    const [[x1, y1], [x2, y2]] = this.points;
    return Math.hypot(x2 - x1, y2 - y1);
  }

  draw() {
    const isShown = this.isOn && this.points;
    this.element.toggleAttribute("hidden", !isShown);
    if (!isShown) { this.output.textContent = ""; return; }
    const [[x1, y1], [x2, y2]] = this.points;
    for (const [name, value] of Object.entries({ x1, y1, x2, y2 })) this.line.setAttribute(name, value);
    this.ends.forEach((end, place) => { end.setAttribute("cx", this.points[place][0]); end.setAttribute("cy", this.points[place][1]); end.setAttribute("r", this.size[0] / 150); });
    const length = this.length();
    this.output.textContent = `${Math.round(length)} px${this.before ? `, ${(length / this.before).toFixed(2)} of the line before` : ""}`;
  }
}
