// The numbers that are shown for a step, a layer (or the mean of all) and a head (or the mean of all).

// Adds weight · a row of a matrix.
function addRow(m, row, weight, target, at) {
  const from = row * (4 + m.K) + 4;
  const scale = weight * m.largest[row];
  for (let j = 0; j < m.K; j++) target[at + j] += scale * SQUARES[m.bytes[from + j]];
}

function indices(choice, n) {
  return choice === "mean" ? Array.from({length: n}, (_, i) => i) : [choice];
}

// Of each position the row that was computed last, up to that step.
function rowsView(run, at, layers, heads) {
  const {G} = run;
  const values = new Float32Array(G * G).fill(NaN);
  const known = new Uint8Array(G);
  const weight = 1 / (layers.length * heads.length);
  let missing = G;
  for (let s = at; s >= 0 && missing > 0; s--) {
    const rows = run.stepRows[s];
    const wanted = rows.map((_, i) => i).filter((i) => !known[rows[i]]);
    if (!wanted.length) continue;
    for (const l of layers) {
      const m = run.matrix(s, l);
      for (const i of wanted) {
        const start = rows[i] * G;
        if (!known[rows[i]]) {
          known[rows[i]] = 1;
          missing--;
          values.fill(0, start, start + m.K);
        }
        for (const h of heads) addRow(m, h * m.Q + i, weight, values, start);
      }
    }
  }
  if (run.attention === "causal" && run.pool === 1) {
    for (let i = 0; i < G; i++) values.fill(NaN, i * G + i + 1, (i + 1) * G); // what a query can't see
  }
  return {kind: "rows", n: G, K: G, values, known, fresh: new Set(run.stepRows[at])};
}

// A row for each head, or for the one that was chosen.
function receivedView(run, at, layers, heads) {
  const K = run.G;
  const values = new Float32Array(heads.length * K).fill(NaN);
  for (const [i, h] of heads.entries()) {
    for (const l of layers) {
      const m = run.matrix(at, l);
      if (l === layers[0]) values.fill(0, i * K, i * K + m.K);
      addRow(m, h, 1 / layers.length, values, i * K);
    }
  }
  return {kind: "received", n: heads.length, K, values, heads};
}

// Shares of what each region gives away.
function regionsView(run, at, layers) {
  const n = run.regions.length;
  const values = new Float32Array(n * n);
  for (const l of layers) {
    const m = run.matrix(at, l);
    for (let i = 0; i < n; i++) addRow(m, i, 1 / layers.length, values, i * n);
  }
  for (let i = 0; i < n; i++) {
    const row = values.subarray(i * n, (i + 1) * n);
    const sum = row.reduce((a, b) => a + b, 0);
    row.forEach((v, j) => { row[j] = sum > 0 ? v / sum : NaN; });
  }
  return {kind: "regions", n, K: n, values};
}

function makeView(run, {step, layer, head}) {
  const at = run.attentionIndex(step);
  if (at < 0) return null;
  const layers = indices(layer, run.layers.length);
  const heads = indices(head, run.nHeads);
  const view = run.reduce === "received" ? receivedView(run, at, layers, heads)
    : run.reduce === "regions" ? regionsView(run, at, layers)
      : rowsView(run, at, layers, heads);
  view.step = run.steps[at].step;
  view.max = view.values.reduce((a, b) => (b > a ? b : a), 0);
  return view;
}

function viewRow(view, row) {
  return view.values.subarray(row * view.K, (row + 1) * view.K);
}

function viewColumn(view, column) {
  return Float32Array.from({length: view.n}, (_, i) => view.values[i * view.K + column]);
}

// The mean over rows: received attention of each key.
function viewReceived(view) {
  const sums = new Float64Array(view.K);
  let n = 0;
  for (let i = 0; i < view.n; i++) {
    const row = viewRow(view, i);
    if (Number.isNaN(row[0]) && row.every(Number.isNaN)) continue;
    n++;
    for (let j = 0; j < view.K; j++) sums[j] += row[j] || 0;
  }
  return Float32Array.from(sums, (v) => v / Math.max(1, n));
}

// The largest numbers first: [[index, value], …]
function ranked(values, n) {
  const order = [];
  values.forEach((v, i) => { if (!Number.isNaN(v)) order.push([i, v]); });
  return order.sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, n);
}
