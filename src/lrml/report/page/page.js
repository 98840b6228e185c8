"use strict";

/* Tables: sorted by a click on a heading, searched, and cut after the first rows. */
const FIRST_ROWS = 25;

function valueOf(row, place) {
  const text = row.cells[place].textContent;
  if (row.cells[place].classList.contains("words")) return text.toLowerCase();
  return text === "–" ? null : Number(text.replace("−", "-").replaceAll(",", ""));
}

function compare(first, second, sign) {
  if (first === null || second === null) return (first === null) - (second === null); // last either way
  return sign * ((first > second) - (first < second));
}

/* Ascending, descending, and back to the order of the page; ties keep the order that they have. */
function sortBy(table, original, header) {
  const turn = { ascending: "descending", descending: null }[header.getAttribute("aria-sort")];
  const order = turn === undefined ? "ascending" : turn;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  if (order) header.setAttribute("aria-sort", order);
  const rows = order ? Array.from(table.tBodies[0].rows) : original;
  if (order) {
    const values = new Map(rows.map((row) => [row, valueOf(row, header.cellIndex)]));
    const sign = order === "ascending" ? 1 : -1;
    rows.sort((first, second) => compare(values.get(first), values.get(second), sign));
  }
  table.tBodies[0].append(...rows);
}

/* Rows without all of the words are hidden. Of the others, all but the first are put off until asked for. */
function showRows(article) {
  const words = article.querySelector("input").value.toLowerCase().split(/\s+/).filter(Boolean);
  const more = article.querySelector(".more");
  const all = more.getAttribute("aria-expanded") === "true";
  let count = 0;
  for (const row of article.querySelector("tbody").rows) {
    const text = Array.from(row.cells, (cell) => cell.textContent).join(" ").toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    count += !row.hidden;
    row.classList.toggle("later", !row.hidden && !all && count > FIRST_ROWS);
  }
  more.hidden = count <= FIRST_ROWS;
  more.textContent = all ? `Show the first ${FIRST_ROWS} rows only` : `Show all ${count} rows`;
}

function prepareTable(article) {
  const table = article.querySelector("table");
  const rows = Array.from(table.tBodies[0].rows);
  const more = article.querySelector(".more");
  article.querySelector("label").hidden = rows.length < 12;
  article.querySelector("input").addEventListener("input", () => showRows(article));
  more.addEventListener("click", () => {
    more.setAttribute("aria-expanded", String(more.getAttribute("aria-expanded") !== "true"));
    showRows(article);
    more.scrollIntoView({ block: "nearest" }); // a table that became shorter takes the button with it
  });
  for (const header of table.tHead.rows[0].cells) {
    header.firstElementChild.addEventListener("click", () => {
      sortBy(table, rows, header);
      showRows(article);
    });
  }
  showRows(article); // a browser may have kept the words of the last visit
}

document.querySelectorAll("article.table").forEach(prepareTable);
