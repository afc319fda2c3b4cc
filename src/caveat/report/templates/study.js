// Filters, switches, pickers, long tables, and what a pointer reads. Without it the page says the same, only longer.
(() => {
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));

  // -- long tables: the first rows, and a button for the rest --------------------------------------------------------
  function limit(table) {
    const most = table.dataset.open ? Infinity : Number(table.dataset.short);
    let hidden = 0;
    for (const body of table.tBodies) {
      let shown = 0;
      for (const row of all("tr:not(.group)", body)) {
        if (row.classList.contains("away")) continue;
        shown += 1;
        row.classList.toggle("more", shown > most);
        if (shown > most && !body.classList.contains("away")) hidden += 1;
      }
    }
    table.expand.hidden = !hidden && !table.dataset.open;
    table.expand.textContent = hidden ? `Show ${hidden} more rows` : "Show fewer rows";
  }
  const long = all("table[data-short]").filter((table) =>
    Array.from(table.tBodies).some((body) => all("tr:not(.group)", body).length > Number(table.dataset.short)));
  for (const table of long) {
    table.expand = document.createElement("button");
    table.expand.type = "button";
    table.expand.className = "expand";
    table.expand.addEventListener("click", () => {
      if (table.dataset.open) delete table.dataset.open;
      else table.dataset.open = "1";
      limit(table);
    });
    table.parentElement.after(table.expand);
    table.tHead.addEventListener("click", () => limit(table)); // after the sort, which listens further in
    limit(table);
  }

  // -- filters -------------------------------------------------------------------------------------------------------
  const filters = all("[data-filter]");
  function apply() {
    const wanted = filters.filter((f) => f.value !== "").map((f) => [f.dataset.filter, f.value]);
    for (const part of all("main [data-regime], main [data-source], main [data-family], #headline [data-regime]")) {
      part.classList.toggle("away", wanted.some(([what, value]) => part.dataset[what] && part.dataset[what] !== value));
    }
    long.forEach(limit);
  }
  if (filters.length) {
    document.getElementById("filters").hidden = false;
    for (const filter of filters) filter.addEventListener("change", apply);
    apply(); // a browser may restore the choice on reload
  }

  // -- one picture of many -------------------------------------------------------------------------------------------
  for (const picker of all("select[data-picks]")) {
    const pictures = all(":scope > details", document.getElementById(picker.dataset.picks));
    if (pictures.length < 2) continue;
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

  // -- which methods the curves show: at most six, each with a style of its own --------------------------------------
  const SLOTS = 6;
  const drawn = new Map(); // method -> slot
  const names = new Map();
  for (const button of all(".curves [data-switch]")) {
    drawn.set(button.dataset.switch, Number(button.dataset.switch) + 1);
    names.set(button.dataset.switch, button.textContent.trim());
  }
  function switchTo(series, on) {
    if (on) {
      const used = new Set(drawn.values());
      const free = Array.from({ length: SLOTS }, (_, i) => i + 1).find((slot) => !used.has(slot));
      if (free === undefined) return;
      drawn.set(series, free);
    } else drawn.delete(series);
    const slot = drawn.get(series);
    for (const group of all(`.curves svg [data-series="${series}"]`)) {
      group.setAttribute("class", slot ? `series slot-${slot}` : "series off");
    }
    for (const section of all(".curves")) {
      const list = section.querySelector(".switches");
      let button = list.querySelector(`[data-switch="${series}"]`);
      if (!button) {
        const item = document.createElement("li");
        button = list.querySelector("button").cloneNode(true);
        button.dataset.switch = series;
        button.querySelector("span").textContent = names.get(series);
        item.append(button);
        list.append(item);
        button.addEventListener("click", () => switchTo(series, !drawn.has(series)));
      }
      button.setAttribute("aria-pressed", String(Boolean(slot)));
      if (slot) button.querySelector("svg").setAttribute("class", `swatch slot-${slot}`);
    }
    full();
  }
  function full() {
    const crowded = drawn.size >= SLOTS;
    for (const note of all("[data-full]")) note.hidden = !crowded || !note.parentElement.querySelector("[data-offer]");
    for (const offer of all("[data-offer]")) {
      offer.disabled = crowded;
      for (const option of offer.options) option.hidden = drawn.has(option.value);
    }
  }
  for (const button of all(".curves [data-switch]")) {
    button.addEventListener("click", () => switchTo(button.dataset.switch, !drawn.has(button.dataset.switch)));
  }
  for (const offer of all("[data-offer]")) {
    for (const option of offer.options) names.set(option.value, option.textContent);
    offer.addEventListener("change", () => {
      if (offer.value !== "" && !drawn.has(offer.value)) switchTo(offer.value, true);
      offer.value = "";
    });
  }
  for (const box of all("[data-bands]")) {
    box.addEventListener("change", () => box.closest("section").classList.toggle("no-bands", !box.checked));
  }
  for (const control of all(".curves .control")) control.hidden = !control.querySelector("select, input");
  full();

  // -- what a pointer reads ------------------------------------------------------------------------------------------
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
  function place(event, said) {
    tip.textContent = said;
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
