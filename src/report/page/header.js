// What a recording is, above what it shows.

const ATTENTION = {full: "full attention", causal: "causal attention", block_causal: "block-causal attention"};
const REDUCE = {none: "every head", heads: "mean over heads", received: "attention received by each token, by head", regions: "sums over regions"};

function spans(numbers) {
  const out = [];
  for (let i = 0; i < numbers.length; i++) {
    const first = numbers[i];
    while (i + 1 < numbers.length && numbers[i + 1] === numbers[i] + 1) i++;
    out.push(first === numbers[i] ? `${first}` : `${first}–${numbers[i]}`);
  }
  return out.join(", ");
}

function recordedText(run) {
  const {taps, layers, steps, rows, heads, dtype} = run.recorded;
  if (!run.reduce) return `${taps.join(", ")}; no attention patterns`;
  const list = (what, value) => (Array.isArray(value) ? [`${what} ${spans(value)}`] : []);
  return [REDUCE[run.reduce], ...list("layers", layers), `${steps.length} of ${run.S} steps`, ...list("heads", heads), ...list("rows", rows), dtype].join(", ");
}

function paneHeader(run) {
  const {model} = run;
  const sizes = [["n_layer", "layers"], ["n_head", "heads"]].filter(([k]) => model[k]).map(([k, what]) => `${model[k]} ${what}`);
  if (model.n_embd) sizes.push(`width ${model.n_embd}`);
  const generated = run.unmask.filter((s) => s >= 0).length;
  const entry = (name, text) => [el("dt", {}, name), el("dd", {}, text)];
  const onPage = !run.steps.length ? "Text only." : run.reduced.length ? ["8-bit values.", ...run.reduced].join(" ") : "8-bit values; nothing left out.";
  const notes = [];
  if (run.complete === false) notes.push("The run was stopped: the recording ends with its last complete step.");
  if (run.edits.length) notes.push(`Attention was edited: ${run.edits.join("; ")}`);
  if (run.single_pass) notes.push("One pass over the prompt; nothing was generated.");
  const settings = Object.entries(run.settings).filter(([, value]) => value !== null);
  return [
    el("h2", {}, run.label),
    el("dl", {class: "facts"},
      ...entry("Model", [model.name || model.path, model.arch, ATTENTION[run.attention], ...sizes].filter(Boolean).join(", ")),
      ...entry("Run", `${run.n_prompt} prompt tokens, ${generated} written in ${run.S} ${run.S === 1 ? "step" : "steps"}, seed ${run.seed}`),
      ...entry("Recorded", `${recordedText(run)} (${run.file})`),
      ...entry("On this page", onPage)),
    ...notes.map((note) => el("p", {class: "notice"}, note)),
    el("details", {class: "settings"}, el("summary", {}, "All settings"),
      el("dl", {}, ...settings.flatMap(([name, value]) => entry(name, typeof value === "string" ? value : JSON.stringify(value))))),
  ];
}
