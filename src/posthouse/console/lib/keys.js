// Shortcuts of the keyboard; the help page turns them off.

const OFF = "posthouse.shortcuts-off";

export function areOn() {
  return localStorage.getItem(OFF) === null;
}

/** @param {boolean} on */
export function turn(on) {
  if (on) localStorage.removeItem(OFF);
  else localStorage.setItem(OFF, "1");
}

/**
 * @param {Record<string, () => void>} single
 * @param {Record<string, () => void>} afterG
 */
export function listen(single, afterG) {
  let waiting = false;
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    const typing = target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
    if (!areOn() || typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const act = waiting ? afterG[event.key] : single[event.key];
    waiting = !waiting && event.key === "g";
    if (act) {
      event.preventDefault();
      act();
    }
  });
}
