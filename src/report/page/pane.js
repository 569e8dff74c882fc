// One recording: its header, text, lists and map, and the state they share.

const PLAY_DELAY = 700;

class Pane {
  constructor(run, index, colors, onchange) {
    this.run = run;
    this.onchange = onchange;
    this.state = {step: 0, layer: run.layers.length === 1 ? 0 : "mean", head: run.nHeads === 1 ? 0 : "mean", selected: null, tint: "received"};
    const select = (position) => this.set({
      selected: position, tint: position === null ? "received" : this.state.tint === "received" ? this.rowTint() : this.state.tint,
    });
    this.text = new TextPanel(run, `token-${index}`, select);
    this.details = new Details(select);
    this.map = new HeatMap(colors, (cell) => {
      if (run.reduce === "regions") return;
      select((run.reduce === "received" ? cell.column : cell.row) * run.pool);
    });
    this.regions = new Regions((positions) => this.text.mark(positions));
    this.tints = choice("Colour by", `tint-${index}`,
      [["received", "received"], ["row", "attends to"], ["column", "attended by"]], "received", (tint) => this.set({tint}));
    this.node = el("section", {class: "pane", "aria-label": run.label},
      el("div", {class: "head"}, ...paneHeader(run)),
      this.controls(index),
      el("div", {class: "body"},
        el("div", {class: "left"},
          el("section", {class: "card written"}, el("div", {class: "row"}, el("h3", {}, "Text"), ...(run.steps.length ? [this.tints.node] : [])), this.text.node, this.keyLine()),
          this.details.node),
        el("div", {class: "right"}, run.steps.length ? this.map.node : el("section", {class: "card map"}, el("h3", {}, "Attention map"),
          el("p", {class: "muted"}, "The recording has no attention patterns.")),
        ...(run.regions.length ? [this.regions.node] : []))));
    this.refresh();
  }

  rowTint() { return ["none", "heads"].includes(this.run.reduce) ? "row" : "received"; }

  keyLine() {
    const sample = (kind, text) => el("span", {class: "sample"}, el("span", {class: `token ${kind}`}, kind === "mask" ? "" : "token"), text);
    return el("p", {class: "muted key", "aria-hidden": "true"}, sample("fresh", "written in this step"), sample("mask", "mask"),
      sample("strong", "more attention"), sample("selected", "selected"));
  }

  controls(index) {
    const {run} = this;
    this.slider = el("input", {type: "range", min: "0", max: String(run.S - 1), value: "0", id: `step-${index}`,
      oninput: () => this.set({step: Number(this.slider.value)})});
    this.stepText = el("output", {for: `step-${index}`, class: "steptext"});
    this.playButton = el("button", {type: "button", class: "play", onclick: () => this.play(!this.timer)}, "Play");
    this.playButton.disabled = run.S < 2;
    const mean = (n, what) => (n > 1 ? [["mean", `mean over ${n} ${what}`]] : []);
    this.layerPicker = picker("Layer", [...mean(run.layers.length, "layers"), ...run.layers.map((l, i) => [i, String(l)])],
      (layer) => this.set({layer}));
    const heads = run.heads ? [...mean(run.nHeads, "heads"), ...run.heads.map((h, i) => [i, String(h)])] : [[0, headName(run, 0)]];
    this.headPicker = picker("Head", heads, (head) => this.set({head}));
    this.headPicker.select.disabled = heads.length < 2;
    return el("div", {class: "controls"}, this.playButton, el("label", {class: "step"}, el("span", {}, "Step"), this.slider), this.stepText,
      ...(run.steps.length ? [this.layerPicker.node, this.headPicker.node] : []));
  }

  play(on) {
    clearInterval(this.timer);
    this.timer = null;
    this.playButton.textContent = on ? "Pause" : "Play";
    if (!on) return;
    if (this.state.step >= this.run.S - 1) this.set({step: 0});
    this.timer = setInterval(() => {
      if (this.state.step < this.run.S - 1) this.set({step: this.state.step + 1});
      if (this.state.step >= this.run.S - 1) this.play(false);
    }, PLAY_DELAY);
  }

  set(changes, quiet = false) {
    Object.assign(this.state, changes);
    this.refresh();
    if (!quiet) this.onchange(this, changes);
  }

  // Takes over what another pane's change means here.
  follow(other, changes) {
    const mine = {};
    if ("step" in changes) {
      const share = other.run.S > 1 ? changes.step / (other.run.S - 1) : 0;
      mine.step = Math.round(share * (this.run.S - 1));
    }
    for (const [what, list] of [["layer", "layers"], ["head", "heads"]]) {
      if (!(what in changes)) continue;
      const number = changes[what] === "mean" ? null : other.run[list] ? other.run[list][changes[what]] : null;
      const at = number === null || !this.run[list] ? -1 : this.run[list].indexOf(number);
      if (at >= 0) mine[what] = at;
      else if (changes[what] === "mean" && this.run[list] && this.run[list].length > 1) mine[what] = "mean";
    }
    if ("selected" in changes) {
      const there = changes.selected;
      if (there === null || (there < this.run.T && this.run.pieces[there] === other.run.pieces[there])) mine.selected = there;
    }
    if ("tint" in changes) mine.tint = changes.tint === "row" ? this.rowTint() : changes.tint;
    this.set(mine, true);
  }

  refresh() {
    const {run, state} = this;
    tooltip.hide();
    const view = this.viewNow();
    this.slider.value = String(state.step);
    this.layerPicker.select.value = String(state.layer);
    this.headPicker.select.value = String(state.head);
    const missing = view && view.step !== state.step ? `, attention of step ${view.step}` : "";
    this.stepText.textContent = `${state.step} / ${run.S - 1}${missing}`;
    this.slider.setAttribute("aria-valuetext", `step ${state.step}${missing}`);
    this.text.update(state, run.writtenIn(state.step));
    this.tints.set(state.tint);
    const rows = view && view.kind === "rows";
    this.tints.enable("row", Boolean(rows) && state.selected !== null);
    this.tints.enable("column", Boolean(rows) && state.selected !== null);
    this.tint(view);
    this.details.update(run, view, state);
    if (run.regions.length) this.regions.update(run, view);
    if (view) this.map.update(view, this.labels(view), state, this.mapTitle(view));
  }

  // Computed once for a step, a layer and a head.
  viewNow() {
    const key = [this.run.attentionIndex(this.state.step), this.state.layer, this.state.head].join("/");
    if (this.viewKey !== key) [this.viewKey, this.view] = [key, makeView(this.run, this.state)];
    return this.view;
  }

  tint(view) {
    const {run, state} = this;
    const group = state.selected === null ? null : Math.floor(state.selected / run.pool);
    let values = null;
    if (view && view.kind === "regions") values = null;
    else if (view && state.tint === "row" && group !== null) values = viewRow(view, group);
    else if (view && state.tint === "column" && group !== null) values = viewColumn(view, group);
    else if (view) values = viewReceived(view);
    this.text.legend = {row: "attention from the selected token", column: "attention to the selected token"}[values && state.tint] ?? "attention received";
    this.text.tint(values, state.selected);
  }

  labels(view) {
    const {run, state} = this;
    const ids = run.tokensSeen(state.step).slice();
    const group = state.selected === null ? null : Math.floor(state.selected / run.pool);
    const token = (g) => run.tokenLabel(ids, g);
    const named = (g) => `${run.numberOf(g)} ${token(g)}`;
    const region = (r) => run.regions[r].name;
    const head = (i) => headName(run, view.heads[i]);
    if (view.kind === "regions") {
      return {rows: "regions", row: region, column: region, name: region, target: region, selectedRow: null, selectedColumn: null};
    }
    if (view.kind === "received") {
      return {rows: "heads", row: head, column: token, name: head, target: named, selectedRow: null, selectedColumn: group};
    }
    return {rows: "queries", row: token, column: token, name: named, target: named, selectedRow: group, selectedColumn: group, fresh: view.fresh};
  }

  mapTitle(view) {
    const {run, state} = this;
    const layer = state.layer === "mean" ? `mean over ${run.layers.length} layers` : `layer ${run.layers[state.layer]}`;
    const head = state.head === "mean" ? (view.kind === "received" ? "all heads" : `mean over ${run.nHeads} heads`) : headName(run, state.head);
    return `Step ${view.step}, ${layer}${view.kind === "regions" ? "" : `, ${head}`}`;
  }
}
