/**
 * Builds the page into mcp_bridge/_web/static, or into the folder given as the only argument.
 *
 * The result depends on the sources and the pinned versions alone, so a test can build it again and compare.
 */
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? join(here, "../mcp_bridge/_web/static");

await mkdir(target, { recursive: true });
await build({
  entryPoints: { app: join(here, "src/app.jsx") },
  outdir: target,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome123", "firefox121", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  banner: { js: await describeLicenses(["preact", "@preact/signals", "@preact/signals-core"]) },
  absWorkingDir: here,
});
for (const name of ["page.html", "icon.svg"]) {
  await copyFile(join(here, name), join(target, name));
}
await build({ entryPoints: [join(here, "app.css")], outfile: join(target, "app.css"), minify: true });

/** Return a comment with the licence of each bundled library, because their licences require it. */
async function describeLicenses(names) {
  const texts = new Map();
  for (const name of names) {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const text = (await readFile(join(folder, "LICENSE"), "utf8")).trim();
    texts.set(text, [...(texts.get(text) ?? []), `${name} ${version} (${license})`]);
  }
  const parts = [...texts].map(([text, packages]) => `${packages.join(", ")}\n\n${text}`);
  return `/*!\nThis file contains:\n\n${parts.join("\n\n")}\n*/`;
}
