/** The panel and the item that the address names: `#/tools/NAME`. */
import { signal } from "@preact/signals";

export const route = signal(readRoute());

addEventListener("hashchange", () => {
  route.value = readRoute();
});

function readRoute() {
  const [, panel = "tools", item = ""] = location.hash.split("/");
  return { panel: panel || "tools", item: decode(item) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // an address that a user has typed
  }
}

export function formatAddress(panel, item) {
  return item === undefined || item === "" ? `#/${panel}` : `#/${panel}/${encodeURIComponent(item)}`;
}

export function navigate(panel, item) {
  location.hash = formatAddress(panel, item);
}
