// What is shown is the address: every state has a link, and going back goes back.

const listeners = [];

export const state = () => Object.fromEntries(new URLSearchParams(location.search));

// Change some of the state; null removes. `replace` for what nobody wants to go back through (zoom, window).
export function go(changes, { replace = false, quiet = false } = {}) {
  const next = { ...state(), ...changes };
  const query = new URLSearchParams(Object.entries(next).filter(([, value]) => value !== null && value !== "" && value !== undefined));
  const address = `${location.pathname}${query.size ? "?" : ""}${query}`;
  if (address === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  if (!quiet) tell();
}

export function onState(listener) {
  listeners.push(listener);
}

export function tell() {
  for (const listener of listeners) listener(state());
}

addEventListener("popstate", tell);
