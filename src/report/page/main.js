const data = JSON.parse(document.getElementById("data").textContent);
const panes = [];

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.setAttribute("aria-pressed", String(theme === "dark"));
  for (const pane of panes) pane.map.draw();
}

function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = false;
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => { if (!chosen) setTheme(dark.matches ? "dark" : "light"); });
  document.getElementById("theme").addEventListener("click", () => {
    chosen = true;
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  });

  for (const event of ["scroll", "keydown", "blur", "resize"]) window.addEventListener(event, () => tooltip.hide(), {capture: true, passive: true});

  const link = document.getElementById("link");
  const changed = (pane, changes) => {
    if (link.checked) for (const other of panes) if (other !== pane) other.follow(pane, changes);
  };
  data.runs.forEach((json, i) => {
    const element = document.getElementById(`matrices-${i}`);
    panes.push(new Pane(new Run(json, element.textContent), i, data.colors, changed));
    element.remove();
  });
  const room = document.getElementById("panes");
  room.classList.toggle("two", panes.length === 2);
  document.getElementById("link-label").hidden = panes.length !== 2;
  room.append(...panes.map((pane) => pane.node));
  document.getElementById("made").textContent = `Made by llama-attention ${data.version}. This page is self-contained: it loads nothing from the network.`;
}

start();
