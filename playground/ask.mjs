// node ask.mjs BUNDLE.zip < questions: answers questions, one a line, with the engine of the page.
// The first line of the output has the seconds until the engine was ready; each other line is { seconds, answer }.

import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { loadPyodide } from "pyodide";
import createPyodideModule from "pyodide/pyodide.asm.mjs";
import { openEngine } from "./boot.js";

const [bundle] = process.argv.slice(2);
const assets = async (name) => {
  const path = name === "cathedra.zip" ? bundle : new URL(import.meta.resolve(`pyodide/${name}`));
  return new Uint8Array(await readFile(path));
};
// In Node, Pyodide reads its own files from the folder of its package.
const folder = fileURLToPath(new URL(".", import.meta.resolve("pyodide/pyodide.mjs")));
const options = { indexURL: folder, stdLibURL: `${folder}python_stdlib.zip` };
const began = performance.now();
const engine = await openEngine({ runtime: { loadPyodide, createPyodideModule, options }, assets });
console.log(JSON.stringify({ seconds: (performance.now() - began) / 1000, ...engine.versions }));
for await (const question of createInterface({ input: process.stdin })) {
  const asked = performance.now();
  const answer = engine.answer(question);
  console.log(`{"seconds":${(performance.now() - asked) / 1000},"answer":${answer}}`);
}
