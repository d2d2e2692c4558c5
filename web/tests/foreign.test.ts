/** Foreign text on the page: nothing turns text around or hides it; all else stays what it is. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";
import { decode, printable } from "../src/server/foreign.ts";

test("what steers or turns text around is shown as its escape, however it is written", () => {
  const hostile = "a\u001b[31m\u009b\u202eb\u2066\u2028\u0000\ud800c";
  const shown = "a\\u001b[31m\\u009b\\u202eb\\u2066\\u2028\\u0000\\ud800c";
  assert.equal(printable(hostile), shown);
  assert.deepEqual(decode(JSON.stringify({ list: [{ hostile }] })), { list: [{ hostile: shown }] });
  assert.deepEqual(decode('{"a": "\\u202e"}'), { a: "\\u202e" });
  assert.deepEqual(decode('{"a": "\u202e"}'), { a: "\\u202e" });
});

test("all else stays what it is", () => {
  for (const text of ["", "plain", "é 漢字 👩‍💻 🏳️‍🌈", "two\nlines\tand a tab", "a\\u202eb"]) {
    assert.equal(printable(text), text);
    assert.equal(decode(JSON.stringify(text)), text);
  }
  assert.equal(decode('"\\u00e9 \\ud83d\\ude00"'), "é 😀");
  assert.deepEqual(decode('{"n": 1.5, "b": null, "\\u0041": [true]}'), { n: 1.5, b: null, A: [true] });
});

test("no other file reads JSON from elsewhere", () => {
  const folder = new URL("../src/", import.meta.url);
  for (const name of readdirSync(folder, { recursive: true }) as string[]) {
    if (!/\.(ts|svelte)$/.test(name) || name === "server/foreign.ts") continue;
    assert.doesNotMatch(readFileSync(new URL(name, folder), "utf8"), /JSON\.parse|\.json\(\)/, name);
  }
});
