// The name under which this browser decides, remembered from one decision to the next.

const KEY = "signoff.by";

/** The name that was last used here, or nothing. */
export function rememberedDecider() {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return ""; // a browser that keeps nothing
  }
}

/** Keeps a name for the next time. */
export function rememberDecider(name) {
  try {
    localStorage.setItem(KEY, name);
  } catch {
    // It is asked for again.
  }
}
