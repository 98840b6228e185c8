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
themeButton.hidden = false;
themeButton.addEventListener("click", chooseTheme);
darkSystem.addEventListener("change", nameTheme);
nameTheme();
