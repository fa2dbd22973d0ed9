// Makes the elements of the page. Whatever comes from outside is text, and never markup.

/**
 * An element with attributes and children: `element("a", { href: "#" }, "All", strong)`.
 *
 * Attributes that are null, undefined or false are left out; `true` has no value; functions are
 * listeners of the event that their name says. Strings among the children become text.
 */
export function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) set(made, name, value);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

function set(made, name, value) {
  if (typeof value === "function") made.addEventListener(name, value);
  else if (value === true) made.setAttribute(name, "");
  else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
}

let made = 0;

/** An id that no other element of the page has. */
export function newId() {
  made += 1;
  return `e${made}`;
}

/** Shows or hides an element with the text in it. */
export function say(where, text) {
  if (where.textContent !== text) where.textContent = text;
  where.hidden = !text;
}
