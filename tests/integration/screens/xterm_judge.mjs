// The page's own engine without a browser: commands as JSON lines on stdin, each answered by one line.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { FIRST_STATE, WholeCharacters } from "../../../web/src/terminal/engine.ts";

const require = createRequire(new URL("../../../web/package.json", import.meta.url));
const { Terminal } = require("@xterm/headless");
const { Unicode11Addon } = require("@xterm/addon-unicode11");
const terminals = new Map();

function make(columns, rows) {
  const terminal = new Terminal({ cols: columns, rows, scrollback: 5000, allowProposedApi: true, logLevel: "off" });
  terminal.loadAddon(new Unicode11Addon());
  terminal.unicode.activeVersion = "11";
  const made = { terminal, title: "", said: "", colours: {}, characters: new WholeCharacters() };
  terminal.onTitleChange((title) => (made.title = title));
  terminal.onData((data) => (made.said += data));
  terminal._core._inputHandler.onColor((events) => events.forEach((event) => noteColour(made, event)));
  return made;
}

// Set 1, restored 2: one colour, or without an index all of the palette.
function noteColour(made, { type, index, color }) {
  if (type === 1) made.colours[index] = color;
  else if (type === 2 && index !== undefined) delete made.colours[index];
  else if (type === 2) for (let at = 0; at < 256; at++) delete made.colours[at];
}

// A blank is a blank, whether it was written or not; its foreground shows only where something is drawn in it.
function describe(cell, follows, isHalf) {
  const flags = [
    cell.isBold(), cell.isDim(), cell.isItalic(), cell.isUnderline(), cell.isBlink(), cell.isInverse(),
    cell.isInvisible(), cell.isStrikethrough(), cell.isOverline(),
  ].map((on) => (on ? 1 : 0)).join("");
  // Of a wide character that was cut by a change of size the left half stays. Nothing can write that.
  const chars = isHalf && cell.getWidth() === 2 ? " " : cell.getChars() || (follows ? "" : " ");
  const foreground = cell.isFgDefault() ? "-" : `${cell.getFgColorMode()}:${cell.getFgColor()}`;
  const background = cell.isBgDefault() ? "-" : `${cell.getBgColorMode()}:${cell.getBgColor()}`;
  const underline = cell.isUnderline() ? `${cell.getUnderlineStyle()}/${cell.isUnderlineColorDefault() || cell.getUnderlineColor() === 0xffffff ? "-" : cell.getUnderlineColor()}` : "";
  const seen = chars.trim() || /[1]/.test(flags[3] + flags[5] + flags[7] + flags[8]);
  if (!chars) return "";
  // A cell that is read without such attributes leaves those of the one that was read before it.
  const link = cell.hasExtendedAttrs() && cell.extended.urlId ? "linked" : "";
  return seen || link ? [chars, foreground, background, flags, underline, link].join(" ").trimEnd() : `_ ${background}`;
}

function readLine(buffer, at, columns) {
  const line = buffer.lines.get(at);
  const cells = [];
  const cell = buffer.getNullCell().constructor ? new (buffer.getNullCell().constructor)() : null;
  for (let x = 0; x < columns; x++) {
    line.loadCell(x, cell);
    cells.push(describe(cell, x > 0 && line.getWidth(x - 1) === 2 && line.getWidth(x) === 0, x === columns - 1 || line.getWidth(x + 1) !== 0));
  }
  return cells;
}

const letters = (charset) => (charset ? Object.values(charset).join("") : "");

// What is not on the screen and decides what comes there later.
function readBuffer(buffer, terminal) {
  const rows = [];
  const wrapped = [];
  for (let y = 0; y < terminal.rows && y < buffer.lines.length; y++) {
    rows.push(readLine(buffer, buffer.ybase + y, terminal.cols));
    wrapped.push(y > 0 && buffer.lines.get(buffer.ybase + y).isWrapped);
  }
  const savedRow = Math.min(terminal.rows - 1, Math.max(0, buffer.savedY - buffer.ybase));
  const pen = describePen(buffer.savedCurAttrData).slice(0, 6);
  const saved = [Math.min(terminal.cols - 1, buffer.savedX), savedRow, pen, letters(buffer.savedCharset)];
  const tabs = Object.keys(buffer.tabs).map(Number).filter((at) => at < terminal.cols && buffer.tabs[at]);
  return { rows, wrapped, saved, tabs, region: [buffer.scrollTop, buffer.scrollBottom] };
}

function describePen(pen) {
  const colours = [pen.getFgColorMode(), pen.getFgColor(), pen.getBgColorMode(), pen.getBgColor()];
  // xterm.js 6.0.0 makes white of the default colour of underlines.
  const line = pen.extended.underlineColor & 0x3000000 && pen.extended.underlineColor !== 0x3ffffff;
  const flags = [pen.fg & 0xfc000000, pen.bg & 0x4c000000];
  return [...colours, ...flags, ...(line ? [pen.getUnderlineColorMode(), pen.getUnderlineColor()] : [])];
}

function dump({ terminal, title, said, colours }) {
  const core = terminal._core;
  const known = [...core._oscLinkService._dataByLinkId.values()];
  const links = [...new Set(known.map(({ data }) => `${data.id ?? ""};${data.uri}`))];
  const buffer = core.buffer;
  const rows = [];
  const wrapped = [];
  for (let y = 0; y < terminal.rows; y++) {
    rows.push(readLine(buffer, buffer.ybase + y, terminal.cols));
    wrapped.push(y > 0 && buffer.lines.get(buffer.ybase + y).isWrapped);
  }
  const { normal, alt } = core._bufferService.buffers;
  const history = [];
  for (let y = Math.max(0, normal.ybase - 1000); y < normal.ybase; y++)
    history.push(readLine(normal, y, terminal.cols));
  const { activeProtocol, activeEncoding } = core.coreMouseService;
  const modes = {
    ...terminal.modes, ...core.coreService.modes, hidden: core.coreService.isCursorHidden, activeEncoding,
    style: core.coreService.decPrivateModes.cursorStyle, blinks: core.coreService.decPrivateModes.cursorBlink,
    blinkMode: terminal.options.cursorBlink, convertEol: terminal.options.convertEol, activeProtocol,
  };
  const { charset, glevel, _charsets } = core._charsetService;
  return {
    below: buffer === alt ? readBuffer(normal, terminal) : null,
    kept: readBuffer(buffer, terminal).saved,
    pen: describePen(core._inputHandler._curAttrData),
    letters: [letters(charset), glevel, ...[0, 1, 2, 3].map((at) => letters(_charsets[at]))],
    colours, links,
    size: [terminal.cols, terminal.rows],
    screen: terminal.buffer.active.type,
    cursor: [buffer.x, buffer.y],
    region: [buffer.scrollTop, buffer.scrollBottom],
    tabs: Object.keys(buffer.tabs).map(Number).filter((at) => at < terminal.cols && buffer.tabs[at]),
    modes, title, rows, wrapped, history, said,
  };
}

// As the page does it.
const write = ({ terminal, characters }, bytes) => new Promise((done) => terminal.write(characters.take(bytes), done));

function reset({ terminal, characters }) {
  characters.forget();
  terminal.reset();
  return new Promise((done) => terminal.write(FIRST_STATE, done));
}

// Of the alternate screen xterm.js 6.0.0 keeps what is beyond its last column, and lines above it if it was not shown when
// the rows became fewer. It comes back when the screen grows, and programs paint over it.
function resize(terminal, columns, rows) {
  const { alt } = terminal._core._bufferService.buffers;
  terminal.resize(columns, rows);
  if (!alt.lines.length) alt.lines.maxLength = rows;
  for (let y = 0; y < alt.lines.length; y++) alt.lines.get(y).resize(columns, alt.getNullCell());
}

const commands = {
  new: async ({ id, columns, rows }) => void terminals.set(id, make(columns, rows)),
  write: async ({ id, data }) => write(terminals.get(id), Buffer.from(data, "base64")),
  resize: async ({ id, columns, rows }) => resize(terminals.get(id).terminal, columns, rows),
  reset: async ({ id }) => reset(terminals.get(id)),
  drop: async ({ id }) => void (terminals.get(id).terminal.dispose(), terminals.delete(id)),
  dump: async ({ id }) => dump(terminals.get(id)),
  widths: async () => {
    const service = make(80, 24).terminal._core.unicodeService;
    const widths = [];
    for (let code = 0; code < 0x110000; code++) widths.push(service.wcwidth(code));
    return widths.join("");
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  try {
    process.stdout.write(JSON.stringify({ answer: (await commands[command.do](command)) ?? null }) + "\n");
  } catch (error) {
    process.stdout.write(JSON.stringify({ error: String(error.stack) }) + "\n");
  }
}
