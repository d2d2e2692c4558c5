// A terminal server in the shape that xterm.js and its users have: node-pty on one side, ws on the other, raw bytes
// passed on as they come, the last of them kept for whoever comes back. No timer that gathers: it would delay keys.
"use strict";
const pty = require("@lydell/node-pty");
const { WebSocketServer } = require("ws");

const KEPT_BYTES = 256 * 1024;
const [program, ...words] = process.argv.slice(2);
const terminals = new Map();

function start() {
  const terminal = { clients: new Set(), kept: [], bytes: 0 };
  terminal.process = pty.spawn(program, words, { name: "xterm-256color", cols: 80, rows: 24, encoding: null });
  terminal.process.onData((data) => {
    terminal.kept.push(data);
    terminal.bytes += data.length;
    while (terminal.bytes - terminal.kept[0].length > KEPT_BYTES) terminal.bytes -= terminal.kept.shift().length;
    for (const client of terminal.clients) client.send(data);
  });
  return terminal;
}

const server = new WebSocketServer({ port: 0, host: "127.0.0.1", perMessageDeflate: false }, () => {
  console.log(server.address().port);
});
server.on("connection", (client, request) => {
  if (!terminals.has(request.url)) terminals.set(request.url, start());
  const terminal = terminals.get(request.url);
  if (terminal.bytes) client.send(Buffer.concat(terminal.kept));
  terminal.clients.add(client);
  client.on("message", (data) => terminal.process.write(data));
  client.on("close", () => terminal.clients.delete(client));
});
