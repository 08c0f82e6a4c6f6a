// The address holds the state, so that every state has a link and the back button works.

const listeners = [];

export const state = () => Object.fromEntries(new URLSearchParams(location.search));

// Change the state. null removes a value. `replace` adds no history entry (zoom, window).
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
