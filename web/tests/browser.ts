/**
 * What a browser gives the page and Node does not, so that the page's own code runs as it is: runes are compiled, the
 * address is that of a server on loopback. Network, keys and timers are Node's own.
 */
import { readFileSync } from "node:fs";
import { registerHooks, stripTypeScriptTypes } from "node:module";
import { fileURLToPath } from "node:url";
import { compileModule } from "svelte/compiler";

registerHooks({
  load(url, context, next) {
    if (!url.endsWith(".svelte.ts")) return next(url, context);
    const source = stripTypeScriptTypes(readFileSync(fileURLToPath(url), "utf8"));
    const { js } = compileModule(source, { filename: fileURLToPath(url), generate: "client" });
    return { format: "module", source: js.code, shortCircuit: true };
  },
});

class Window extends EventTarget {
  readonly isSecureContext = true;
}

class Page extends EventTarget {
  readonly visibilityState = "visible";
}

/** The page is at this origin from now on. Without IndexedDB it is logged in as long as it is open. */
export function openPageAt(origin: string): void {
  const { fetch } = globalThis;
  Object.assign(globalThis, {
    window: new Window(),
    document: new Page(),
    location: new URL(origin),
    indexedDB: {
      open: () => {
        throw new Error("nothing is kept");
      },
    },
    fetch: (path: string, init?: RequestInit) => fetch(new URL(path, origin), init),
    reportError: (error: unknown) => {
      throw error;
    },
  });
}
