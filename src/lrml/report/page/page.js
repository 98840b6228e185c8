"use strict";

/* Theme: the system's unless the reader has chosen; colours come from the style sheet. */
const root = document.documentElement;
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : darkSystem.matches;
}

function nameTheme() {
  themeButton.textContent = isDark() ? "Light theme" : "Dark theme";
}

function chooseTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  try {
    localStorage.setItem("lrml-theme", root.dataset.theme);
  } catch (error) { /* not remembered where there is no storage */ }
  nameTheme();
  drawAll();
}

/* Plots. What Python sent is drawn with the colours of the theme, again whenever these change. */
const plots = JSON.parse(document.getElementById("plots").textContent);
const NEUTRAL = "#333333";
const PRINT_WIDTH = 320;
let printing = false;
let drawings = 0;

function colours() {
  const probe = document.body.appendChild(document.createElement("span"));
  const found = {};
  for (const name of ["paper", "text", "rule", "strong-rule", "neutral"]) {
    probe.style.color = `var(--${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return printing ? { ...found, paper: "#ffffff", text: "#000000" } : found;
}

function themedTrace(trace, found, hidden) {
  const swap = (part) => (part && part.color === NEUTRAL ? { ...part, color: found.neutral } : part);
  const themed = { ...trace, visible: !hidden.has(trace.meta) };
  for (const part of ["line", "marker", "error_x", "error_y"]) if (trace[part]) themed[part] = swap(trace[part]);
  if (trace.colorbar) {
    themed.colorbar = { ...trace.colorbar, tickfont: { color: found.text }, tickcolor: found.text };
  }
  return themed;
}

function themedLayout(layout, found) {
  const family = getComputedStyle(root).getPropertyValue("--sans");
  const lines = { gridcolor: found.rule, linecolor: found["strong-rule"], tickcolor: found["strong-rule"] };
  return {
    ...layout,
    ...(printing ? { width: PRINT_WIDTH, height: 280 } : { autosize: true }),
    datarevision: ++drawings, // without it Plotly may redraw contours from values that it no longer has
    paper_bgcolor: found.paper,
    plot_bgcolor: found.paper,
    font: { family, size: 12, color: found.text },
    hoverlabel: { bgcolor: found.paper, bordercolor: found["strong-rule"], font: { family, color: found.text } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: found["strong-rule"], activecolor: found.text },
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", // a finger scrolls the page
    xaxis: { ...layout.xaxis, ...lines },
    yaxis: { ...layout.yaxis, ...lines },
  };
}

function draw(id, found) {
  const place = document.getElementById(id);
  const off = place.closest(".figure").querySelectorAll('.legend button[aria-pressed="false"]');
  const hidden = new Set(Array.from(off, (button) => Number(button.dataset.series)));
  const traces = plots[id].data.map((trace) => themedTrace(trace, found, hidden));
  const settings = {
    responsive: true,
    displaylogo: false,
    modeBarButtons: [["toImage", "resetScale2d"]],
    toImageButtonOptions: { format: "svg", filename: id },
  };
  Plotly.react(place, traces, themedLayout(plots[id].layout, found), settings);
  describe(place);
}

/* The drawing is the image; the buttons above it stay reachable, so the image cannot be the whole element. */
function describe(place) {
  const [drawing, ...others] = place.querySelectorAll(".main-svg");
  if (place.getAttribute("role") === "img") {
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", place.getAttribute("aria-label"));
    place.removeAttribute("role");
    place.removeAttribute("aria-label");
  }
  for (const other of others) other.setAttribute("aria-hidden", "true");
}

function drawAll() {
  const found = colours();
  for (const id of Object.keys(plots)) draw(id, found);
}

function switchSeries(button) {
  button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
  const found = colours();
  for (const place of button.closest(".figure").querySelectorAll(".plot")) draw(place.id, found);
}

/* On paper: light, and as wide as half a page. The style sheet of the screen still rules before printing. */
function setPrinting(now) {
  if (printing === now) return;
  printing = now;
  const kept = root.dataset.theme;
  if (now) root.dataset.theme = "light";
  drawAll();
  if (kept === undefined) delete root.dataset.theme;
  else root.dataset.theme = kept;
}

/* Tables. */
const FIRST_ROWS = 25;

function cellValue(row, place) {
  const cell = row.cells[place];
  if (cell.classList.contains("missing")) return null;
  return cell.dataset.value === undefined ? cell.textContent.toLowerCase() : Number(cell.dataset.value);
}

function compare(first, second, sign) {
  if (first === null || second === null) return (first === null) - (second === null); // last either way
  return sign * ((first > second) - (first < second));
}

/* Ascending, descending, and back to the order of the report; ties keep the order that they have. */
function sortBy(table, original, header) {
  const turn = { ascending: "descending", descending: null }[header.getAttribute("aria-sort")];
  const order = turn === undefined ? "ascending" : turn;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  if (order) header.setAttribute("aria-sort", order);
  const rows = order ? Array.from(table.tBodies[0].rows) : original;
  if (order) {
    const values = new Map(rows.map((row) => [row, cellValue(row, header.cellIndex)]));
    const sign = order === "ascending" ? 1 : -1;
    rows.sort((first, second) => compare(values.get(first), values.get(second), sign));
  }
  table.tBodies[0].append(...rows);
}

function plainText(text) {
  return text.toLowerCase().replaceAll("−", "-");
}

/* Rows that do not match are hidden. Of the others, all but the first are put off until they are asked for. */
function showRows(article) {
  const rows = Array.from(article.querySelector(".data").tBodies[0].rows);
  const words = plainText(article.querySelector("input").value).split(/\s+/).filter(Boolean);
  const chosen = Array.from(article.querySelectorAll("select")).filter((select) => select.selectedIndex > 0);
  const more = article.querySelector(".more");
  const most = more.getAttribute("aria-expanded") === "true" ? rows.length : FIRST_ROWS;
  let count = 0;
  for (const row of rows) {
    const text = plainText(Array.from(row.cells, (cell) => cell.textContent).join(" "));
    row.hidden =
      !words.every((word) => text.includes(word)) ||
      !chosen.every((select) => row.cells[select.dataset.place].textContent === select.value);
    count += !row.hidden;
    row.classList.toggle("later", !row.hidden && count > most);
  }
  const kind = words.length || chosen.length ? `matching rows, ${rows.length} in all` : "rows";
  article.querySelector(".count").textContent = `showing ${Math.min(count, most)} of ${count} ${kind}`;
  more.hidden = count <= FIRST_ROWS;
  more.textContent = most < rows.length ? `Show all ${count} rows` : `Show the first ${FIRST_ROWS} rows only`;
}

function switchRows(article, more) {
  more.setAttribute("aria-expanded", String(more.getAttribute("aria-expanded") !== "true"));
  showRows(article);
  more.scrollIntoView({ block: "nearest" }); // a table that became shorter takes the button with it
}

function asCsv(table) {
  const quote = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const exact = (cell) => (cell.classList.contains("missing") ? "" : cell.dataset.value ?? cell.textContent);
  const rows = [...table.tHead.rows, ...Array.from(table.tBodies[0].rows).filter((row) => !row.hidden)];
  return rows.map((row) => Array.from(row.cells, (cell) => quote(exact(cell))).join(",")).join("\n") + "\n";
}

function copyBySelection(text) {
  const area = document.body.appendChild(document.createElement("textarea"));
  area.value = text;
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

async function copyTable(button, table) {
  const text = asCsv(table);
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch (error) { // refused, or absent because the page came from a file
    done = copyBySelection(text);
    button.focus();
  }
  button.textContent = done ? "Copied" : "Copying is not allowed here";
  setTimeout(() => { button.textContent = "Copy as CSV"; }, 2000);
}

function prepareTable(article) {
  const controls = article.querySelector(".controls");
  if (!controls) return;
  const table = article.querySelector("table.data");
  const rows = Array.from(table.tBodies[0].rows);
  controls.hidden = false;
  controls.addEventListener("input", () => showRows(article));
  const more = article.querySelector(".more");
  more.addEventListener("click", () => switchRows(article, more));
  const copy = controls.querySelector(".copy");
  copy.addEventListener("click", () => copyTable(copy, table));
  for (const header of table.tHead.rows[0].cells) {
    header.firstElementChild.addEventListener("click", () => {
      sortBy(table, rows, header);
      showRows(article);
    });
  }
  showRows(article); // a browser may have kept the choices of the last visit
}

document.querySelectorAll("article.table").forEach(prepareTable);
document.querySelectorAll(".legend button").forEach((button) => {
  button.addEventListener("click", () => switchSeries(button));
});
themeButton.hidden = false;
themeButton.addEventListener("click", chooseTheme);
darkSystem.addEventListener("change", () => { nameTheme(); drawAll(); });
addEventListener("beforeprint", () => setPrinting(true));
addEventListener("afterprint", () => setPrinting(false));
matchMedia("print").addEventListener("change", (event) => setPrinting(event.matches));
nameTheme();
drawAll();
