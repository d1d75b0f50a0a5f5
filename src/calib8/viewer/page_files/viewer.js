// Sorts, searches and filters the tables of the viewer, and lets two reports be chosen.
"use strict";

const byId = (id) => document.getElementById(id);

// The value of a row: a number where it is one; what is not known is null and stands last.
function valueOf(row, key) {
  const text = row.dataset[key];
  if (text === undefined || text === "") return null;
  if (text === "inf" || text === "-inf") return text === "inf" ? Infinity : -Infinity;
  return Number.isNaN(Number(text)) ? text.toLowerCase() : Number(text);
}

function sortBy(button) {
  const header = button.closest("th"), body = button.closest("table").tBodies[0], key = button.dataset.sort;
  const before = header.getAttribute("aria-sort");
  const descending = before === null ? button.dataset.first === "descending" : before === "ascending";
  for (const other of header.parentElement.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const rows = Array.from(body.rows, (row, index) => ({ row, index, value: valueOf(row, key) }));
  rows.sort((a, b) => {
    if (a.value === null || b.value === null) return (a.value === null) - (b.value === null) || a.index - b.index;
    const [left, right] = typeof a.value === typeof b.value ? [a.value, b.value] : [String(a.value), String(b.value)];
    return (descending ? -1 : 1) * (left < right ? -1 : left > right ? 1 : 0) || a.index - b.index;
  });
  body.append(...rows.map((one) => one.row));
}

// Hides the rows that do not hold all words, or that another choice leaves out.
function filter(table) {
  const box = document.querySelector(`input[data-searches="${table.id}"]`);
  const words = (box === null ? "" : box.value).toLowerCase().split(/\s+/);
  const choices = Array.from(document.querySelectorAll(`select[data-filters="${table.id}"]`)).filter((one) => one.value);
  let left = 0;
  for (const row of table.tBodies[0].rows) {
    const text = (row.dataset.words || "").toLowerCase();
    row.hidden = !words.every((word) => text.includes(word)) || choices.some((one) => row.dataset[one.dataset.key] !== one.value);
    left += !row.hidden;
  }
  const status = byId(`${table.id}-found`);
  status.textContent = `${left} of ${table.tBodies[0].rows.length} ${status.dataset.noun}`;
}

// Two reports can be chosen; a third one has to wait until one of them is let go.
function choose() {
  const boxes = Array.from(document.querySelectorAll("#reports input[name=report]"));
  const chosen = boxes.filter((one) => one.checked);
  for (const box of boxes) box.disabled = chosen.length >= 2 && !box.checked;
  byId("compare").disabled = chosen.length !== 2;
  byId("chosen").textContent = chosen.length === 0 ? "Choose two reports." : `${chosen.length} of 2 chosen.`;
}

for (const button of document.querySelectorAll("th button[data-sort]")) button.addEventListener("click", () => sortBy(button));
for (const box of document.querySelectorAll("input[data-searches]")) {
  box.addEventListener("input", () => filter(byId(box.dataset.searches)));
}
for (const choice of document.querySelectorAll("select[data-filters]")) {
  choice.addEventListener("change", () => filter(byId(choice.dataset.filters)));
}
for (const table of document.querySelectorAll("table[data-searched]")) filter(table);
if (byId("compare") !== null) {
  byId("reports").addEventListener("change", choose);
  window.addEventListener("pageshow", choose);
  choose();
}
