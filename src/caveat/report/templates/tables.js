"use strict";
// Sorting of tables.
(() => {
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));

  function keyOf(row, column) {
    const cell = row.cells[column];
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    return cell.classList.contains("none") ? NaN : cell.textContent.trim();
  }

  // Numbers by size, names by alphabet, what is not defined always last; equal rows keep the order of the report.
  function compare(a, b, sign) {
    const lost = [Number.isNaN(a), Number.isNaN(b)];
    if (lost[0] || lost[1]) return lost[0] - lost[1];
    return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  }

  function sortBy(table, column, ascending) {
    for (const body of table.tBodies) {
      const rows = all("tr:not(.group)", body);
      rows.sort((a, b) => compare(keyOf(a, column), keyOf(b, column), ascending ? 1 : -1) || a.dataset.order - b.dataset.order);
      body.append(...rows);
    }
  }

  for (const table of all("table.sortable")) {
    for (const body of table.tBodies) all("tr:not(.group)", body).forEach((row, i) => { row.dataset.order = i; });
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-label", `Sort by ${head.textContent.trim()}`);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      head.addEventListener("click", () => {
        const ascending = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        sortBy(table, column, ascending);
      });
    });
  }
})();
