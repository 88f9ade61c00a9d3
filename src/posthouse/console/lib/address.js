// Addresses of the console: #/page/part/part?name=value, each part percent-encoded.

/**
 * @param {string} page
 * @param {string[]} path
 * @param {Record<string, string | number | null | undefined>} [query]
 */
export function to(page, path = [], query = {}) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") words.set(name, String(value));
  }
  const where = ["#", page, ...path.map(encodeURIComponent)].join("/");
  return words.size ? `${where}?${words}` : where;
}

/** @param {string} hash */
export function parse(hash) {
  const [where = "", query = ""] = split(hash.replace(/^#\/?/, ""), "?");
  const [page = "", ...path] = where.split("/").map(decoded);
  return { page, path, query: new URLSearchParams(query) };
}

/** @param {string} text  @param {string} mark */
function split(text, mark) {
  const place = text.indexOf(mark);
  return place < 0 ? [text] : [text.slice(0, place), text.slice(place + 1)];
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
