// The key with which this tab asks the service, where the service wants one; forgotten with the tab.

const KEY = "signoff.key";

let known = "";

/** The key that was given in this tab, or nothing. */
export function givenKey() {
  try {
    return sessionStorage.getItem(KEY) ?? known;
  } catch {
    return known; // a browser that keeps nothing
  }
}

/** Keeps a key until the tab is closed; an empty one forgets it. */
export function giveKey(key) {
  known = key;
  try {
    if (key) sessionStorage.setItem(KEY, key);
    else sessionStorage.removeItem(KEY);
  } catch {
    // It is asked for again when the page is loaded again.
  }
}
