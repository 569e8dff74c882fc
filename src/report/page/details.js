// What the selected token attends to and what attends to it, as ranked lists.

const LIST_LENGTH = 10;

class Details {
  constructor(onselect) {
    this.onselect = onselect;
    this.title = el("h3", {});
    this.facts = el("p", {class: "muted", "aria-live": "polite"});
    this.lists = el("div", {class: "lists"});
    this.node = el("section", {class: "card details"}, this.title, this.facts, this.lists);
  }

  update(run, view, state) {
    const {selected, step} = state;
    if (selected === null) {
      this.title.textContent = view ? "Received attention" : "Tokens";
      this.facts.textContent = view ? "Select a token to see what it attends to and what attends to it." : "Select a token to see when it was written.";
      this.lists.replaceChildren(...(view && view.kind !== "regions"
        ? [this.list("Receive the most", ranked(viewReceived(view), LIST_LENGTH), this.tokenEntry(run, step))] : []));
      return;
    }
    const facts = tokenFacts(run, step, selected);
    const group = Math.floor(selected / run.pool);
    this.title.textContent = `“${run.tokenLabel(run.tokensAfter(step), group)}”`;
    this.facts.textContent = [`position ${selected}`, ...facts.slice(1)].join(" · ");
    this.lists.replaceChildren(...(view ? this.listsOf(run, view, step, group, selected) : []));
  }

  listsOf(run, view, step, group, selected) {
    if (view.kind === "received") {
      const column = viewColumn(view, group);
      return [
        this.note("Attends to", "Not recorded: this recording keeps only the attention that each token received."),
        this.list("Attention received, by head", ranked(column, LIST_LENGTH), (i) => ({number: "", text: headName(run, view.heads[i])})),
      ];
    }
    if (view.kind === "regions") {
      const mine = run.regions.findIndex((r) => inRegion(r, selected));
      if (mine < 0) return [this.note("Regions", "This token is not in any region.")];
      const entry = (i) => ({number: "", text: run.regions[i].name});
      return [
        this.list(`Region ${run.regions[mine].name} attends to`, ranked(viewRow(view, mine), LIST_LENGTH), entry),
        this.list("Attended by (share of their attention)", ranked(viewColumn(view, mine), LIST_LENGTH), entry),
      ];
    }
    const entry = this.tokenEntry(run, step);
    const when = view.known[group] && !view.fresh.has(group) ? " (row from an earlier step)" : "";
    return [
      view.known[group]
        ? this.list(`Attends to${when}`, ranked(viewRow(view, group), LIST_LENGTH), entry)
        : this.note("Attends to", "This position has not been a query up to this step."),
      this.list("Attended by", ranked(viewColumn(view, group), LIST_LENGTH), entry),
    ];
  }

  tokenEntry(run, step) {
    const ids = run.tokensSeen(step).slice();
    return (g) => ({number: run.numberOf(g), text: run.tokenLabel(ids, g), position: g * run.pool});
  }

  note(title, text) {
    return el("div", {class: "list"}, el("h4", {}, title), el("p", {class: "muted"}, text));
  }

  list(title, entries, describe) {
    const max = entries.length ? Math.max(entries[0][1], 1e-12) : 1;
    const items = entries.map(([i, value]) => {
      const {number, text, position} = describe(i);
      const bar = el("span", {class: "bar", "aria-hidden": "true"});
      bar.style.setProperty("--share", (value / max).toFixed(4));
      const parts = [el("span", {class: "number"}, number), el("span", {class: "piece"}, text), bar,
        el("span", {class: "value"}, percent(value))];
      return el("li", {}, position === undefined ? el("span", {class: "entry"}, ...parts)
        : el("button", {type: "button", class: "entry", onclick: () => this.onselect(position)}, ...parts));
    });
    return el("div", {class: "list"}, el("h4", {}, title), items.length ? el("ol", {}, ...items) : el("p", {class: "muted"}, "None."));
  }
}

function headName(run, head) {
  return run.heads ? `head ${run.heads[head]}` : run.n_heads > 1 ? `mean over ${run.n_heads} heads` : "mean over heads";
}

function inRegion(region, position) {
  return region.spans.some(([a, b]) => position >= a && position < b);
}
