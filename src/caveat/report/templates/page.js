"use strict";
// Sorting, filters, switches, one figure of many, and values under the pointer. The page is complete without it.
(() => {
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));

  // -- sorting -------------------------------------------------------------------------------------------------------
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

  // -- filters by model and regime -----------------------------------------------------------------------------------
  const filters = all("[data-filter]");
  function apply() {
    const wanted = filters.filter((f) => f.value !== "").map((f) => [f.dataset.filter, f.value]);
    for (const part of all("main [data-regime], main [data-model]")) {
      part.classList.toggle("away", wanted.some(([what, value]) => part.dataset[what] && part.dataset[what] !== value));
    }
  }
  if (filters.length) {
    filters[0].closest(".filters").hidden = false;
    for (const filter of filters) filter.addEventListener("change", apply);
    apply(); // a browser may restore the choice on reload
  }

  // -- one figure of many --------------------------------------------------------------------------------------------
  for (const picker of all("select[data-picks]")) {
    const figures = all(".picked > figure", picker.closest("details"));
    figures.forEach((figure, i) => picker.add(new Option(figure.querySelector("figcaption").textContent.trim(), i)));
    const show = () => figures.forEach((figure, i) => figure.classList.toggle("hidden", String(i) !== picker.value));
    picker.closest(".control").hidden = false;
    picker.addEventListener("change", show);
    show();
  }

  // -- which methods the curves show: at most six, each with its own style -------------------------------------------
  const SLOTS = 6;
  const drawn = new Map(); // method -> slot
  const names = new Map();
  for (const button of all(".curves [data-switch]")) {
    drawn.set(button.dataset.switch, Number(button.dataset.switch) + 1);
    names.set(button.dataset.switch, button.textContent.trim());
  }
  function switchTo(series, on) {
    const used = new Set(drawn.values());
    const free = Array.from({ length: SLOTS }, (_, i) => i + 1).find((slot) => !used.has(slot));
    if (!on) drawn.delete(series);
    else if (free !== undefined) drawn.set(series, free);
    const slot = drawn.get(series);
    for (const group of all(`.curves svg g[data-series="${series}"]`)) {
      group.setAttribute("class", slot ? `series slot-${slot}` : "series off");
    }
    for (const list of all(".curves .switches")) {
      let button = list.querySelector(`[data-switch="${series}"]`);
      if (!button) {
        const item = list.firstElementChild.cloneNode(true);
        button = item.querySelector("button");
        button.dataset.switch = series;
        button.querySelector("span").textContent = names.get(series);
        list.append(item);
        button.addEventListener("click", () => switchTo(series, !drawn.has(series)));
      }
      button.setAttribute("aria-pressed", String(Boolean(slot)));
      if (slot) button.querySelector("svg").setAttribute("class", `swatch slot-${slot}`);
    }
    offer();
  }
  function offer() {
    for (const select of all("[data-offer]")) {
      select.disabled = drawn.size >= SLOTS;
      select.title = select.disabled ? "Six are drawn: switch one off first." : "";
      for (const option of select.options) option.hidden = drawn.has(option.value);
    }
  }
  for (const button of all(".curves [data-switch]")) {
    button.addEventListener("click", () => switchTo(button.dataset.switch, !drawn.has(button.dataset.switch)));
  }
  for (const select of all("[data-offer]")) {
    for (const option of select.options) names.set(option.value, option.textContent);
    select.closest(".control").hidden = false;
    select.addEventListener("change", () => {
      if (select.value !== "" && !drawn.has(select.value)) switchTo(select.value, true);
      select.value = "";
    });
  }
  offer();

  // -- values under the pointer --------------------------------------------------------------------------------------
  const tip = document.getElementById("tip");
  const paths = new WeakMap();
  function points(path) {
    if (!paths.has(path)) {
      const found = (path.getAttribute("d").match(/-?\d+/g) || []).map(Number);
      const xs = [found[0]], ys = [found[1]];
      for (let i = 2; i + 1 < found.length; i += 2) {
        xs.push(xs[xs.length - 1] + found[i]);
        ys.push(ys[ys.length - 1] + found[i + 1]);
      }
      paths.set(path, [xs, ys]);
    }
    return paths.get(path);
  }
  function heightAt([xs, ys], x) {
    for (let i = xs.length - 1; i > 0; i -= 1) {
      if (xs[i - 1] <= x && x <= xs[i]) {
        const share = xs[i] === xs[i - 1] ? 1 : (x - xs[i - 1]) / (xs[i] - xs[i - 1]);
        return ys[i - 1] + share * (ys[i] - ys[i - 1]);
      }
    }
    return undefined;
  }
  const write = (value, percent) => (percent ? `${(100 * value).toFixed(1)} %` : String(Number(value.toPrecision(3))));
  function place(event, text) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = event.clientX + 14 + box.width > window.innerWidth ? event.clientX - box.width - 14 : event.clientX + 14;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, window.innerHeight - box.height - 4))}px`;
  }
  function away() {
    tip.hidden = true;
    for (const cursor of all(".cursor")) cursor.remove();
  }
  for (const chart of all("svg.chart")) {
    const [left, right, low, high] = chart.dataset.x.split(" ").map(Number);
    const [bottom, top, least, most] = chart.dataset.y.split(" ").map(Number);
    const percent = chart.dataset.percent.split("").map(Number);
    const label = chart.dataset.label;
    chart.addEventListener("pointermove", (event) => {
      away();
      const target = event.target.closest("[data-tip]");
      if (target) return place(event, target.dataset.tip);
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
      if (at.x < left || at.x > right || at.y < top - 4 || at.y > bottom + 4) return undefined;
      const lines = [];
      for (const group of all(".series:not(.off)", chart)) {
        const y = heightAt(points(group.querySelector(".line")), 10 * at.x);
        if (y === undefined) continue;
        lines.push([y, `${group.dataset.name}: ${write(least + ((bottom - y / 10) / (bottom - top)) * (most - least), percent[1])}`]);
      }
      if (!lines.length) return undefined;
      const cursor = chart.querySelector(".grid").cloneNode(false);
      cursor.setAttribute("class", "cursor");
      cursor.setAttribute("d", `M${at.x} ${top}V${bottom}`);
      chart.append(cursor);
      lines.sort((a, b) => a[0] - b[0]);
      const x = low + ((at.x - left) / (right - left)) * (high - low);
      return place(event, [`${label} ${write(x, percent[0])}`, ...lines.map((line) => line[1])].join("\n"));
    });
    chart.addEventListener("pointerleave", away);
    // The script reads values; the browser's own label would cover them.
    for (const title of all(".series > title, [data-tip] > title", chart)) title.remove();
  }
})();
