// The page's own engine without a browser: commands as JSON lines on stdin, each answered by one line.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(new URL("../../../web/package.json", import.meta.url));
const { Terminal } = require("@xterm/headless");
const { Unicode11Addon } = require("@xterm/addon-unicode11");
const terminals = new Map();

function make(columns, rows) {
  const terminal = new Terminal({ cols: columns, rows, scrollback: 5000, allowProposedApi: true });
  terminal.loadAddon(new Unicode11Addon());
  terminal.unicode.activeVersion = "11";
  const made = { terminal, title: "", said: "" };
  terminal.onTitleChange((title) => (made.title = title));
  terminal.onData((data) => (made.said += data));
  return made;
}

// A blank is a blank, whether it was written or not; its foreground shows only where something is drawn in it.
function describe(cell, follows) {
  const flags = [
    cell.isBold(), cell.isDim(), cell.isItalic(), cell.isUnderline(), cell.isBlink(), cell.isInverse(),
    cell.isInvisible(), cell.isStrikethrough(), cell.isOverline(),
  ].map((on) => (on ? 1 : 0)).join("");
  const chars = cell.getChars() || (follows ? "" : " ");
  const foreground = cell.isFgDefault() ? "-" : `${cell.getFgColorMode()}:${cell.getFgColor()}`;
  const background = cell.isBgDefault() ? "-" : `${cell.getBgColorMode()}:${cell.getBgColor()}`;
  const underline = cell.isUnderline() ? `${cell.getUnderlineStyle()}/${cell.isUnderlineColorDefault() || cell.getUnderlineColor() === 0xffffff ? "-" : cell.getUnderlineColor()}` : "";
  const seen = chars.trim() || /[1]/.test(flags[3] + flags[5] + flags[7] + flags[8]);
  if (!chars) return "";
  return seen ? [chars, foreground, background, flags, underline].join(" ") : `_ ${background}`;
}

function readLine(buffer, at, columns) {
  const line = buffer.lines.get(at);
  const cells = [];
  const cell = buffer.getNullCell().constructor ? new (buffer.getNullCell().constructor)() : null;
  for (let x = 0; x < columns; x++) {
    line.loadCell(x, cell);
    cells.push(describe(cell, x > 0 && line.getWidth(x - 1) === 2));
  }
  return cells;
}

function dump({ terminal, title, said }) {
  const core = terminal._core;
  const buffer = core.buffer;
  const rows = [];
  const wrapped = [];
  for (let y = 0; y < terminal.rows; y++) {
    rows.push(readLine(buffer, buffer.ybase + y, terminal.cols));
    wrapped.push(buffer.lines.get(buffer.ybase + y).isWrapped);
  }
  const history = [];
  for (let y = Math.max(0, buffer.ybase - 100); y < buffer.ybase; y++)
    history.push(buffer.lines.get(y).translateToString(true));
  const modes = { ...terminal.modes, ...core.coreService.modes, hidden: core.coreService.isCursorHidden };
  return {
    size: [terminal.cols, terminal.rows],
    screen: terminal.buffer.active.type,
    cursor: [buffer.x, buffer.y],
    region: [buffer.scrollTop, buffer.scrollBottom],
    tabs: Object.keys(buffer.tabs).map(Number).filter((at) => at < terminal.cols && buffer.tabs[at]),
    modes, title, rows, wrapped, history, said,
  };
}

const commands = {
  new: async ({ id, columns, rows }) => void terminals.set(id, make(columns, rows)),
  write: async ({ id, data }) =>
    new Promise((done) => terminals.get(id).terminal.write(Buffer.from(data, "base64"), () => done())),
  resize: async ({ id, columns, rows }) => void terminals.get(id).terminal.resize(columns, rows),
  reset: async ({ id }) => void terminals.get(id).terminal.reset(),
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
