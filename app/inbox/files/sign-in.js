// The form by which one signs in with a key; the service gives a cookie for it, and the page forgets it.

import { Problem, signIn, Unreachable } from "./api.js";
import { element, say } from "./element.js";

const UNREACHABLE = "The service cannot be reached. Try again in a moment.";
const REFUSED = "This key is not known here, or not good any more.";

/** A form that calls back with who has signed in. */
export function signInForm(onSignedIn, reason) {
  const field = element("input", {
    type: "password",
    name: "key",
    id: "sign-in-key",
    autocomplete: "current-password",
    spellcheck: "false",
    required: true,
    "aria-describedby": "sign-in-hint sign-in-fault",
  });
  // A password manager looks for a name beside the key.
  const name = element("input", { type: "text", autocomplete: "username", hidden: true, value: "signoff" });
  const fault = element("p", { class: "status", id: "sign-in-fault", role: "alert", hidden: true });
  const submit = async (event) => {
    event.preventDefault();
    say(fault, "");
    try {
      onSignedIn(await signIn(field.value.trim()));
    } catch (error) {
      say(fault, reasonOf(error));
      field.select();
      field.focus();
    }
  };
  return element(
    "form",
    { id: "sign-in", "aria-label": "Sign in", novalidate: true, submit },
    element("h2", { tabindex: "-1" }, "Sign in"),
    reason && element("p", null, reason),
    name,
    element(
      "div",
      { class: "field" },
      element("label", { for: "sign-in-key" }, "Key"),
      element("p", { class: "hint", id: "sign-in-hint" }, "Whoever runs this service gives you one."),
      field,
    ),
    fault,
    element("div", { class: "buttons" }, element("button", { class: "primary" }, "Sign in")),
  );
}

function reasonOf(error) {
  if (error instanceof Unreachable) return UNREACHABLE;
  if (error instanceof Problem) return error.status === 401 || error.status === 422 ? REFUSED : error.message;
  throw error;
}
