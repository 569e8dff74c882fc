// The page: what is written, and what is asked.

const byId = (id) => document.getElementById(id);

const tooltip = {
  show(text, event) {
    const box = byId("tooltip");
    box.textContent = text;
    box.hidden = false;
    const x = Math.min(event.clientX + 14, window.innerWidth - box.offsetWidth - 8);
    const y = event.clientY + 18 + box.offsetHeight > window.innerHeight ? event.clientY - box.offsetHeight - 10 : event.clientY + 18;
    box.style.left = Math.max(x, 8) + "px";
    box.style.top = Math.max(y, 8) + "px";
  },
  hide() {
    byId("tooltip").hidden = true;
  },
};

// models: what /props tells of each
const state = { models: [], panes: [], messages: [], abort: null, infill: false };

function tell(message) {
  byId("notice").textContent = message;
  byId("notice").hidden = !message;
}

function describeModel({ model_alias, model }) {
  return `${model_alias}, ${model.diffusion ? "diffusion" : "autoregressive"}, ${model.n_layer} layers`;
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = name === "dark" ? "Light" : "Dark";
  for (const pane of state.panes) pane.redraw();
}

function setPanes(n) {
  while (state.panes.length < n) state.panes.push(new Pane(state.models, state.panes.length % state.models.length, tooltip));
  byId("panes").replaceChildren(...state.panes.slice(0, n).map((pane) => pane.root));
  byId("panes").classList.toggle("two", n === 2);
  byId("difference").hidden = true;
}

function shownPanes() {
  return state.panes.slice(0, byId("compare").checked ? 2 : 1);
}

function setInfill(on) {
  state.infill = on;
  byId("mode-chat").setAttribute("aria-pressed", !on);
  byId("mode-infill").setAttribute("aria-pressed", on);
  byId("gap").hidden = !on;
  byId("send").textContent = on ? "Fill" : "Send";
  byId("input").rows = on ? 5 : 2;
  byId("input").placeholder = on ? "Write a text, select a part of it and make it a gap: [[4]] stands for 4 tokens to fill" : state.models.some((one) => one.model_alias.startsWith("buoy-")) ? "Write a message, such as: Tell a story about Mira and a fox." : "Write a message";
  byId("hint").textContent = on ? "[[N]] is a gap of N tokens" : "Enter sends, Shift+Enter begins a new line, Esc stops";
}

// The selected text becomes a gap of as many tokens as it has.
async function makeGap() {
  const input = byId("input");
  const { selectionStart: from, selectionEnd: to, value } = input;
  if (from === to) {
    tell("Select the part of the text that becomes a gap.");
    return;
  }
  tell("");
  const { tokens } = await (await post("/tokenize", { model: state.panes[0].props.model_alias, content: value.slice(from, to), parse_special: false })).json();
  const gap = `[[${Math.max(tokens.length, 1)}]]`;
  input.setRangeText(gap, from, to, "end");
  input.focus();
}

function addHistory(role, text) {
  const item = element("li", { class: role }, text);
  byId("history").append(item);
}

// How two answers differ, position by position. Tokens of two models can't be compared, so for those their texts are.
function showDifference() {
  const [one, two] = shownPanes();
  const line = byId("difference");
  if (!two || !one.run || !two.run || !one.run.frames.length || !two.run.frames.length) {
    line.hidden = true;
    return;
  }
  for (const pane of [one, two]) pane.differs.clear();
  if (one.props !== two.props) {
    for (const pane of [one, two]) pane.redraw();
    line.textContent = one.run.text === two.run.text ? "Both models wrote the same text." : "The two models wrote different texts.";
    line.hidden = false;
    return;
  }
  const a = one.run.frames[one.run.frames.length - 1].tokens;
  const b = two.run.frames[two.run.frames.length - 1].tokens;
  const n = Math.max(a.length, b.length);
  for (let i = 0; i < n; i++) {
    if (a[i] !== b[i]) for (const pane of [one, two]) pane.differs.add(i);
  }
  for (const pane of [one, two]) pane.redraw();
  line.textContent = one.differs.size === 0 ? `Both answers have the same ${n} tokens.` : `${one.differs.size} of ${n} positions hold different tokens, marked in both answers.`;
  line.hidden = false;
}

// A path, and what is asked there of a pane's model.
function requestFor(pane, text) {
  if (state.infill) return ["/v1/completions", { prompt: "", max_tokens: undefined, diffusion: { seed_canvas: text } }];
  return pane.props.has_chat_template ? ["/v1/chat/completions", { messages: state.messages }] : ["/v1/completions", { prompt: text }];
}

async function ask() {
  const input = byId("input");
  const text = input.value;
  if (!text.trim() || state.abort) return;
  tell("");
  byId("difference").hidden = true;
  if (!state.infill) state.messages.push({ role: "user", content: text });
  const record = byId("record").checked ? { record: true } : {};
  state.abort = new AbortController();
  byId("send").disabled = true;
  byId("stop").disabled = false;
  if (!state.infill) {
    addHistory("user", text);
    input.value = "";
  }
  const panes = shownPanes();
  const results = await Promise.allSettled(panes.map((pane) => {
    const [path, request] = requestFor(pane, text);
    return pane.ask(path, { ...request, ...record }, state.abort.signal);
  }));
  state.abort = null;
  byId("send").disabled = false;
  byId("stop").disabled = true;
  const failed = results.find((one) => one.status === "rejected" && one.reason.name !== "AbortError");
  if (failed) {
    tell(failed.reason.message);
    if (failed.reason.status === 401) byId("key-form").hidden = false;
  }
  if (!state.infill) {
    const answer = results[0].status === "fulfilled" ? results[0].value : null;
    if (answer === null) {
      state.messages.pop();
    } else {
      state.messages.push({ role: "assistant", content: answer });
    }
  }
  showDifference();
  input.focus();
}

// The last answer is in the pane; it moves up when the next question comes.
function keepAnswer() {
  const last = state.messages[state.messages.length - 1];
  if (!state.infill && last && last.role === "assistant") addHistory("assistant", last.content);
}

async function start() {
  setTheme(window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  for (;;) {
    try {
      const { data } = await getJson("/v1/models");
      state.models = await Promise.all(data.map((one) => getJson("/props?model=" + encodeURIComponent(one.id))));
      break;
    } catch (error) {
      if (error.status === 401) {
        byId("key-form").hidden = false;
        return;
      }
      tell(error.status === 503 ? "The model is loading …" : error.message);
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
  tell("");
  byId("key-form").hidden = true;
  setInfill(false);
  byId("model").textContent = state.models.map(describeModel).join("; ");
  byId("mode-infill").disabled = !state.models.some(({ model }) => model.diffusion);
  setPanes(1);
  byId("input").focus();
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepAnswer();
  ask();
});
byId("input").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !state.infill) {
    event.preventDefault();
    byId("form").requestSubmit();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && state.abort) state.abort.abort();
});
byId("stop").addEventListener("click", () => state.abort && state.abort.abort());
byId("gap").addEventListener("click", () => makeGap().catch((error) => tell(error.message)));
byId("clear").addEventListener("click", () => {
  if (state.abort) state.abort.abort();
  state.messages = [];
  byId("history").replaceChildren();
  byId("input").value = "";
  state.panes = [];
  setPanes(byId("compare").checked ? 2 : 1);
  tell("");
});
byId("compare").addEventListener("change", () => setPanes(byId("compare").checked ? 2 : 1));
byId("mode-chat").addEventListener("click", () => setInfill(false));
byId("mode-infill").addEventListener("click", () => setInfill(true));
byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  apiKey = byId("key").value;
  start();
});
start();
