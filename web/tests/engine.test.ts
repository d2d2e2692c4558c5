/** Characters reach the engine whole, however the connection cuts them. */
import assert from "node:assert/strict";
import test from "node:test";
import { WholeCharacters } from "../src/terminal/engine.ts";

const TEXT = new TextEncoder().encode("a — “b” … 日本 🎉 é");

test("cut anywhere, a text is the same text and no piece ends within a character", () => {
  for (let first = 0; first <= TEXT.length; first++) {
    for (let second = first; second <= TEXT.length; second++) {
      const characters = new WholeCharacters();
      const pieces = [TEXT.subarray(0, first), TEXT.subarray(first, second), TEXT.subarray(second)];
      const said = pieces.map((piece) => new TextDecoder("utf-8", { fatal: true }).decode(characters.take(piece)));
      assert.equal(said.join(""), "a — “b” … 日本 🎉 é");
    }
  }
});

test("bytes that are no character are not kept back for ever", () => {
  const characters = new WholeCharacters();
  assert.deepEqual([...characters.take(Uint8Array.of(0x80, 0x80, 0x80, 0x80))], [0x80, 0x80, 0x80, 0x80]);
  assert.deepEqual([...characters.take(Uint8Array.of(0xe2, 0x80))], []);
  assert.deepEqual([...characters.take(Uint8Array.of(0x41))], [0xe2, 0x80, 0x41]);
  characters.take(Uint8Array.of(0xe2));
  characters.forget();
  assert.deepEqual([...characters.take(Uint8Array.of(0x41))], [0x41]);
});
