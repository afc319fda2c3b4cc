"use strict";
// Sorting, filtering and picking. Without it the page says the same, only longer.
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

  const filter = document.getElementById("outlier-filter");
  if (filter) {
    const apply = () => {
      for (const part of all("[data-outlier]")) {
        part.classList.toggle("away", filter.value !== "" && part.dataset.outlier !== filter.value);
      }
    };
    filter.parentElement.hidden = false;
    filter.addEventListener("change", apply);
    apply(); // a browser may restore the choice on reload
  }

  const picker = document.getElementById("score-picker");
  const pictures = all("#histogram-list > details");
  if (pictures.length > 1) {
    pictures.forEach((picture, i) => {
      picker.add(new Option(picture.firstElementChild.textContent, i));
      picture.classList.add("picked");
    });
    const show = () => pictures.forEach((picture, i) => {
      picture.open = String(i) === picker.value;
      picture.classList.toggle("away", !picture.open);
    });
    picker.parentElement.hidden = false;
    picker.addEventListener("change", show);
    show();
  }
})();
