// How much the regions of the sequence attend to each other, and where they are in the text.

// Shares of what each region's rows give away: [R][R], of whole positions.
function regionFlow(run, view) {
  if (view.kind === "regions") return run.regions.map((_, i) => Array.from(viewRow(view, i)));
  if (view.kind !== "rows" || run.pool > 1) return null;
  return run.regions.map((from) => {
    const sums = run.regions.map(() => 0);
    let rows = 0;
    for (let i = 0; i < view.n; i++) {
      if (!view.known[i] || !inRegion(from, i)) continue;
      rows++;
      const row = viewRow(view, i);
      run.regions.forEach((to, r) => {
        for (const [a, b] of to.spans) for (let j = a; j < b; j++) sums[r] += row[j] || 0;
      });
    }
    return sums.map((sum) => (rows ? sum / rows : NaN));
  });
}

class Regions {
  constructor(onmark) {
    this.onmark = onmark;
    this.body = el("div", {class: "scroll"});
    this.node = el("section", {class: "card regions"}, el("h3", {}, "Regions"), this.body,
      el("p", {class: "muted hint"}, "Each row divides a region's attention among the columns, as a mean over its positions. Regions may overlap. Point at a name to highlight it in the text."));
  }

  update(run, view) {
    const flow = view && regionFlow(run, view);
    const mark = (region) => () => {
      const positions = new Set();
      for (const [a, b] of region.spans) for (let j = a; j < b; j++) positions.add(j);
      this.onmark(positions);
    };
    const clear = () => this.onmark(new Set());
    const name = (region, scope) => el("th", {scope}, el("button", {
      type: "button", class: "plain", onmouseenter: mark(region), onfocus: mark(region), onmouseleave: clear, onblur: clear,
    }, region.name));
    const head = el("tr", {}, el("td", {}), ...(flow ? run.regions.map((r) => name(r, "col")) : [el("th", {scope: "col"}, "positions")]));
    const rows = run.regions.map((from, i) => {
      const cells = flow ? flow[i].map((v) => {
        const cell = el("td", {}, percent(v));
        cell.style.setProperty("--tint", v > 0 ? Math.min(1, v).toFixed(3) : "0");
        return cell;
      }) : [el("td", {}, from.spans.map(([a, b]) => (b - a === 1 ? `${a}` : `${a}–${b - 1}`)).join(", "))];
      return el("tr", {}, name(from, "row"), ...cells);
    });
    this.body.replaceChildren(el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)));
  }
}
