// Check every page of the built book against WCAG 2.2, levels A and AA, with axe-core.
//
//     make book
//     npm install --no-save axe-core playwright-core
//     node book/tools/accessibility.js [words of page names]
//
// Each page is checked in light and in dark mode, as wide as a desktop and as a phone,
// with every closed cell open. CHROMIUM names the browser's program; without it, Google
// Chrome runs. The status is 1 if any page breaks a rule, and 0 otherwise.
// .github/workflows/weekly.yml runs this.

const fs = require("fs");
const path = require("path");
const { pathToFileURL } = require("url");
const { chromium } = require("playwright-core");

const AXE = require.resolve("axe-core/axe.min.js");
const FOLDER = path.resolve(__dirname, "../../_build/html");
const WIDTHS = [1280, 390];
const MODES = ["light", "dark"];
const OPTIONS = {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
  // axe calls this rule experimental and runs it only when asked.
  rules: { "label-content-name-mismatch": { enabled: true } },
  resultTypes: ["violations"],
};

// The names of the pages; index.html only leads to the front page.
function pages(words) {
  return fs
    .readdirSync(FOLDER, { recursive: true })
    .filter((name) => name.endsWith(".html") && name !== "index.html")
    .filter((name) => !name.startsWith("_static"))
    .filter((name) => !words.length || words.some((word) => name.includes(word)))
    .sort();
}

// What axe finds on a page.
async function violations(page, name) {
  await page.goto(pathToFileURL(path.join(FOLDER, name)).href);
  await page.evaluate(() => {
    for (const cell of document.querySelectorAll("details")) cell.open = true;
  });
  // The page measures what has opened, and the live translator translates.
  await page.waitForTimeout(200);
  await page.waitForFunction(() => !document.querySelector("[aria-busy='true']"));
  await page.addScriptTag({ path: AXE });
  return (await page.evaluate((options) => axe.run(options), OPTIONS)).violations;
}

async function main() {
  const names = pages(process.argv.slice(2));
  if (!names.length) throw new Error(`no such page in ${FOLDER}; run \`make book\``);
  const executablePath = process.env.CHROMIUM;
  const browser = await chromium.launch(
    executablePath ? { executablePath } : { channel: "chrome" },
  );
  const places = {};
  for (const colorScheme of MODES) {
    for (const width of WIDTHS) {
      const viewport = { width, height: 900 };
      const page = await browser.newPage({ colorScheme, viewport });
      for (const name of names) {
        for (const { id, nodes } of await violations(page, name)) {
          const kind = `${id}, ${colorScheme}, ${width} px`;
          places[kind] = (places[kind] ?? 0) + nodes.length;
          for (const { target, failureSummary } of nodes) {
            console.log(`${name}: ${kind}: ${target}\n${failureSummary}\n`);
          }
        }
      }
      await page.close();
    }
  }
  await browser.close();
  console.log(`${names.length} pages; places that break a rule:`, places);
  process.exitCode = Object.keys(places).length ? 1 : 0;
}

main();
