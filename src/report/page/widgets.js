// Elements, and what panes share.

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function percent(value) {
  if (value === undefined || Number.isNaN(value)) return "–";
  const p = 100 * value;
  return `${p >= 10 ? p.toFixed(1) : p >= 0.0005 ? p.toPrecision(2) : "0"} %`;
}

function picker(label, options, onchange) {
  const select = el("select", {onchange: () => onchange(select.value === "mean" ? "mean" : Number(select.value))});
  for (const [value, text] of options) select.append(el("option", {value}, text));
  return {node: el("label", {class: "picker"}, el("span", {}, label), select), select};
}

// Radio buttons in a row: options [[value, text], …].
function choice(label, name, options, chosen, onchange) {
  const inputs = options.map(([value, text]) => {
    const input = el("input", {type: "radio", name, value, checked: value === chosen, onchange: () => onchange(value)});
    return [value, input, el("label", {}, input, el("span", {}, text))];
  });
  const node = el("fieldset", {class: "choice"}, el("legend", {}, label), ...inputs.map((i) => i[2]));
  return {
    node,
    set: (value) => { for (const [v, input] of inputs) input.checked = v === value; },
    enable: (value, on) => { for (const [v, input] of inputs) if (v === value) input.disabled = !on; },
  };
}

// Says what is under the pointer, until that may have changed.
const tooltip = {
  show(lines, x, y) {
    const node = document.getElementById("tooltip");
    node.replaceChildren(...lines.map((line) => el("div", {}, line)));
    node.hidden = false;
    const room = node.getBoundingClientRect();
    node.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - room.width - 8))}px`;
    node.style.top = `${y + 18 + room.height > innerHeight ? Math.max(4, y - room.height - 10) : y + 18}px`;
  },
  hide() { document.getElementById("tooltip").hidden = true; },
};

function cssColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
