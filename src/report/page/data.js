// What the page carries. Letters: S steps, T positions, H heads, Q query rows, K keys; G positions as they are pooled.

const LAST_CODE = 254;
const SQUARES = Float32Array.from({length: 256}, (_, code) => (code > LAST_CODE ? NaN : (code / LAST_CODE) ** 2));

function decodeBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

// What a run has as it stands in the page's data; a key that is not here can't take a method's place.
const RUN_FIELDS = ["model", "attention", "version", "complete", "single_pass", "settings", "seed", "edits", "recorded", "mask_id", "n_prompt", "pieces",
  "first", "changes", "unmask", "confidence", "regions", "label", "file", "reduce", "heads", "n_heads", "steps", "layers", "pool", "matrices", "reduced"];

class Run {
  constructor(json, matrices) {
    for (const name of RUN_FIELDS) this[name] = json[name];
    this.text = matrices;
    this.decoded = new Map();
    this.S = json.n_steps;
    this.T = json.n_positions;
    this.G = Math.ceil(this.T / this.pool);
    this.nHeads = json.heads ? json.heads.length : 1;
    this.stepRows = json.steps.map((s) => s.rows.flatMap(([a, b]) => Array.from({length: b - a + 1}, (_, i) => a + i)));
    this.special = new Set(json.special_ids);
    this.confidenceBytes = decodeBase64(json.confidence.bytes);
    this.states = {step: -1, ids: Int32Array.from(json.first)};
    this.pieceOf = new Map();
    const end = this.tokensAfter(this.S - 1);
    json.pieces.forEach((piece, j) => this.pieceOf.set(end[j], piece));
  }

  // Ids behind a step; step -1 is the beginning.
  tokensAfter(step) {
    if (step < this.states.step) this.states = {step: -1, ids: Int32Array.from(this.first)};
    while (this.states.step < step) {
      const changed = this.changes[++this.states.step];
      for (let i = 0; i < changed.length; i += 2) this.states.ids[changed[i]] = changed[i + 1];
    }
    return this.states.ids;
  }

  // What the pass of a step saw.
  tokensSeen(step) { return this.tokensAfter(step - 1); }

  // Positions that a step wrote, and whether something stood there before.
  writtenIn(step) {
    const before = this.tokensSeen(step).slice();
    const out = new Map();
    const changed = this.changes[step] || [];
    for (let i = 0; i < changed.length; i += 2) {
      const old = before[changed[i]];
      out.set(changed[i], old >= 0 && old !== this.mask_id);
    }
    return out;
  }

  // Of the token chosen for a position in that step; NaN where it was not scored, undefined where the page does not know.
  confidenceAt(step, position) {
    const {of_steps: ofSteps} = this.confidence;
    if (!ofSteps && step !== this.unmask[position]) return undefined;
    const code = this.confidenceBytes[ofSteps ? step * this.T + position : position];
    return code > LAST_CODE ? NaN : code / LAST_CODE;
  }

  // Index of the step whose attention is shown at a step: the last one up to it, else the first there is.
  attentionIndex(step) {
    let found = this.steps.length ? 0 : -1;
    this.steps.forEach((s, i) => { if (s.step <= step) found = i; });
    return found;
  }

  matrix(stepIndex, layerIndex) {
    const at = stepIndex * this.layers.length + layerIndex;
    if (!this.decoded.has(at)) {
      const [offset, H, Q, K] = this.matrices[at];
      const size = H * Q * (4 + K);
      const bytes = decodeBase64(this.text.substr(offset, Math.ceil(size / 3) * 4));
      const view = new DataView(bytes.buffer);
      const largest = Float32Array.from({length: H * Q}, (_, r) => view.getFloat32(r * (4 + K), true));
      this.decoded.set(at, {H, Q, K, bytes, largest});
    }
    return this.decoded.get(at);
  }

  pieceAt(ids, position) {
    const id = ids[position];
    if (id < 0) return null;
    if (id === this.mask_id) return "[mask]";
    return this.pieceOf.has(id) ? this.pieceOf.get(id) : `#${id}`;
  }

  // A position, or a group of them, for lists and axes.
  tokenLabel(ids, group) {
    const parts = [];
    for (let j = group * this.pool; j < Math.min(this.T, (group + 1) * this.pool); j++) parts.push(this.pieceAt(ids, j));
    return parts.every((p) => p === null) ? "" : visible(parts.join(""));
  }

  numberOf(group) {
    if (this.pool === 1) return String(group);
    return `${group * this.pool}–${Math.min(this.T, (group + 1) * this.pool) - 1}`;
  }
}

// White space made visible.
function visible(piece) {
  const shown = piece.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/^ | $/g, "·");
  return shown === "" ? "∅" : shown;
}
