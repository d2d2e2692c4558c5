/** One xterm.js screen with its addons: what is drawn, what is linked, what may reach the clipboard. No network here. */
import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { Unicode11Addon } from "@xterm/addon-unicode11";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { WebglAddon } from "@xterm/addon-webgl";
import { Terminal, type ITheme } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { adoptStyleElements, setStylesAsProperties } from "./styles.ts";

adoptStyleElements(document);
setStylesAsProperties(Element.prototype);

const FONT =
  'ui-monospace, "Cascadia Mono", "SF Mono", Menlo, "DejaVu Sans Mono", "Noto Sans Mono", Consolas, monospace';
const SCROLLBACK_LINES = 5000;
const CLIPBOARD_BYTES = 1024 * 1024;

export interface ScreenEvents {
  data(data: string): void;
  /** The pointer, in the old way: bytes that are no text. */
  pointer(bytes: Uint8Array): void;
  /** A program wants text on the clipboard. */
  copy(text: string): void;
  /** The address under the pointer, or null. */
  link(address: string | null): void;
}

export interface Screen {
  terminal: Terminal;
  fit: FitAddon;
  search: SearchAddon;
}

export function makeScreen(host: HTMLElement, events: ScreenEvents): Screen {
  const openLink = (_event: MouseEvent, address: string): void => {
    if (isSafeLink(address)) window.open(address, "_blank", "noopener,noreferrer");
  };
  const terminal = new Terminal({
    allowProposedApi: true, // unicode versions and search marks
    cursorBlink: false,
    fontFamily: FONT,
    fontSize: 13,
    lineHeight: 1.15,
    macOptionIsMeta: true,
    minimumContrastRatio: 4.5,
    scrollback: SCROLLBACK_LINES,
    theme: readTheme(),
    linkHandler: {
      activate: openLink,
      hover: (_event, address) => events.link(address),
      leave: () => events.link(null),
    },
  });
  const fit = new FitAddon();
  const search = new SearchAddon();
  terminal.loadAddon(fit);
  terminal.loadAddon(search);
  terminal.loadAddon(new Unicode11Addon());
  terminal.unicode.activeVersion = "11";
  terminal.loadAddon(
    new WebLinksAddon(openLink, { hover: (_event, address) => events.link(address), leave: () => events.link(null) }),
  );
  terminal.onData((data) => events.data(data));
  terminal.onBinary((data) => events.pointer(Uint8Array.from(data, (character) => character.charCodeAt(0))));
  terminal.parser.registerOscHandler(52, (data) => takeClipboard(data, events));
  terminal.open(host);
  drawFast(terminal);
  return { terminal, fit, search };
}

/** WebGL where the browser has it; the plain renderer, which xterm.js falls back to by itself, where not. */
function drawFast(terminal: Terminal): void {
  try {
    const webgl = new WebglAddon();
    webgl.onContextLoss(() => webgl.dispose());
    terminal.loadAddon(webgl);
  } catch {
    // No WebGL here: the plain renderer is in place already.
  }
}

export function isSafeLink(address: string): boolean {
  try {
    return ["http:", "https:"].includes(new URL(address).protocol);
  } catch {
    return false;
  }
}

/** OSC 52: a question is never answered; text is offered to the person, who decides. */
function takeClipboard(data: string, events: ScreenEvents): boolean {
  const encoded = data.slice(data.indexOf(";") + 1);
  if (encoded === "?" || encoded.length > CLIPBOARD_BYTES) return true;
  try {
    const bytes = Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
    const text = new TextDecoder().decode(bytes);
    if (text) events.copy(text);
  } catch {
    // Not base64: not a request that anyone could grant.
  }
  return true;
}

/** The colours that the style sheet has in force. */
export function readTheme(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string): string => style.getPropertyValue(`--terminal-${name}`).trim();
  const theme: Record<string, string> = {};
  for (const name of ["background", "foreground", "cursor"]) theme[name] = read(name);
  theme["cursorAccent"] = read("background");
  theme["selectionBackground"] = read("selection");
  for (const name of ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]) {
    theme[name] = read(name);
    theme[`bright${name[0]!.toUpperCase()}${name.slice(1)}`] = read(`bright-${name}`);
  }
  return theme;
}
