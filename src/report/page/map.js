// The heat map: rows are queries, columns are keys. Several cells to a pixel show the largest of them.

const LABEL_ROOM = 92;
const LABEL_GAP = 12; // pixels from one label to the next

function inside(share) { return share >= 0 && share < 1; }

class HeatMap {
  constructor(colors, onselect) {
    this.colors = colors.map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
    this.onselect = onselect;
    this.zoom = 1;
    this.x = 0; // first visible column
    this.y = 0;
    this.scale = "root";
    this.canvas = el("canvas", {
      tabindex: "0", role: "img", onkeydown: (e) => this.key(e), onpointerdown: (e) => this.down(e), onpointermove: (e) => this.move(e),
      onpointerup: (e) => this.up(e), onpointerleave: () => tooltip.hide(),
    });
    this.canvas.addEventListener("wheel", (e) => this.wheel(e), {passive: false});
    const button = (text, label, act) => el("button", {type: "button", "aria-label": label, title: label, onclick: act}, text);
    const {node: scales} = choice("Colour scale", `scale-${HeatMap.count = (HeatMap.count || 0) + 1}`,
      [["root", "square root"], ["linear", "linear"]], "root", (v) => { this.scale = v; this.draw(); });
    this.heading = el("h3", {}, "Attention map");
    this.legend = el("div", {class: "legend"});
    const gradient = el("div", {class: "gradient"});
    gradient.style.background = `linear-gradient(to right, ${colors.filter((_, i) => i % 15 === 0).join(",")})`;
    this.node = el("section", {class: "card map"},
      el("div", {class: "row"}, this.heading, el("div", {class: "buttons"},
        button("+", "Zoom in", () => this.zoomToSelection(1.5)), button("−", "Zoom out", () => this.zoomToSelection(1 / 1.5)),
        button("Whole map", "Show the whole map", () => this.reset()))),
      this.canvas,
      el("div", {class: "row scale"}, el("div", {class: "colorbar"}, gradient, this.legend), scales),
      el("p", {class: "muted hint"}, "Click a cell to select its query. While the map has the focus, the wheel or + and − zoom, arrow keys pan, and 0 shows everything."));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  update(view, labels, state, title) {
    const sizes = `${view.n}x${view.K}`;
    if (this.sizes !== sizes) [this.zoom, this.x, this.y, this.sizes] = [1, 0, 0, sizes];
    Object.assign(this, {view, labels, state});
    this.heading.textContent = title;
    this.canvas.setAttribute("aria-label", `${title}: heat map of ${view.n} rows by ${view.K} keys, up to ${percent(view.max)}. ` +
      "Plus and minus zoom, arrow keys pan, 0 shows everything. The lists of a selected token give its numbers.");
    this.draw();
  }

  // Where things are, in CSS pixels; cells of rows-by-keys maps are square.
  geometry() {
    const width = this.canvas.clientWidth;
    const {n, K} = this.view;
    const w = Math.max(40, width - LABEL_ROOM - 2);
    const h = n === K ? w : Math.min(w, Math.max(60, n * 26));
    return {left: LABEL_ROOM, top: LABEL_ROOM, w, h, columns: K / this.zoom, rows: n === K ? n / this.zoom : n};
  }

  draw() {
    if (!this.view || !this.canvas.clientWidth) return;
    const g = this.geometry();
    this.clamp(g);
    const ratio = window.devicePixelRatio || 1;
    const height = g.top + g.h + 2;
    this.canvas.style.height = `${height}px`;
    const [cw, ch] = [Math.round(this.canvas.clientWidth * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== cw || this.canvas.height !== ch) [this.canvas.width, this.canvas.height] = [cw, ch];
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.drawCells(context, g, ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawLabels(context, g);
    this.drawSelection(context, g);
    this.drawLegend();
  }

  shade(value) {
    const t = this.view.max > 0 ? value / this.view.max : 0;
    return Math.round(255 * Math.min(1, this.scale === "root" ? Math.sqrt(t) : t));
  }

  drawCells(context, g, ratio) {
    const {view} = this;
    const [pw, ph] = [Math.max(1, Math.floor(g.w * ratio)), Math.max(1, Math.floor(g.h * ratio))];
    const image = context.createImageData(pw, ph);
    const spans = (n, first, count, limit) => Array.from({length: n}, (_, p) => {
      const a = Math.min(limit - 1, Math.floor(first + (p * count) / n));
      return [a, Math.max(a + 1, Math.min(limit, Math.floor(first + ((p + 1) * count) / n)))];
    });
    const xs = spans(pw, this.x, g.columns, view.K);
    const ys = spans(ph, this.y, g.rows, view.n);
    let at = 0;
    for (const [y0, y1] of ys) {
      for (const [x0, x1] of xs) {
        let best = NaN;
        for (let y = y0; y < y1; y++) {
          for (let i = y * view.K + x0, end = y * view.K + x1; i < end; i++) {
            const v = view.values[i];
            if (!(v <= best)) best = Number.isNaN(v) ? best : v;
          }
        }
        if (!Number.isNaN(best)) {
          const color = this.colors[this.shade(best)];
          image.data[at] = color[0];
          image.data[at + 1] = color[1];
          image.data[at + 2] = color[2];
          image.data[at + 3] = 255;
        }
        at += 4;
      }
    }
    context.fillStyle = cssColor("--absent");
    context.fillRect(Math.round(g.left * ratio), Math.round(g.top * ratio), pw, ph);
    const layer = document.createElement("canvas");
    [layer.width, layer.height] = [pw, ph];
    layer.getContext("2d").putImageData(image, 0, 0);
    context.drawImage(layer, Math.round(g.left * ratio), Math.round(g.top * ratio));
  }

  drawLabels(context, g) {
    const {labels} = this;
    context.font = `11px ${cssColor("--mono")}`;
    context.textBaseline = "middle";
    const each = (first, count, room, put) => {
      const size = room / count;
      const stride = Math.max(1, Math.ceil(LABEL_GAP / size));
      for (let i = Math.ceil(Math.floor(first) / stride) * stride; i < first + count; i += stride) {
        const at = (i + 0.5 - first) * size;
        if (at >= 0 && at <= room) put(i, at);
      }
    };
    const text = (label) => (label.length > 13 ? `${label.slice(0, 12)}…` : label);
    each(this.y, g.rows, g.h, (i, at) => {
      context.textAlign = "right";
      context.fillStyle = labels.fresh && !labels.fresh.has(i) ? cssColor("--faint") : cssColor("--text");
      context.fillText(text(labels.row(i)), g.left - 6, g.top + at);
    });
    context.fillStyle = cssColor("--text");
    each(this.x, g.columns, g.w, (i, at) => {
      context.save();
      context.translate(g.left + at, g.top - 6);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(text(labels.column(i)), 0, 0);
      context.restore();
    });
    context.font = `11px ${cssColor("--sans")}`;
    context.fillStyle = cssColor("--muted");
    context.textAlign = "left";
    context.fillText("keys →", 2, 12);
    context.fillText(`${labels.rows} ↓`, 2, g.top - 10);
  }

  drawSelection(context, g) {
    const {row, column} = this.labels;
    context.strokeStyle = cssColor("--mark");
    context.lineWidth = 1.5;
    const line = (index, first, count, room, horizontal) => {
      const size = room / count;
      const from = (index - first) * size;
      if (index === null || from + size <= 0 || from >= room) return;
      const [a, b] = [Math.max(0, from), Math.min(room, from + size)];
      if (horizontal) context.strokeRect(g.left, g.top + a, g.w, b - a);
      else context.strokeRect(g.left + a, g.top, b - a, g.h);
    };
    if (row && column) {
      line(this.labels.selectedRow, this.y, g.rows, g.h, true);
      line(this.labels.selectedColumn, this.x, g.columns, g.w, false);
    }
  }

  drawLegend() {
    const ticks = [0, 0.25, 0.5, 0.75, 1];
    this.legend.replaceChildren(...ticks.map((t) => el("span", {}, percent(this.view.max * (this.scale === "root" ? t * t : t)))));
  }

  clamp(g) {
    this.x = Math.max(0, Math.min(this.view.K - g.columns, this.x));
    this.y = Math.max(0, Math.min(this.view.n - g.rows, this.y));
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const g = this.geometry();
    const [fx, fy] = [(event.clientX - box.left - g.left) / g.w, (event.clientY - box.top - g.top) / g.h];
    if (fx < 0 || fy < 0 || fx >= 1 || fy >= 1) return null;
    return {column: Math.floor(this.x + fx * g.columns), row: Math.floor(this.y + fy * g.rows), fx, fy};
  }

  zoomBy(factor, fx = 0.5, fy = 0.5) {
    const before = this.geometry();
    this.zoom = Math.max(1, Math.min(Math.max(1, this.view.K / 4), this.zoom * factor));
    const after = this.geometry();
    this.x += fx * (before.columns - after.columns);
    this.y += fy * (before.rows - after.rows);
    this.draw();
  }

  // The selected token stays where it is; one that is out of sight comes to the middle.
  zoomToSelection(factor) {
    const g = this.geometry();
    const share = (index, first, count) => (index === null || index === undefined ? 0.5 : (index + 0.5 - first) / count);
    if (!inside(share(this.labels.selectedColumn, this.x, g.columns))) this.x = this.labels.selectedColumn + 0.5 - g.columns / 2;
    if (!inside(share(this.labels.selectedRow, this.y, g.rows))) this.y = this.labels.selectedRow + 0.5 - g.rows / 2;
    this.clamp(g);
    this.zoomBy(factor, share(this.labels.selectedColumn, this.x, g.columns), share(this.labels.selectedRow, this.y, g.rows));
  }

  reset() {
    [this.zoom, this.x, this.y] = [1, 0, 0];
    this.draw();
  }

  key(event) {
    const step = this.geometry().columns / 8;
    const acts = {
      "+": () => this.zoomToSelection(1.5), "=": () => this.zoomToSelection(1.5), "-": () => this.zoomToSelection(1 / 1.5), 0: () => this.reset(), Home: () => this.reset(),
      ArrowLeft: () => { this.x -= step; }, ArrowRight: () => { this.x += step; },
      ArrowUp: () => { this.y -= step; }, ArrowDown: () => { this.y += step; },
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey) return;
    acts[event.key]();
    this.draw();
    event.preventDefault();
  }

  wheel(event) {
    const cell = this.cellAt(event);
    if (!cell || document.activeElement !== this.canvas) return;
    event.preventDefault();
    this.zoomBy(event.deltaY < 0 ? 1.25 : 0.8, cell.fx, cell.fy);
  }

  down(event) {
    this.drag = {x: event.clientX, y: event.clientY, left: this.x, top: this.y, moved: false};
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (this.drag) {
      const g = this.geometry();
      const [dx, dy] = [event.clientX - this.drag.x, event.clientY - this.drag.y];
      this.drag.moved = this.drag.moved || Math.hypot(dx, dy) > 4;
      if (this.drag.moved) {
        this.x = this.drag.left - (dx / g.w) * g.columns;
        this.y = this.drag.top - (dy / g.h) * g.rows;
        this.draw();
      }
      return;
    }
    const cell = this.cellAt(event);
    if (!cell || event.pointerType === "touch") {
      tooltip.hide();
      return;
    }
    const {view, labels} = this;
    tooltip.show([`${labels.name(cell.row)} → ${labels.target(cell.column)}`,
      percent(view.values[cell.row * view.K + cell.column])], event.clientX, event.clientY);
  }

  up(event) {
    const cell = this.drag && !this.drag.moved ? this.cellAt(event) : null;
    this.drag = null;
    if (cell) this.onselect(cell);
  }
}
