// Bytes: base64 as the API has them, text, and lines of hexadecimal digits beside characters.

/** @param {string} text  base64 */
export function decoded(text) {
  return Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
}

/** @param {Uint8Array} bytes  @returns {string} base64 */
export function encoded(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; start += 8192) text += String.fromCharCode(...bytes.subarray(start, start + 8192));
  return btoa(text);
}

/** The bytes of a file that a user has chosen, as base64. @param {File} file */
export async function contentOf(file) {
  return encoded(new Uint8Array(await file.arrayBuffer()));
}

/** A new name of 32 hexadecimal digits, for what is to be done once. */
export function drawn() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");
}

const LINES_MAX = 2048;

/** @param {Uint8Array} bytes */
export function hex(bytes) {
  const lines = [];
  for (let start = 0; start < bytes.length && lines.length < LINES_MAX; start += 16) {
    const part = [...bytes.subarray(start, start + 16)];
    const digits = part.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    const letters = part.map((one) => (one >= 32 && one < 127 ? String.fromCharCode(one) : "·")).join("");
    lines.push(`${start.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${letters}`);
  }
  const left = bytes.length - LINES_MAX * 16;
  if (left > 0) lines.push(`… ${left.toLocaleString("en-US")} more bytes`);
  return lines.join("\n");
}

/** Gives the user a file. @param {string} name  @param {BlobPart[]} parts  @param {string} kind */
export function download(name, parts, kind) {
  const url = URL.createObjectURL(new Blob(parts, { type: kind }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name.replace(/[^\w.-]+/g, "_");
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
