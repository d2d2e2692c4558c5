/** Sizes of letters and room between things come from the scales in style.css. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";

const SCALED =
  /^\s+(?:font-size|gap|(?:row|column)-gap|border-spacing|(?:padding|margin)(?:-\w+)?|inset|top|right|bottom): ([^;]+);/gm;
/** A hairline is no room, and a limit within clamp() is none that is always there. */
const LITERAL = /(?<![\w.-])(?!0\b|1px)[\d.]+px/;

test("no component has a size of its own", () => {
  const folder = new URL("../src/", import.meta.url);
  let found = 0;
  for (const name of readdirSync(folder, { recursive: true }) as string[]) {
    if (!/\.(css|svelte)$/.test(name)) continue;
    for (const [line, value] of readFileSync(new URL(name, folder), "utf8").matchAll(SCALED)) {
      found += 1;
      assert.doesNotMatch(value!.replace(/clamp\(.*?\)(?= |$)/, ""), LITERAL, `${name}: ${line.trim()}`);
    }
  }
  assert.ok(found > 100, `only ${found} declarations were found`);
});

test("every step that is used is in a scale", () => {
  const folder = new URL("../src/", import.meta.url);
  const sheet = readFileSync(new URL("style.css", folder), "utf8");
  for (const name of readdirSync(folder, { recursive: true }) as string[]) {
    if (!/\.(css|svelte)$/.test(name)) continue;
    for (const [, step] of readFileSync(new URL(name, folder), "utf8").matchAll(/var\((--(?:text|space)-[\w-]+)\)/g))
      assert.ok(sheet.includes(`  ${step}: `), `${name}: ${step}`);
  }
});
