// One answer: its steps as the server told them.

class Run {
  constructor(maskId) {
    this.maskId = maskId;
    this.prompt = { tokens: [], pieces: [] };
    this.canvas = []; // the answer before the first step
    this.frames = []; // { step, block, tokens, committed: Set, confidence: Map, attention }
    this.total = 0;
    this.pieces = new Map(); // token id -> text
    this.text = "";
    this.given = new Set(); // positions of the answer that were there from the beginning
    this.finish = "";
    this.runId = "";
    this.edit = null;
  }

  add(chunk) {
    if (chunk.prompt) {
      this.prompt = chunk.prompt;
      this.canvas = chunk.canvas.tokens;
      this.canvas.forEach((id, i) => {
        if (id !== this.maskId) this.given.add(i);
        this.pieces.set(id, chunk.canvas.pieces[i]);
      });
    }
    for (const one of chunk.committed) this.pieces.set(one.id, one.text);
    this.total = Math.max(chunk.total, this.frames.length + 1);
    this.frames.push({
      step: chunk.step,
      block: chunk.block,
      tokens: Int32Array.from(chunk.tokens),
      committed: new Set(chunk.committed.filter((one) => one.id !== this.maskId).map((one) => one.position)),
      confidence: new Map(chunk.confidence),
      attention: chunk.attention || null,
    });
  }

  get length() {
    return this.frames.length ? this.frames[this.frames.length - 1].tokens.length : 0;
  }

  // Tokens of the answer before a step.
  before(index) {
    return index > 0 ? this.frames[index - 1].tokens : Int32Array.from(this.canvas);
  }

  piece(id) {
    return this.pieces.has(id) ? this.pieces.get(id) : "";
  }

  // Attention received by each position of the whole sequence in a step, of a layer and head or their mean.
  received(index, layer, head) {
    const attention = this.frames[index].attention;
    if (!attention) return null;
    if (layer < 0) return { values: attention.received, anchors: attention.anchors };
    const one = (attention.layers || []).find((entry) => entry.layer === layer);
    if (!one) return null;
    return { values: head < 0 || !one.heads ? one.received : one.heads[head], anchors: one.anchors };
  }
}
