// Usage: node page.mjs URL CHROMIUM SCREENSHOT_DIR
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const [url, executablePath, shots] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const complaints = [];

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !/^(data|blob):/.test(request.url())) complaints.push("asks for " + request.url());
  });
  await page.goto(url);
  await page.waitForSelector(".pane");
  return page;
}

const question = "Tell a story about Mira and a fox.";
const pane = (page, n = 0) => page.locator(".pane").nth(n);
const answer = (page, n = 0) => pane(page, n).locator(".answer");
const finished = (page, n = 0) => pane(page, n).getByText(/tokens in \d+ steps/).waitFor();
const masked = (page, n = 0) => pane(page, n).locator(".answer .token.masked").count();
const shot = (page, name) => page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
const fits = async (page) => assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "the page is wider than the window");

// send, and watch it being written
let page = await open();
await shot(page, "1-empty");
await page.fill("#input", question);
await page.press("#input", "Enter");
await finished(page);
assert.equal(await masked(page), 0);
const text = await answer(page).innerText();
assert.match(text, /Mira/);
await shot(page, "2-answer");

// the answer is the API's
const direct = await (await fetch(url + "/v1/chat/completions", {
  method: "POST", headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ messages: [{ role: "user", content: question }], max_tokens: 48, seed: 1 }),
})).json();
const shown = await answer(page).evaluate((node) => [...node.querySelectorAll(".token")].map((span) => span.textContent).join(""));
assert.ok(shown.startsWith(direct.choices[0].message.content), `${shown}\n${direct.choices[0].message.content}`);

// scrub back: fewer tokens are there; the maps have something on them
const slider = pane(page).locator("input[type=range]");
const steps = Number(await slider.getAttribute("max")) + 1;
await slider.fill("3");
assert.equal(await masked(page), steps - 4);
assert.equal(await pane(page).locator(".answer .token.fresh").count(), 1);
await shot(page, "3-scrubbed");
for (const canvas of await pane(page).locator("canvas").all()) {
  const colors = await canvas.evaluate((node) => {
    const data = node.getContext("2d").getImageData(0, 0, node.width, node.height).data;
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) seen.add(data[i] + "," + data[i + 1] + "," + data[i + 2]);
    return seen.size;
  });
  assert.ok(colors > 10, `a map has ${colors} colours`);
}
await pane(page).getByLabel("Layer").selectOption("2");
await pane(page).getByLabel("Head").selectOption("1");

// play again
await pane(page).getByLabel("Speed").selectOption("30");
await pane(page).getByRole("button", { name: "Play" }).click();
await page.waitForFunction((last) => Number(document.querySelector("input[type=range]").value) === last, steps - 1);

// candidates of a position: probabilities that the server computes, the largest first
await slider.fill("3");
await pane(page).locator(".answer .token.masked").first().click();
await pane(page).locator(".details td.piece").first().waitFor();
const probabilities = await pane(page).locator(".details tr td:nth-child(2)").allInnerTexts();
assert.equal(probabilities.length, 5);
assert.deepEqual(probabilities.map(parseFloat), probabilities.map(parseFloat).sort((a, b) => b - a));
await pane(page).locator("canvas").first().hover();
assert.ok(await page.locator("#tooltip").isVisible());
await shot(page, "4-candidates");

// saved as a GIF
const download = page.waitForEvent("download");
await pane(page).getByRole("button", { name: "Save as GIF" }).click();
assert.equal((await download).suggestedFilename(), "answer.gif");

// two panes, one with an edit, and what differs
await page.click("#clear");
await page.check("#compare");
await page.check("#record");
await pane(page, 1).getByLabel("Model").selectOption("buoy-mdm");
await pane(page, 1).getByLabel("Attention edit").fill("drop keys=sinks");
await page.fill("#input", question);
await page.click("#send");
await finished(page, 0);
await finished(page, 1);
await page.locator("#difference").waitFor();
const [one, two] = [await answer(page, 0).innerText(), await answer(page, 1).innerText()];
const line = await page.locator("#difference").innerText();
assert.match(line, one === two ? /same/ : /differ/);
assert.equal(await answer(page, 0).innerText(), text);
await shot(page, "5-two-panes");
const report = page.waitForEvent("download");
await pane(page, 1).getByRole("button", { name: "Save the full report" }).click();
assert.match((await report).suggestedFilename(), /^run-.*\.html$/);

// two panes, two models: the second one writes from left to right
await page.click("#clear");
assert.equal(await pane(page, 1).getByLabel("Model").inputValue(), "buoy-arm");
await page.fill("#input", question);
await page.click("#send");
await finished(page, 0);
await finished(page, 1);
assert.match(await page.locator("#difference").innerText(), /models wrote/);
const arm = await (await fetch(url + "/v1/chat/completions", {
  method: "POST", headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ model: "buoy-arm", messages: [{ role: "user", content: question }], max_tokens: 48, seed: 1 }),
})).json();
const written = await answer(page, 1).evaluate((node) => [...node.querySelectorAll(".token")].map((span) => span.textContent).join(""));
assert.ok(written.startsWith(arm.choices[0].message.content), `${written}\n${arm.choices[0].message.content}`);
await shot(page, "5-two-models");

// infill: a selection becomes a gap, and is filled
await page.uncheck("#compare");
await page.uncheck("#record");
await page.click("#mode-infill");
await page.fill("#input", "One day Mira met a fox in the forest.");
await page.locator("#input").evaluate((node) => node.setSelectionRange(node.value.indexOf(" fox"), node.value.indexOf(" in")));
await page.click("#gap");
await page.waitForFunction(() => /\[\[\d+\]\]/.test(document.getElementById("input").value));
await page.click("#send");
await finished(page);
assert.match(await answer(page).innerText(), /^One day Mira met a .* in the forest\.$/);
await shot(page, "6-infill");

// an error is told
await page.click("#mode-chat");
await pane(page).getByLabel("Threshold").fill("7");
await page.fill("#input", question);
await page.click("#send");
await page.locator("#notice").waitFor();
assert.match(await page.locator("#notice").innerText(), /threshold/);
complaints.splice(0, complaints.length, ...complaints.filter((one) => !/400 \(Bad Request\)/.test(one)));

// stopped, by key
await page.click("#clear");
await pane(page).getByLabel("Tokens").fill("400");
await page.fill("#input", question);
await page.press("#input", "Enter");
await pane(page).locator(".answer .token").first().waitFor();
await page.keyboard.press("Escape");
await page.waitForFunction(() => !document.getElementById("send").disabled);
await fits(page);
await page.context().close();

// with the keyboard alone
page = await open();
await page.keyboard.type(question);
await page.keyboard.press("Enter");
await finished(page);
for (let i = 0; i < 60 && !(await page.evaluate(() => document.activeElement.matches("input[type=range]"))); i++) await page.keyboard.press("Shift+Tab");
await page.keyboard.press("Home");
assert.equal(await pane(page).locator(".answer .token.fresh").count(), 1);
assert.ok((await masked(page)) > 0);
await page.context().close();

// dark, and on a phone
for (const [name, options] of [["dark", { colorScheme: "dark" }], ["phone", { viewport: { width: 390, height: 844 } }], ["phone-dark", { viewport: { width: 390, height: 844 }, colorScheme: "dark" }]]) {
  page = await open(options);
  await page.fill("#input", question);
  await page.press("#input", "Enter");
  await finished(page);
  await fits(page);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), name.includes("dark") ? "dark" : "light");
  await shot(page, "7-" + name);
  await page.context().close();
}

// a long answer stays responsive
page = await open();
await page.locator(".pane").getByLabel("Tokens").fill("400");
await page.locator(".pane").getByLabel("Steps").fill("200");
await page.fill("#input", question);
await page.press("#input", "Enter");
await finished(page);
const slowest = await page.evaluate(async () => {
  const range = document.querySelector("input[type=range]");
  let most = 0;
  for (let i = 0; i <= Number(range.max); i += 10) {
    const begin = performance.now();
    range.value = i;
    range.dispatchEvent(new Event("input"));
    await new Promise(requestAnimationFrame);
    most = Math.max(most, performance.now() - begin);
  }
  return most;
});
assert.ok(slowest < 500, `a step took ${slowest} ms`);
await browser.close();
assert.deepEqual(complaints, []);
console.log("the page works in Chromium");
