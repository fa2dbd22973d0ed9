// Who uses this page, as the service knows them; the proof is in a cookie that no script reads.

let current;

/** Who is signed in, with `is_open` where nobody is asked; undefined until that is known. */
export function whoIsHere() {
  return current;
}

/** Keeps what the service says of who is here; nothing forgets it. */
export function nowHere(session) {
  current = session;
}
