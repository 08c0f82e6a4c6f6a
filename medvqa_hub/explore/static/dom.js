// Create elements. Texts become text nodes, so that reports and answers are never parsed as HTML.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  return fill(element, properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name in element && !(element instanceof SVGElement) && name !== "list") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Replace the content of an element, skipping null and false.
export function put(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

export function select(label, value, options, onchange) {
  return h("label", { className: "field" }, h("span", {}, label),
    h("select", { onchange: (event) => onchange(event.target.value), "aria-label": label },
      options.map(([name, text]) => h("option", { value: name, selected: name === value }, text ?? name))));
}

export function say(text, isError = false) {
  const place = document.getElementById("message");
  place.textContent = text;
  place.className = text ? (isError ? "shown error" : "shown") : "";
  clearTimeout(say.timer);
  if (text && !isError) say.timer = setTimeout(() => say(""), 2500);
}

// Fetch JSON. Throws the server's error message.
export async function ask(path, parameters = {}, body = null) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value != null));
  return read(`${path}${query.size ? "?" : ""}${query}`, body === null ? {} : post(JSON.stringify(body), "application/json"));
}

// Fetch a file.
export function send(path, file) {
  return read(path, post(file, "application/octet-stream"));
}

const post = (body, type) => ({ method: "POST", body, headers: { "content-type": type } });

async function read(address, options) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch {
    throw new Error("The explorer does not respond. Is it still running?");
  }
  const text = await answer.text();
  let found = null;
  try { found = JSON.parse(text); } catch { /* a refusal is plain text */ }
  if (!answer.ok) throw Object.assign(new Error(found?.error ?? text.slice(0, 300)), { status: answer.status });
  return found;
}

export const number = (value) => value.toLocaleString("en");
