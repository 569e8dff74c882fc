// A picture of position x step: one pixel for each, made larger on the screen. A row is drawn when its step arrives.

const STOPS = {
  light: [[240, 242, 245], [158, 202, 225], [49, 130, 189], [8, 48, 107]],
  dark: [[17, 21, 26], [24, 66, 106], [59, 140, 196], [190, 227, 250]],
};

function theme() {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

// A colour between those of the theme, for a value from 0 to 1.
function colorOf(value) {
  const stops = STOPS[theme()];
  const at = Math.min(Math.max(value, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((c, i) => Math.round(c + (stops[low + 1][i] - c) * (at - low)));
}

class HeatMap {
  // cell(index, position): { value, mark } or null. onHover(position, index) with -1 where it leaves; onPick the same for a click.
  constructor(canvas, handlers) {
    this.canvas = canvas;
    this.handlers = handlers;
    this.columns = 0;
    this.rows = 0;
    this.pixels = document.createElement("canvas");
    this.pending = false;
    this.cursor = -1;
    canvas.addEventListener("pointermove", (event) => this.point(event, handlers.onHover));
    canvas.addEventListener("pointerleave", () => handlers.onHover(-1, -1));
    canvas.addEventListener("click", (event) => this.point(event, handlers.onPick));
    new ResizeObserver(() => this.show()).observe(canvas);
  }

  reset(columns, rows) {
    this.columns = Math.max(columns, 1);
    this.rows = Math.max(rows, 1);
    this.pixels.width = this.columns;
    this.pixels.height = this.rows;
    this.show();
  }

  drawRow(index, cell) {
    if (index >= this.rows) return;
    const context = this.pixels.getContext("2d");
    const image = context.createImageData(this.columns, 1);
    const mark = theme() === "dark" ? [255, 122, 82] : [216, 67, 31];
    for (let x = 0; x < this.columns; x++) {
      const one = cell(index, x);
      if (!one) continue;
      const [r, g, b] = one.mark ? mark : colorOf(one.value);
      image.data.set([r, g, b, 255], x * 4);
    }
    context.putImageData(image, 0, index);
    this.show();
  }

  setCursor(index) {
    this.cursor = index;
    this.show();
  }

  show() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      const width = this.canvas.clientWidth;
      if (!width || !this.columns) return;
      const scale = window.devicePixelRatio || 1;
      const height = Math.min(Math.max(this.rows * 5, 60), 220);
      this.canvas.style.height = height + "px";
      this.canvas.width = width * scale;
      this.canvas.height = height * scale;
      const context = this.canvas.getContext("2d");
      context.imageSmoothingEnabled = false;
      context.drawImage(this.pixels, 0, 0, this.canvas.width, this.canvas.height);
      if (this.border > 0) {
        context.fillStyle = theme() === "dark" ? "#8892a0" : "#6b7480";
        context.fillRect((this.border / this.columns) * this.canvas.width, 0, scale, this.canvas.height);
      }
      if (this.cursor >= 0) {
        const step = this.canvas.height / this.rows;
        context.strokeStyle = theme() === "dark" ? "#e8eaee" : "#1d232b";
        context.lineWidth = scale;
        context.strokeRect(0.5, this.cursor * step, this.canvas.width - 1, Math.max(step, 2 * scale));
      }
    });
  }

  point(event, handler) {
    const box = this.canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * this.columns);
    const y = Math.floor(((event.clientY - box.top) / box.height) * this.rows);
    handler(Math.min(Math.max(x, 0), this.columns - 1), Math.min(Math.max(y, 0), this.rows - 1), event);
  }
}
