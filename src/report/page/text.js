// The text as it was written, step by step. A mask is as wide as any other: what will stand there is not known yet.

// What stands between two tokens: a line may break there, must, or, inside a word, can't.
function gapText(before, after) {
  const newlines = before.match(/\n+$/);
  if (newlines) return newlines[0];
  return /\p{L}$/u.test(before) && /^\p{L}/u.test(after) && /^[\p{sc=Latin}\p{sc=Cyrillic}\p{sc=Greek}]/u.test(after) ? "\u2060" : "";
}

class TextPanel {
  constructor(run, id, onselect) {
    this.run = run;
    this.onselect = onselect;
    this.active = 0;
    this.tokens = run.pieces.map((piece, j) => el("span", {
      class: "token" + (j < run.n_prompt ? " given" : ""), role: "option", id: `${id}-${j}`, "aria-selected": "false",
    }));
    this.node = el("div", {
      class: "text", role: "listbox", tabindex: "0",
      "aria-label": "Text. Arrow keys move between tokens, Enter selects one, Escape clears the selection.",
      onkeydown: (e) => this.key(e), onclick: (e) => this.click(e),
      onpointermove: (e) => this.hover(e), onpointerleave: () => tooltip.hide(),
    });
    this.gaps = run.pieces.map(() => document.createTextNode(""));
    this.tokens.forEach((token, j) => this.node.append(token, this.gaps[j]));
    this.shown = new Array(run.T);
  }

  update(state, written) {
    const {run} = this;
    const ids = run.tokensAfter(state.step);
    this.state = state;
    for (let j = 0; j < run.T; j++) {
      const id = ids[j];
      const kind = id < 0 ? "future" : id === run.mask_id ? "mask" : run.special.has(id) ? "special" : "";
      const fresh = written.has(j) ? (written.get(j) ? "rewritten" : "fresh") : "";
      const look = `${id}/${fresh}`;
      if (this.shown[j] === look) continue;
      this.shown[j] = look;
      const node = this.tokens[j];
      const piece = kind === "mask" ? "" : kind === "future" ? run.pieces[j] : run.pieceAt(ids, j);
      node.textContent = kind !== "mask" && piece === "" ? "∅" : piece.replace(/\n/g, "↵");
      node.className = `token ${j < run.n_prompt ? "given" : ""} ${kind} ${fresh}`;
      const spoken = kind === "mask" ? "mask" : piece.trim() === "" ? "white space" : piece.trim();
      node.setAttribute("aria-label", fresh ? `${spoken}, written in this step` : spoken);
      node.setAttribute("aria-hidden", String(kind === "future"));
    }
    this.updateGaps(ids);
  }

  updateGaps(ids) {
    const {run} = this;
    const piece = (j) => (ids[j] < 0 ? run.pieces[j] : ids[j] === run.mask_id ? "" : run.pieceAt(ids, j));
    for (let j = 0; j < run.T; j++) {
      const gap = j + 1 < run.T ? gapText(piece(j), piece(j + 1)) : "";
      if (this.gaps[j].data !== gap) this.gaps[j].data = gap;
    }
  }

  // Tints tokens by their share of the largest value.
  tint(values, selected) {
    const {run} = this;
    let max = 0;
    if (values) for (const v of values) if (v > max) max = v;
    this.tokens.forEach((node, j) => {
      const v = values && max > 0 ? values[Math.floor(j / run.pool)] / max : 0;
      node.style.setProperty("--tint", v > 0 ? (v ** 0.6).toFixed(3) : "0");
      const chosen = selected !== null && Math.floor(selected / run.pool) === Math.floor(j / run.pool);
      node.classList.toggle("selected", chosen);
      node.setAttribute("aria-selected", String(j === selected));
    });
    this.values = values;
    if (selected !== null && selected !== this.active) this.activate(selected);
  }

  mark(positions) {
    this.tokens.forEach((node, j) => node.classList.toggle("marked", positions.has(j)));
  }

  activate(position) {
    this.tokens[this.active].classList.remove("active");
    this.active = Math.max(0, Math.min(this.run.T - 1, position));
    const node = this.tokens[this.active];
    node.classList.add("active");
    this.node.setAttribute("aria-activedescendant", node.id);
    const above = node.offsetTop - this.node.scrollTop;
    if (above < 0 || above + node.offsetHeight > this.node.clientHeight) {
      this.node.scrollTop = node.offsetTop - this.node.clientHeight / 2; // the page itself stays where it is
    }
  }

  // The token above or below, by where it stands.
  vertical(direction) {
    const from = this.tokens[this.active].getBoundingClientRect();
    let best = this.active;
    let distance = Infinity;
    let line = null;
    for (let j = this.active + direction; j >= 0 && j < this.run.T; j += direction) {
      const box = this.tokens[j].getBoundingClientRect();
      if (Math.abs(box.top - from.top) < 4) continue;
      line = line ?? box.top;
      if (Math.abs(box.top - line) > 4) break;
      const d = Math.abs(box.left - from.left);
      if (d < distance) [best, distance] = [j, d];
    }
    return best;
  }

  key(event) {
    const moves = {ArrowRight: () => this.active + 1, ArrowLeft: () => this.active - 1, ArrowDown: () => this.vertical(1),
      ArrowUp: () => this.vertical(-1), Home: () => 0, End: () => this.run.T - 1};
    if (moves[event.key]) this.activate(moves[event.key]());
    else if (event.key === "Enter" || event.key === " ") this.onselect(this.active);
    else if (event.key === "Escape") this.onselect(null);
    else return;
    event.preventDefault();
  }

  positionOf(event) {
    const node = event.target.closest(".token");
    return node ? this.tokens.indexOf(node) : -1;
  }

  click(event) {
    const position = this.positionOf(event);
    if (position >= 0) this.onselect(position);
  }

  hover(event) {
    const position = this.positionOf(event);
    if (position < 0 || event.pointerType === "touch") return tooltip.hide();
    const lines = tokenFacts(this.run, this.state.step, position);
    if (this.values) lines.push(`${this.legend}: ${percent(this.values[Math.floor(position / this.run.pool)])}`);
    return tooltip.show(lines, event.clientX, event.clientY);
  }
}

// What is known of a position at a step, a line each.
function tokenFacts(run, step, position) {
  const ids = run.tokensAfter(step);
  const lines = [`position ${position}: ${visible(run.pieceAt(ids, position) ?? "not generated yet")}`];
  const when = run.unmask[position];
  lines.push(when >= 0 ? `written in step ${when}` : when === -1 ? "part of the prompt" : "never written");
  if (when >= 0) {
    const then = run.confidenceAt(when, position);
    if (then !== undefined && !Number.isNaN(then)) lines.push(`confidence when written ${percent(then)}`);
  }
  const now = run.confidenceAt(step, position);
  if (step !== when && now !== undefined && !Number.isNaN(now)) lines.push(`confidence in step ${step} ${percent(now)}`);
  return lines;
}
