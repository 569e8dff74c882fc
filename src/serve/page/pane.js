// One pane: settings, an answer while it is written, and what can be seen of it.

function element(tag, attributes = {}, ...children) {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") out.className = value;
    else if (name.startsWith("on")) out.addEventListener(name.slice(2), value);
    else if (value === true) out.setAttribute(name, "");
    else if (value !== false && value !== null) out.setAttribute(name, value);
  }
  out.append(...children);
  return out;
}

// A token's text as one reads it in a line.
function visible(piece) {
  return piece.replace(/\n/g, "↵").replace(/\t/g, "⇥") || "∅";
}

const EDITS = [
  ["drop keys=sinks", "drop the attention sinks"],
  ["bias keys=anchors@0 +4", "pin the anchors of the first step"],
  ["drop keys=0", "hide the first token"],
];

let paneCount = 0;

class Pane {
  constructor(models, index, tooltip) {
    this.models = models; // what can be asked
    this.props = models[index];
    this.tooltip = tooltip;
    this.number = ++paneCount;
    this.reset();
    this.build();
  }

  reset() {
    this.run = null;
    this.index = -1; // step shown; the last one while it is written
    this.following = true;
    this.layer = -1;
    this.head = -1;
    this.hidden = new Set(); // prompt positions that the edit hides
    this.timer = 0;
    this.differs = new Set();
    this.spans = [];
  }

  // Another model has other settings, layers and heads: the pane begins anew.
  setModel(index) {
    this.pause();
    this.props = this.models[index];
    const before = this.root;
    this.reset();
    this.build();
    before.replaceWith(this.root);
    this.chosen.focus();
  }

  field(label, input, wide) {
    input.setAttribute("aria-label", label);
    return element("label", { class: wide ? "wide" : "" }, label, input);
  }

  build() {
    const diffusion = this.props.model.diffusion;
    this.inputs = {
      algorithm: element("select", {}, element("option", { value: "" }, "default"),
        ...this.props.algorithms.map((one) => element("option", { value: one.name, title: one.help }, one.name))),
      steps: element("input", { type: "number", min: 1, placeholder: "1/token" }),
      block_length: element("input", { type: "number", min: 1, placeholder: "default" }),
      threshold: element("input", { type: "number", min: 0, max: 1, step: 0.05, placeholder: "off" }),
      temperature: element("input", { type: "number", min: 0, step: 0.1, placeholder: "0" }),
      max_tokens: element("input", { type: "number", min: 1, value: 48 }),
      seed: element("input", { type: "number", min: 0, value: 1 }),
      edit: element("input", { type: "text", placeholder: "none", list: `edits-${this.number}` }),
    };
    const settings = element("div", { class: "settings" });
    this.chosen = element("select", { onchange: () => this.setModel(this.chosen.selectedIndex) },
      ...this.models.map((one) => element("option", { selected: one === this.props }, one.model_alias)));
    if (this.models.length > 1) settings.append(this.field("Model", this.chosen));
    if (diffusion) {
      settings.append(this.field("Algorithm", this.inputs.algorithm), this.field("Steps", this.inputs.steps),
        this.field("Block", this.inputs.block_length), this.field("Threshold", this.inputs.threshold));
    }
    settings.append(this.field("Temperature", this.inputs.temperature), this.field("Tokens", this.inputs.max_tokens),
      this.field("Seed", this.inputs.seed), this.field("Attention edit", this.inputs.edit, true),
      element("datalist", { id: `edits-${this.number}` }, ...EDITS.map(([value, label]) => element("option", { value }, label))));
    this.answer = element("div", { class: "answer", role: "region", "aria-label": `Answer ${this.number}` });
    this.prompt = element("div", { class: "prompt" });
    this.slider = element("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Step", disabled: true,
      oninput: () => { this.pause(); this.showStep(Number(this.slider.value), false); } });
    this.play = element("button", { type: "button", disabled: true, onclick: () => this.togglePlay() }, "Play");
    this.speed = element("select", { "aria-label": "Speed" },
      ...[["2", "2 steps/s"], ["5", "5 steps/s"], ["10", "10 steps/s"], ["30", "30 steps/s"]].map(([value, text]) => element("option", { value }, text)));
    this.speed.value = "5";
    this.label = element("span", { class: "label" });
    this.commits = element("canvas", { role: "img", "aria-label": "Confidence by position and step" });
    this.attention = element("canvas", { role: "img", "aria-label": "Attention received by position and step" });
    this.layers = element("select", { "aria-label": "Layer", onchange: () => { this.layer = Number(this.layers.value); this.redrawAttention(); } },
      element("option", { value: -1 }, "all layers"), ...Array.from({ length: this.props.model.n_layer }, (_, i) => element("option", { value: i }, `layer ${i}`)));
    this.heads = element("select", { "aria-label": "Head", onchange: () => { this.head = Number(this.heads.value); this.redrawAttention(); } },
      element("option", { value: -1 }, "all heads"), ...Array.from({ length: this.props.model.n_head }, (_, i) => element("option", { value: i }, `head ${i}`)));
    this.details = element("div", { class: "details", role: "status" });
    this.gif = element("button", { type: "button", disabled: true, onclick: () => this.saveGif() }, "Save as GIF");
    this.report = element("button", { type: "button", hidden: true, onclick: () => this.saveReport() }, "Save the full report");
    this.status = element("span", { class: "muted" });
    this.root = element("section", { class: "pane card unasked", "aria-label": `Pane ${this.number}` }, settings, this.prompt, this.answer,
      element("div", { class: "player" }, this.play, this.slider, this.label, this.speed),
      element("figure", {}, element("figcaption", {}, element("h2", {}, "Confidence"),
        element("span", { class: "muted" }, "across: positions of the answer; down: steps; the stronger the blue, the more confident; red: written in that step")), this.commits),
      element("figure", {}, element("figcaption", {}, element("h2", {}, "Attention received"),
        element("span", { class: "pickers" }, this.layers, this.heads),
        element("span", { class: "muted" }, "across: prompt, then answer; down: steps; red: anchors, 3 standard deviations above the mean")), this.attention),
      this.details, element("div", { class: "save" }, this.gif, this.report, this.status));
    this.commitMap = new HeatMap(this.commits, {
      onHover: (position, index, event) => this.hover(position, index, event, false),
      onPick: (position, index) => this.pick(position, index, false),
    });
    this.attentionMap = new HeatMap(this.attention, {
      onHover: (position, index, event) => this.hover(position, index, event, true),
      onPick: (position, index) => this.pick(position, index, true),
    });
  }

  // What the settings say, for a request.
  settings() {
    const number = (name) => (this.inputs[name].value === "" ? undefined : Number(this.inputs[name].value));
    const out = { max_tokens: number("max_tokens"), temperature: number("temperature"), seed: number("seed") };
    if (this.props.model.diffusion) {
      const diffusion = { steps: number("steps"), block_length: number("block_length"), threshold: number("threshold") };
      if (this.inputs.algorithm.value) diffusion.algorithm = this.inputs.algorithm.value;
      out.diffusion = diffusion;
    }
    const edits = [];
    if (this.inputs.edit.value.trim()) edits.push(this.inputs.edit.value.trim());
    if (this.hidden.size) edits.push("drop keys=" + [...this.hidden].sort((a, b) => a - b).join(","));
    if (edits.length) out.attention_edit = edits;
    return out;
  }

  // Heads of all layers where that is little to send, else the layers.
  attentionDetail() {
    const { n_layer, n_head } = this.props.model;
    return { reduce: n_layer * n_head <= 64 ? "heads" : n_layer <= 48 ? "layers" : "mean" };
  }

  async ask(path, request, signal) {
    this.pause();
    this.root.classList.remove("unasked");
    const run = new Run(this.props.model.mask_id);
    this.run = run;
    this.following = true;
    this.index = -1;
    this.differs.clear();
    this.spans = [];
    this.answer.replaceChildren();
    this.details.replaceChildren();
    this.report.hidden = true;
    this.gif.disabled = this.play.disabled = this.slider.disabled = true;
    this.status.textContent = "waiting";
    const body = { model: this.props.model_alias, ...this.settings(), ...request, stream: true, diffusion_frames: true, attention: this.attentionDetail() };
    if (body.diffusion && request.diffusion) body.diffusion = { ...this.settings().diffusion, ...request.diffusion };
    try {
      for await (const chunk of events(await post(path, body, signal))) {
        if (chunk.error) throw new ApiError(0, chunk.error.message);
        this.take(run, chunk);
      }
    } finally {
      this.done(run);
    }
    return run.text;
  }

  take(run, chunk) {
    const choice = chunk.choices && chunk.choices[0];
    if (chunk.type === "diffusion_frame") {
      run.add(chunk);
      if (run.frames.length === 1) this.begin();
      const index = run.frames.length - 1;
      this.drawRows(index);
      if (this.following) this.showStep(index, true);
    }
    if (choice) {
      run.text += (choice.delta && choice.delta.content) || choice.text || "";
      run.finish = choice.finish_reason || run.finish;
    }
    if (chunk.timings) run.timings = chunk.timings;
    if (chunk.run) run.runId = chunk.run.id;
    if (chunk.edit) run.edit = chunk.edit;
  }

  begin() {
    const run = this.run;
    this.commitMap.reset(run.length, run.total);
    this.attentionMap.reset(run.prompt.tokens.length + run.length, run.total);
    this.attentionMap.border = run.prompt.tokens.length;
    this.prompt.replaceChildren(element("h3", {}, "Prompt (click tokens to hide them from the next answer)"),
      ...run.prompt.pieces.map((piece, i) => element("button", { type: "button", class: "token" + (this.hidden.has(i) ? " hidden-key" : ""),
        "aria-pressed": this.hidden.has(i), onclick: (event) => this.toggleHidden(i, event.currentTarget) }, piece || "∅")));
    this.growSpans(run.length);
    this.slider.disabled = false;
  }

  growSpans(n) {
    while (this.spans.length < n) {
      const i = this.spans.length;
      const span = element("span", { class: "token masked", onpointerenter: (event) => this.hover(i, this.index, event, false),
        onpointerleave: () => this.hover(-1, -1), onclick: () => this.pick(i, this.index, false) });
      this.spans.push(span);
      this.answer.append(span);
    }
  }

  toggleHidden(position, button) {
    if (!this.hidden.delete(position)) this.hidden.add(position);
    button.classList.toggle("hidden-key", this.hidden.has(position));
    button.setAttribute("aria-pressed", this.hidden.has(position));
  }

  done(run) {
    if (this.run !== run) return;
    const n = run.frames.length;
    this.gif.disabled = this.play.disabled = this.slider.disabled = n === 0;
    this.report.hidden = !run.runId;
    const time = run.timings;
    this.status.textContent = time ? `${time.predicted_n} tokens in ${time.steps} steps, ${time.predicted_per_second.toFixed(0)} tokens/s` : n ? "stopped" : "";
    if (run.edit && run.edit.applied) {
      const places = run.edit.applied.map((one) => one.places).reduce((a, b) => a + b, 0);
      this.status.textContent += places ? `; the edit changed attention at ${places} (step, layer) places` : "; the edit changed nothing: its keys matched nothing";
    }
  }

  drawRows(index) {
    const run = this.run;
    if (run.total > this.commitMap.rows || run.length > this.commitMap.columns) {
      this.commitMap.reset(run.length, run.total);
      this.attentionMap.reset(run.prompt.tokens.length + run.length, run.total);
      this.growSpans(run.length);
      for (let i = 0; i <= index; i++) this.drawRow(i);
      return;
    }
    this.drawRow(index);
  }

  drawRow(index) {
    const frame = this.run.frames[index];
    this.commitMap.drawRow(index, (_, position) => {
      if (frame.committed.has(position)) return { value: 1, mark: true };
      return frame.confidence.has(position) ? { value: frame.confidence.get(position) } : null;
    });
    const received = this.run.received(index, this.layer, this.head);
    if (!received) return;
    const most = Math.max(...received.values, 1e-9);
    const anchors = new Set(received.anchors);
    this.attentionMap.drawRow(index, (_, position) => {
      if (position >= received.values.length) return null;
      return anchors.has(position) ? { value: 1, mark: true } : { value: Math.sqrt(received.values[position] / most) };
    });
  }

  redrawAttention() {
    if (!this.run || !this.run.frames.length) return;
    this.attentionMap.reset(this.attentionMap.columns, this.attentionMap.rows);
    for (let i = 0; i < this.run.frames.length; i++) this.drawRow(i);
  }

  redraw() {
    this.redrawAttention();
    if (this.run && this.run.frames.length) this.showStep(this.index, this.following);
  }

  // The answer as it was after a step.
  showStep(index, following) {
    const run = this.run;
    if (!run || !run.frames.length) return;
    this.index = Math.min(Math.max(index, 0), run.frames.length - 1);
    this.following = following || this.index === run.frames.length - 1;
    const frame = run.frames[this.index];
    for (let i = 0; i < this.spans.length; i++) {
      const id = i < frame.tokens.length ? frame.tokens[i] : this.run.maskId;
      const masked = i >= frame.tokens.length || (id === run.maskId && this.props.model.diffusion);
      const text = masked ? "██" : run.piece(id);
      const names = "token" + (masked ? " masked" : "") + (frame.committed.has(i) ? " fresh" : "") + (run.given.has(i) ? " given" : "") +
        (this.differs.has(i) && !masked ? " differs" : "");
      if (this.spans[i].textContent !== text) this.spans[i].textContent = text;
      if (this.spans[i].className !== names) this.spans[i].className = names;
    }
    this.slider.max = run.frames.length - 1;
    this.slider.value = this.index;
    this.label.textContent = `step ${this.index + 1}/${run.frames.length}`;
    this.commitMap.setCursor(this.index);
    this.attentionMap.setCursor(this.index);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = 0;
    this.play.textContent = "Play";
  }

  togglePlay() {
    if (this.timer) {
      this.pause();
      return;
    }
    if (this.index >= this.run.frames.length - 1) this.showStep(0, false);
    this.play.textContent = "Pause";
    this.timer = setInterval(() => {
      if (this.index >= this.run.frames.length - 1) this.pause();
      else this.showStep(this.index + 1, false);
    }, 1000 / Number(this.speed.value));
  }

  hover(position, index, event, whole) {
    const run = this.run;
    if (position < 0 || !run || index < 0 || index >= run.frames.length) {
      this.tooltip.hide();
      return;
    }
    const n = run.prompt.tokens.length;
    const at = whole ? position - n : position;
    const frame = run.frames[index];
    const lines = [];
    if (at < 0) lines.push(`prompt position ${position}: ${visible(run.prompt.pieces[position])}`);
    else {
      const id = frame.tokens[at];
      lines.push(`answer position ${at}: ${id === run.maskId || id === undefined ? "not written yet" : visible(run.piece(id))}`);
      if (frame.confidence.has(at)) lines.push(`confidence in step ${index + 1}: ${(frame.confidence.get(at) * 100).toFixed(1)} %`);
      if (frame.committed.has(at)) lines.push("written in this step");
    }
    const received = run.received(index, this.layer, this.head);
    if (received && at + n < received.values.length) lines.push(`attention received: ${(received.values[at + n] * 100).toFixed(2)} %`);
    this.tooltip.show(lines.join("\n"), event);
  }

  // The model's candidates for a position, computed again from the tokens before the step.
  async pick(position, index, whole) {
    const run = this.run;
    if (!run || index < 0 || index >= run.frames.length) return;
    this.pause();
    this.showStep(index, false);
    const at = whole ? position - run.prompt.tokens.length : position;
    if (at < 0 || !this.props.model.diffusion) return;
    const tokens = [...run.prompt.tokens, ...run.before(index)];
    try {
      const answer = await (await post("/v1/candidates", { model: this.props.model_alias, tokens, position: run.prompt.tokens.length + at, top: 5 })).json();
      this.details.replaceChildren(element("h3", {}, `Candidates for answer position ${at} before step ${index + 1}, computed again from the tokens at that moment`),
        element("table", {}, ...answer.candidates.map((one) => element("tr", {}, element("td", { class: "piece" }, visible(one.text)),
          element("td", {}, `${(one.probability * 100).toFixed(1)} %`),
          element("td", {}, Object.assign(element("span", { class: "bar" }), { style: `width:${Math.max(one.probability * 160, 1)}px` }))))));
    } catch (error) {
      this.details.textContent = error.message;
    }
  }

  async saveGif() {
    const run = this.run;
    const frames = run.frames.map((frame) => ({
      status: `step ${frame.step + 1} of ${run.frames.length}`,
      tokens: [...frame.tokens].map((id, i) => (id === run.maskId ? { state: "masked" }
        : { text: run.piece(id), state: frame.committed.has(i) ? "fresh" : "settled" })),
    }));
    try {
      const response = await post("/v1/screencast", { milliseconds: Math.round(1000 / Number(this.speed.value)), frames });
      save(await response.blob(), "answer.gif");
    } catch (error) {
      this.status.textContent = error.message;
    }
  }

  async saveReport() {
    try {
      save(await fetchBlob(`/v1/runs/${this.run.runId}/report`), `${this.run.runId}.html`);
    } catch (error) {
      this.status.textContent = error.message;
    }
  }
}

function save(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
