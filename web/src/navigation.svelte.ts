/** Where the page is: kept in the address, so that a reload and the Back key do what people expect. */
import type { Reading } from "./store/reading.ts";

export type Place =
  { view: "start" } | { view: "tab"; tab: string } | { view: "session"; ref: string } | { view: "usage" };

function readPlace(hash: string): Place {
  const [, view, name] = /^#\/(\w+)(?:\/([\w.-]+))?$/.exec(hash) ?? [];
  if (view === "tab" && name) return { view, tab: name };
  if (view === "session" && name) return { view, ref: name };
  if (view === "usage") return { view };
  return { view: "start" };
}

class Navigation {
  place = $state.raw<Place>(readPlace(location.hash));

  constructor() {
    window.addEventListener("hashchange", () => (this.place = readPlace(location.hash)));
  }

  go(place: Place, options: { replace?: boolean } = {}): void {
    const name = place.view === "tab" ? `/${place.tab}` : place.view === "session" ? `/${place.ref}` : "";
    const hash = place.view === "start" ? "#/" : `#/${place.view}${name}`;
    if (options.replace) history.replaceState(null, "", hash);
    else if (location.hash !== hash) history.pushState(null, "", hash);
    this.place = place;
  }
}

export const navigation: Reading<Navigation> = new Navigation();
