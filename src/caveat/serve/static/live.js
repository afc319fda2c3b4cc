"use strict";
// The live page: asks the service for v1/live every two seconds and draws the answer as SVG and tables.
// What comes from the service is only ever set as text, never as markup.
(() => {
  const EVERY = 2000, PATIENCE = 10000, SENDING = 60000; // milliseconds
  const KINDS = ["accept", "abstain", "outlier"], MINUTES = 60;
  const TOP = 10; // log10; evidence beyond it says no more
  const CLASSES = 8, ANSWERS = 200; // shown of a set, of an answer
  const KEY = "caveat-key";
  const MEDIA = { npz: "application/x-npz", npy: "application/x-npy", json: "application/json" };
  const FILE_ONLY = new Set(["layers", "mc_logits", "ease_probs"]); // more than one row of numbers per input
  const $ = (id) => document.getElementById(id);

  // -- building blocks -----------------------------------------------------------------------------------------------
  function fill(made, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }
  const node = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const shape = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  const drawn = new Map(); // part of the page -> what it shows: unchanged parts keep selection and focus
  function once(id, value, draw) {
    const text = JSON.stringify(value);
    if (drawn.get(id) === text) return;
    drawn.set(id, text);
    $(id).replaceChildren(...[draw()].flat().filter((child) => child !== null));
  }

  // -- words and numbers ---------------------------------------------------------------------------------------------
  const count = (n) => n.toLocaleString("en-US");
  const counted = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
  const decimal = (value, digits = 2) => (value === null ? "–" : value.toFixed(digits).replace("-", "−"));
  function digitsOf(value) { // a share that is not an end is never rounded to it
    if (value > 0 && value < 0.0005) return "<0.1";
    if (value < 1 && value >= 0.9995) return ">99.9";
    return (100 * value).toFixed(1);
  }
  const percent = (value) => `${digitsOf(value)}\u00a0%`;
  const level = (value) => `${Number((100 * value).toPrecision(4))}\u00a0%`; // as someone chose it
  const pValue = (value) => (value === null ? "–" : value < 0.0001 ? "<0.0001" : String(Number(value.toPrecision(2))));
  const listing = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);
  const short = (text, ends = 6) => (text.length <= 2 * ends + 1 ? text : `${text.slice(0, ends)}…${text.slice(-ends)}`);
  function clock(iso, seconds = true) {
    const at = new Date(iso), style = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    if (seconds) style.second = "2-digit";
    const day = at.toDateString() === new Date().toDateString() ? "" : `${at.toISOString().slice(0, 10)} `;
    return day + at.toLocaleTimeString("en-GB", style);
  }
  function duration(from, to) {
    const minutes = Math.max(0, Math.floor((new Date(to) - new Date(from)) / 60000));
    if (minutes < 60) return `${minutes} min`;
    return minutes < 1440 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
  }
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const promiseOf = (data, what) => data.promises.find((promise) => promise.what === what && promise.holds) || null;
  const sure = (promise) => (promise.confidence === null ? "on average" : `${level(promise.confidence)} confidence`);

  // -- charts --------------------------------------------------------------------------------------------------------
  function ticks(low, high, most) {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
    const values = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) values.push(Number((i * step).toPrecision(12)));
    return values;
  }

  // Draws in pixels of the screen, so that text has the same size on a phone.
  function chart(id, value, options) {
    const width = Math.max(240, $(id).clientWidth);
    once(id, [value, width], () => {
      const { height = 190, left = 46, right = 10, top = 12, bottom = 30, x, y, label, draw } = options(width);
      const svg = shape("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
      const px = (v) => left + ((v - x.low) / (x.high - x.low)) * (width - left - right);
      const py = (v) => height - bottom - ((v - y.low) / (y.high - y.low)) * (height - top - bottom);
      const at = (v) => v.toFixed(1);
      const add = (tag, attributes, ...children) => svg.appendChild(shape(tag, attributes, ...children));
      const text = (tx, ty, words, anchor = "start", cls = null) => add("text", { x: at(tx), y: at(ty), "text-anchor": anchor, class: cls }, words);
      const rule = (y1, cls) => add("path", { class: cls, d: `M${left} ${at(py(y1))}H${width - right}` });
      for (const tick of y.ticks || ticks(y.low, y.high, 4)) {
        rule(tick, tick === 0 ? "axis" : "gridline");
        text(left - 7, py(tick) + 4, y.write(tick), "end");
      }
      for (const [place, words, anchor] of x.ticks) text(px(place), height - bottom + 17, words, anchor || "middle");
      if (x.label) text((left + width - right) / 2, height - 1, x.label, "middle");
      draw({ svg, add, text, rule, px, py, at, width, height, left, right, top, bottom });
      return svg;
    });
  }
  const curve = (plot, xs, ys) => xs.map((x, i) => `${i ? "L" : "M"}${plot.at(plot.px(x))} ${plot.at(plot.py(ys[i]))}`).join("");
  function nothing(id, words) {
    chart(id, words, (width) => ({
      x: { low: 0, high: 1, ticks: [] }, y: { low: 0, high: 1, ticks: [0], write: () => "" }, label: words,
      draw: (plot) => plot.text(width / 2, plot.height / 2, words, "middle", "none"),
    }));
  }
  function countTicks(low, high, width) {
    return ticks(low, high, width < 420 ? 2.5 : 5).filter((tick) => Number.isInteger(tick)).map((tick) => {
      const near = (end) => Math.abs(tick - end) < 0.06 * (high - low);
      return [tick, count(tick), near(high) ? "end" : near(low) ? "start" : "middle"];
    });
  }
  // Hatched, so that the kinds differ by more than color.
  const hatch = () => shape("defs", {}, shape("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    shape("rect", { width: 5, height: 5, class: "outlier" }), shape("path", { d: "M0 0V5", class: "hatch" })));
  const filled = (kind) => (kind === "outlier" ? { fill: "url(#hatch)" } : { class: kind });
  const swatch = (...shapes) => shape("svg", { class: "swatch", viewBox: "0 0 26 10", "aria-hidden": "true" }, ...shapes);

  function drawMinutes(data) {
    const { minutes } = data, n = minutes.accept.length;
    const totals = minutes.accept.map((_, i) => sum(KINDS.map((kind) => minutes[kind][i])));
    const highest = Math.max(0, ...totals);
    if (!highest) return nothing("plot-verdicts", data.rows ? "No verdicts in the last hour" : "No verdicts yet");
    const words = KINDS.map((kind) => `${count(sum(minutes[kind]))} ${kind}`).join(", ");
    return chart("plot-verdicts", minutes, (width) => ({
      x: { low: -MINUTES, high: 0, ticks: [[-MINUTES, "60 min ago", "start"], [-30, "30"], [0, "now", "end"]] },
      y: { low: 0, high: 1.08 * highest, ticks: ticks(0, 1.08 * highest, 4).filter(Number.isInteger), write: count },
      label: `Verdicts per minute. Last ${counted(n, "minute")}: ${words}; at most ${count(highest)} a minute.`,
      bottom: 22, height: 186,
      draw: (plot) => {
        plot.svg.prepend(hatch());
        const slot = plot.px(1) - plot.px(0);
        totals.forEach((total, i) => {
          const place = plot.px(i - n) + slot * 0.12;
          let below = 0;
          for (const kind of KINDS) {
            const rows = minutes[kind][i], base = plot.py(below), tip = plot.py(below + rows);
            below += rows;
            if (rows) plot.add("rect", { ...filled(kind), x: plot.at(place), y: plot.at(tip), width: plot.at(slot * 0.76), height: plot.at(base - tip) });
          }
          if (!total) return;
          const minute = clock(new Date(new Date(minutes.start).getTime() + 60000 * i).toISOString(), false);
          plot.add("rect", { class: "hover", x: plot.at(plot.px(i - n)), y: plot.top, width: plot.at(slot), height: plot.height - plot.top - plot.bottom },
            shape("title", {}, `${minute}: ${KINDS.map((kind) => `${count(minutes[kind][i])} ${kind}`).join(", ")}`));
        });
      },
    }));
  }

  function drawDrift(data) {
    const streams = data.drift.streams, rows = streams.flatMap((stream) => stream.rows);
    if (!rows.length) return nothing("plot-drift", "No verdicts yet");
    const values = streams.flatMap((stream) => stream.log10_e.filter((value) => value !== null));
    const line = streams[0].line, x = { low: Math.min(...rows) - 1, high: Math.max(...rows) };
    const low = Math.min(-1, 1.06 * Math.min(...values)), high = Math.min(TOP, Math.max(1.35 * line, 1.06 * Math.max(...values)));
    const words = streams.map((stream) => `${stream.label}: now ${decimal(stream.now)}, highest ${decimal(stream.highest)}` +
      (stream.alarmed_at === null ? "" : `, alarm at row ${count(stream.alarmed_at)}`));
    return chart("plot-drift", streams, (width) => ({
      x: { ...x, ticks: countTicks(x.low, x.high, width), label: width < 420 ? "" : "Row" },
      y: { low, high, write: (value) => decimal(value, 0), ticks: ticks(low, high, 5).filter(Number.isInteger) },
      label: `Evidence for drift over ${count(x.high - x.low)} rows, log10; the alarm line is at ${decimal(line)}. ${words.join("; ")}.`,
      bottom: width < 420 ? 22 : 34,
      draw: (plot) => {
        plot.rule(line, "cut");
        plot.text(plot.left + 4, plot.py(line) - 6, `alarm at ${decimal(line)}`, "start", "strong");
        streams.forEach((stream, i) => {
          const drawnPart = stream.log10_e.map((value) => Math.min(high, Math.max(low, value === null ? low : value)));
          plot.add("path", { class: `line slot-${i + 1}`, d: curve(plot, stream.rows, drawnPart) });
        });
        for (const stream of streams) {
          if (stream.alarmed_at === null || stream.alarmed_at <= x.low) continue;
          const [cx, cy] = [plot.px(stream.alarmed_at), plot.py(line)];
          plot.add("path", { class: "rung", d: `M${plot.at(cx)} ${plot.at(cy - 8)}l7 13h-14z` },
            shape("title", {}, `${stream.label}: alarm at row ${count(stream.alarmed_at)}`));
        }
      },
    }));
  }

  function drawPValues(data) {
    const bars = data.p_values;
    if (!bars.n) return nothing("plot-p", "No verdicts yet");
    const highest = Math.max(...bars.counts, ...bars.most), outside = outsideOf(bars);
    const words = bars.counts.map((n, i) => `${n}${outside[i] ? " (outside)" : ""}`).join(", ");
    return chart("plot-p", bars, (width) => ({
      x: { low: 0, high: 1, ticks: [[0, "0", "start"], [0.25, "0.25"], [0.5, "0.5"], [0.75, "0.75"], [1, "1", "end"]], label: width < 420 ? "" : "P-value (small: unlike the calibration data)" },
      y: { low: 0, high: 1.08 * highest, ticks: ticks(0, 1.08 * highest, 4).filter(Number.isInteger), write: count },
      label: `Histogram of the last ${counted(bars.n, "p-value")} in ${bars.counts.length} bars from 0 to 1. Rows in each: ${words}.`,
      bottom: width < 420 ? 22 : 34,
      draw: (plot) => {
        const steps = (ends) => ends.flatMap((end, i) => [[bars.edges[i], end], [bars.edges[i + 1], end]]);
        const ring = [...steps(bars.most), ...steps(bars.least).reverse()];
        const wide = (i) => plot.px(bars.edges[i + 1]) - plot.px(bars.edges[i]);
        bars.counts.forEach((n, i) => {
          plot.add("rect", {
            class: outside[i] ? "bar outside" : "bar", x: plot.at(plot.px(bars.edges[i]) + 0.08 * wide(i)), y: plot.at(plot.py(n)),
            width: plot.at(0.84 * wide(i)), height: plot.at(plot.py(0) - plot.py(n)),
          });
        });
        plot.add("path", { class: "band", d: `${curve(plot, ring.map((point) => point[0]), ring.map((point) => point[1]))}Z` });
        bars.counts.forEach((n, i) => {
          plot.add("rect", { class: "hover", x: plot.at(plot.px(bars.edges[i])), y: plot.top, width: plot.at(wide(i)), height: plot.at(plot.py(0) - plot.top) },
            shape("title", {}, `p ${bars.edges[i].toFixed(2)} to ${bars.edges[i + 1].toFixed(2)}: ${counted(n, "row")}; chance allows ${count(bars.least[i])} to ${count(bars.most[i])}`));
        });
      },
    }));
  }
  const outsideOf = (bars) => bars.counts.map((n, i) => n < bars.least[i] || n > bars.most[i]);

  function drawLive(data) {
    const live = data.live.error;
    if (live === null) return nothing("plot-live", "No labels yet");
    const { labels, rate, lower, upper } = live.path, last = labels.at(-1);
    const steady = upper.filter((_, i) => labels[i] >= Math.min(20, last)); // the first labels would set the scale
    const high = Math.min(1, 1.05 * Math.max(...steady, 1.3 * (live.promised || 0), 0.01));
    const inside = (values) => values.map((value) => Math.min(high, value));
    return chart("plot-live", live, (width) => ({
      x: { low: 0, high: Math.max(2, last), ticks: countTicks(0, Math.max(2, last), width), label: width < 420 ? "" : "Accepted rows with a label" },
      y: { low: 0, high, write: (value) => `${Number((100 * value).toPrecision(3))}\u00a0%` },
      label: `Error among the accepted: ${percent(live.rate)}, between ${percent(live.lower)} and ${percent(live.upper)} with ${level(live.level)} confidence, after ${counted(live.labels, "label")}.`,
      bottom: width < 420 ? 22 : 34, left: 52,
      draw: (plot) => {
        const ring = [...inside(upper), ...inside(lower).reverse()];
        plot.add("path", { class: "area", d: `${curve(plot, [...labels, ...[...labels].reverse()], ring)}Z` });
        plot.add("path", { class: "line slot-1", d: curve(plot, labels, inside(rate)) });
        plot.add("circle", { class: "accept", cx: plot.at(plot.px(last)), cy: plot.at(plot.py(Math.min(high, live.rate))), r: 4 });
        if (live.promised === null) return;
        plot.rule(live.promised, "cut");
        plot.text(plot.width - plot.right - 4, plot.py(live.promised) - 6, `promised: at most ${level(live.promised)}`, "end", "strong");
      },
    }));
  }

  // -- tiles and tables ----------------------------------------------------------------------------------------------
  function tile(id, { title, big, beside, lines, meter, cls = "" }) {
    $(id).className = `card tile ${cls}`;
    once(id, [title, big, beside, lines, meter], () => [
      node("h2", {}, title),
      node("p", { class: "big" }, big, ...(beside ? [" ", node("small", {}, beside)] : [])),
      meter === undefined ? null : shape("svg", { class: "meter", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
        shape("rect", { class: "track", width: 100, height: 8, rx: 2 }), shape("rect", { class: "fill", width: 100 * meter, height: 8, rx: 2 })),
      ...lines.filter(Boolean).map((line) => (line.note ? node("p", { class: "note" }, line.note) : node("p", {}, line))),
    ]);
  }

  function tiles(data) {
    const { rows, counts, minutes } = data, full = minutes.accept.length - 2; // the last minute is not over
    const rate = full < 0 ? null : sum(KINDS.map((kind) => minutes[kind][full]));
    tile("tile-rows", {
      title: "Verdicts", big: count(rows),
      lines: [rows && rate !== null ? `${count(rate)} in the last full minute` : `up ${duration(data.started_at, data.now)}`,
        `queue: ${count(data.queue.depth)} of ${count(data.queue.limit)}`],
    });

    const alarms = promiseOf(data, "false alarms"), share = rows ? counts.outlier / rows : null;
    const lately = sum(KINDS.map((kind) => sum(minutes[kind])));
    tile("tile-outliers", {
      title: "Called outliers", big: share === null ? "–" : percent(share),
      lines: [
        rows ? `${count(counts.outlier)} of ${count(rows)}; last hour ${lately ? percent(sum(minutes.outlier) / lately) : "no verdicts"}` : null,
        alarms ? `Promised: at most ${level(alarms.bound)} of in-distribution inputs, ${sure(alarms)}.` : "Nothing is promised.",
        alarms && share !== null && share > alarms.bound && { note: `More than ${level(alarms.bound)}: some inputs are out of distribution.` },
      ],
    });

    const live = data.live.error, risk = promiseOf(data, "errors among the accepted"), broken = data.alarms.includes("risk");
    tile("tile-errors", {
      title: "Errors among the accepted", cls: broken ? "alarm" : "",
      big: live === null ? "No labels yet" : percent(live.rate),
      beside: live && `[${digitsOf(live.lower)}, ${digitsOf(live.upper)}]`,
      lines: [
        live && `${count(live.errors)} of ${counted(live.labels, "label")}; ${level(live.level)} confidence at all times`,
        broken && { note: `⚠ Alarm: above the promise, at label ${count(live ? live.alarmed_at : 0)}.` },
        risk ? `Promised: at most ${level(risk.bound)}, ${sure(risk)}.` : "No error rate is promised.",
        live === null && "Send labels to POST v1/labels when you know them.",
      ],
    });

    const streams = data.drift.streams, rung = streams.filter((stream) => stream.alarmed_at !== null);
    const strongest = (some) => some.reduce((best, stream) => (stream.now / stream.line > best.now / best.line ? stream : best));
    const worst = strongest(rung.length ? rung : streams), ratio = worst.now / worst.line;
    tile("tile-drift", {
      title: "Drift", cls: rung.length ? "alarm" : ratio >= 0.8 ? "warn" : "",
      big: rung.length ? "⚠ Alarm" : !rows ? "–" : ratio >= 0.8 ? "Close to the alarm" : ratio >= 0.5 ? "Rising" : "Quiet",
      beside: rows ? `${decimal(worst.now)} of ${decimal(worst.line)}` : null,
      meter: Math.min(1, Math.max(0, ratio)),
      lines: [
        rung.length ? { note: `${listing(rung.map((stream) => `${stream.label} at row ${count(stream.alarmed_at)}`))}.` } : rows ? `Strongest evidence (log10): ${worst.label}.` : null,
        worst.share_small === null ? `False-alarm rate ${level(data.drift.alpha)}, over all time.` :
          `p ≤ 0.05 in ${percent(worst.share_small)} of the last ${count(data.p_values.n)}; about 5\u00a0% if nothing changed.`,
      ],
    });
  }

  // Roles are named, because the phone layout takes the display of a table away.
  function table(cls, heads, rows) {
    const cells = (tag, role, values) => values.map((value, i) => {
      const [content, kind, label] = Array.isArray(value) ? value : [value];
      return node(tag, { role, class: kind || heads[i][1] || null, "data-label": label || null }, content);
    });
    return node("table", { class: cls, role: "table" },
      node("thead", { role: "rowgroup" }, node("tr", { role: "row" }, ...cells("th", "columnheader", heads.map((head) => head[0])))),
      node("tbody", { role: "rowgroup" }, ...rows.map((row) => node("tr", { role: "row" }, ...cells("td", "cell", row)))));
  }
  function words(...parts) {
    const span = node("span");
    span.append(...parts);
    return span;
  }

  function numbers(data) {
    const { counts, minutes, rows } = data, lately = sum(KINDS.map((kind) => sum(minutes[kind])));
    once("verdicts-table", [counts, KINDS.map((kind) => sum(minutes[kind]))], () => table("numbers",
      [["Verdict"], ["Rows", "number"], ["Share", "number"], ["Last hour", "number"]],
      KINDS.map((kind) => [words(swatch(shape("rect", { ...filled(kind), width: 26, height: 10 })), kind), count(counts[kind]),
        rows ? percent(counts[kind] / rows) : "–", lately ? percent(sum(minutes[kind]) / lately) : "–"])));
    const streams = data.drift.streams.map(({ rows: _, log10_e: __, ...stream }) => stream);
    once("drift-table", streams, () => table("numbers",
      [["Stream"], ["Now", "number"], ["Highest", "number"], ["p ≤ 0.05", "number"], ["Alarm", "number"]],
      streams.map((stream, i) => [words(swatch(shape("path", { class: `line slot-${i + 1}`, d: "M0 5H26" })), stream.label), decimal(stream.now), decimal(stream.highest),
        stream.share_small === null ? "–" : percent(stream.share_small), stream.alarmed_at === null ? "no" : `⚠ row ${count(stream.alarmed_at)}`])));
  }

  function captions(data) {
    $("drift-cap").textContent = `log10, n = ${count(data.rows)}. A stream like the calibration data ever reaches a line with probability ${level(data.drift.alpha)} at most. Drift never changes a verdict.`;
    const bars = data.p_values, outside = outsideOf(bars).filter(Boolean).length;
    const band = `Gray band: what chance allows all ${bars.counts.length} bars at one look, ${level(bars.level)} confidence.`;
    $("p-cap").textContent = !bars.n ? "" : outside ?
      `Last ${counted(bars.n, "row")}. ${outside === 1 ? "1 bar is" : `${outside} bars are`} outside, framed: the inputs do not look like the calibration data. ${band}` :
      `Last ${counted(bars.n, "row")}. No bar is outside: the inputs look like the calibration data. ${band}`;
    const { error, coverage } = data.live;
    const sets = coverage === null ? "" : `Sets hold the true class in ${percent(coverage.rate)} [${digitsOf(coverage.lower)}, ${digitsOf(coverage.upper)}] of ${counted(coverage.labels, "labeled row")}` +
      (coverage.promised === null ? "." : `; promised: at least ${level(coverage.promised)}.`);
    $("live-cap").textContent = error === null ? `Labels that come later show whether the promise is kept: POST v1/labels with the id of each verdict. ${sets}` :
      `Band: where the error rate lies with ${level(error.level)} confidence, at all times at once. ${sets}`;
  }

  function promises(data) {
    const drift = data.alarms.some((name) => name !== "risk");
    once("promises", [data.promises, data.alarms], () => data.promises.map((promise) => {
      const broken = promise.what === "errors among the accepted" && data.alarms.includes("risk");
      const state = !promise.holds ? ["–", ""] : broken ? ["✗", "Broken: "] : drift ? ["?", "In doubt: "] : ["✓", ""];
      return node("li", { class: state[0] === "✓" ? "" : "not" }, node("span", { class: "mark", "aria-hidden": "true" }, state[0]),
        node("span", {}, state[1] ? node("span", { class: "word" }, state[1]) : "", promise.sentence));
    }));
    const assumptions = [...new Set(data.promises.filter((promise) => promise.holds).map((promise) => promise.assumption))];
    $("promises-cap").textContent = (assumptions.length ? `Assumption: ${assumptions.join("; ")}. ${drift ? "The drift alarm says that this no longer holds. " : ""}` : "") +
      "Nothing is promised about outliers.";
  }

  function verdictTable(rows, timed) {
    const heads = [...(timed ? [["Time", "time"]] : []), ["Id", "id"], ["Verdict", "kind"], ["Class", "class"], ["Set", "set"], ["p", "p"], ["Reason", "reason"]];
    return table("verdicts", heads, rows.map((row) => [
      ...(timed ? [node("time", { datetime: row.at, title: row.at }, clock(row.at))] : []),
      node("span", { title: row.id }, short(row.id, 10)),
      node("span", { class: `pill ${KINDS.includes(row.kind) ? row.kind : ""}` }, row.kind),
      [row.prediction === null ? "–" : String(row.prediction), "class", "class"],
      [row.set === null ? "–" : setOf(row.set), "set", "set"],
      [pValue(row.p_value), "p", "p"],
      row.reason,
    ]));
  }
  const setOf = (labels) => `{${labels.slice(0, CLASSES).join(", ")}${labels.length > CLASSES ? `, … ${labels.length} classes` : ""}}`;

  // -- the whole page ------------------------------------------------------------------------------------------------
  let data = null;

  function render() {
    if (data === null) return;
    $("content").hidden = false;
    $("name").textContent = `Guard: ${data.name}`;
    facts();
    alarm();
    $("empty").hidden = data.rows > 0;
    if (!data.rows) start();
    tiles(data);
    drawMinutes(data);
    drawDrift(data);
    drawPValues(data);
    drawLive(data);
    numbers(data);
    captions(data);
    promises(data);
    form();
    once("last", data.last, () => (data.last.length ? verdictTable(data.last, true) : node("p", { class: "quiet" }, "No verdicts yet.")));
  }

  function facts() {
    const { audit, promises: made } = data, rows = Math.max(0, ...made.map((promise) => promise.n));
    const trail = audit.kind === "none" ? ["no audit trail"] :
      [`audit: ${counted(audit.records, "record")} (${audit.kind}), chain `, node("code", { title: audit.digest }, short(audit.digest, 4)), `, verified from record ${count(audit.verified_from)} on`];
    const parts = [[`calibrated ${data.calibrated_at} on ${counted(rows, "row")}`], ["guard ", node("code", { title: data.fingerprint }, short(data.fingerprint, 4))], trail,
      [`up ${duration(data.started_at, data.now)}`], [`caveat ${data.version}`]];
    once("facts", parts.map((part) => part.map((piece) => (typeof piece === "string" ? piece : piece.title))), () => parts.flatMap((part, i) => (i ? [" · ", ...part] : part)));
  }

  function alarm() {
    const streams = data.drift.streams.filter((stream) => stream.alarmed_at !== null), live = data.live.error;
    const lines = streams.map((stream) => `${stream.label} changed, seen at row ${count(stream.alarmed_at)}`);
    if (data.alarms.includes("risk")) lines.push(`errors among the accepted passed the promise${live ? `, seen at label ${count(live.alarmed_at)}` : ""}`);
    once("alarm", lines, () => (!lines.length ? [] : node("div", { class: "banner alarm" },
      node("h2", {}, `Alarm: ${listing(lines)}`),
      node("p", {}, (streams.length ? "The inputs no longer look like the calibration data, so the promises may not hold. " : "The promised error rate is not kept. ") +
        `Verdicts are given as before. Look at the last verdicts, collect labels, and calibrate again if the change stays. The alarm stays on; without a change it would ever ring with probability ${level(data.drift.alpha)} at most.`))));
  }

  // What to send when nothing has come yet.
  function start() {
    const address = new URL("v1/verdicts", location.href).href, fields = Object.entries(data.fields);
    const secret = key === null ? "" : ' -H "Authorization: Bearer $CAVEAT_SERVE_KEY"';
    const [name, width] = fields[0] || ["features", null];
    const small = fields.length === 1 && width !== null && width <= 12;
    const body = small ? `-H "Content-Type: application/json" -d '{"${name}": [[${Array(width).fill(0).join(", ")}]]}'` : '-H "Content-Type: application/x-npz" --data-binary @rows.npz';
    $("empty-command").textContent = `curl${secret} ${body} ${address}`;
    $("empty-text").textContent = small ? `Send a row of ${name}, ${counted(width, "number")}, from a terminal, or use "Try it" below:` :
      `Send rows as arrays: numpy.savez("rows.npz", ${fields.map(([field]) => `${field}=${field}`).join(", ")}), where ${listing(fields.map(([field, wide]) => `${field} has shape (n${wide === null ? ", …" : `, ${wide}`})`))}. Then, from a terminal:`;
  }

  // -- asking the service --------------------------------------------------------------------------------------------
  let key = null, timer = 0, round = 0, paused = false, answeredAt = null;
  try { key = sessionStorage.getItem(KEY); } catch { /* storage is switched off: the key lives as long as the page */ }

  async function ask(path, options = {}, patience = PATIENCE) {
    const control = new AbortController(), limit = setTimeout(() => control.abort(), patience);
    const headers = { ...options.headers, ...(key === null ? {} : { Authorization: `Bearer ${key}` }) };
    try {
      const response = await fetch(path, { ...options, headers, cache: "no-store", signal: control.signal });
      const content = await response.json().catch(() => null);
      return { status: response.status, ok: response.ok && content !== null, content };
    } finally {
      clearTimeout(limit);
    }
  }
  const problemOf = (answer) => (answer.content && typeof answer.content.error === "string" ? answer.content.error : `The service answered with status ${answer.status}.`);

  function show(state, text, notice = "") {
    $("state").dataset.state = state;
    if ($("state").textContent !== text) $("state").textContent = text;
    $("content").classList.toggle("stale", state === "gone" || state === "key");
    once("notice", notice, () => (notice ? node("p", { class: "banner" }, notice) : []));
    const alarmed = data !== null && data.alarms.length > 0;
    const name = data === null ? "Guard" : data.name;
    document.title = state === "gone" ? `No answer: ${name}` : `${alarmed ? "⚠ Alarm: " : ""}${name}`;
  }

  async function poll() {
    clearTimeout(timer);
    const mine = ++round;
    if (document.hidden || paused) return;
    let answer = null;
    try { answer = await ask("v1/live"); } catch { /* no connection, or too slow */ }
    if (mine !== round) return; // a later round has begun
    if (answer !== null && answer.status === 401) return askForKey(problemOf(answer));
    if (answer !== null && answer.ok) {
      data = answer.content;
      answeredAt = data.now;
      $("key-form").hidden = true;
      $("updated").textContent = `updated ${clock(data.now)}`;
      render();
      show("live", "Live");
    } else {
      const since = answeredAt === null ? "" : ` The numbers below are from ${clock(answeredAt)}.`;
      const why = answer === null ? "The service does not answer." : problemOf(answer);
      show("gone", "No answer", `${why}${since} The page asks again every 2 seconds.`);
    }
    timer = setTimeout(poll, EVERY);
  }

  function askForKey() {
    const refused = key !== null, form = $("key-form");
    setKey(null);
    if (form.hidden || refused) {
      $("key-note").textContent = (refused ? "The service refused this key. " : "") + "It is kept in this tab only and forgotten when you close the tab.";
      $("key-note").classList.toggle("problem", refused);
    }
    form.hidden = false;
    show("key", "Key needed");
    if (document.activeElement === document.body || refused) $("key").focus();
  }
  function setKey(value) {
    key = value;
    try {
      if (value === null) sessionStorage.removeItem(KEY);
      else sessionStorage.setItem(KEY, value);
    } catch { /* as above */ }
  }

  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    setKey($("key").value.trim() || null);
    $("key").value = "";
    poll();
  });
  $("pause").addEventListener("click", () => {
    paused = !paused;
    $("pause").setAttribute("aria-pressed", String(paused));
    $("pause").textContent = paused ? "Resume" : "Pause";
    if (paused) show("paused", "Paused");
    poll();
  });
  document.addEventListener("visibilitychange", poll);
  new ResizeObserver(() => requestAnimationFrame(render)).observe(document.body);

  // -- try it --------------------------------------------------------------------------------------------------------
  function form() {
    const fields = Object.entries(data.fields), typed = fields.length > 0 && !fields.some(([name]) => FILE_ONLY.has(name));
    $("send").hidden = !typed;
    once("fields", data.fields, () => (typed ? fields.map(([name, width], i) => node("div", { class: "field" },
      node("label", { for: `field-${i}` }, `Paste ${name}: ${width === null ? "numbers" : counted(width, "number")} a row, one row per line`),
      node("textarea", { id: `field-${i}`, spellcheck: "false", autocomplete: "off", rows: 3, placeholder: "0.12, -1.5, 3.07, …" })))
      : node("p", {}, `This guard reads ${listing(fields.map(([name]) => name))}: send a file.`)));
  }

  // A row per line; where lines do not fit the width, every `width` numbers are a row (as numpy prints long rows).
  function parseRows(text, name, width) {
    const lines = text.split(/\r?\n/).map((line) => line.split(/[\s,;[\]()]+/).filter(Boolean)).filter((line) => line.length);
    if (!lines.length) throw new Error(`Paste at least one row of ${name}.`);
    const wrong = lines.flat().find((word) => !Number.isFinite(Number(word)));
    if (wrong !== undefined) throw new Error(`"${short(wrong, 12)}" is not a number.`);
    let rows = lines.map((line) => line.map(Number));
    const wide = width === null ? (rows.every((row) => row.length === 1) && name !== "confidence" ? rows.length : rows[0].length) : width;
    if (rows.some((row) => row.length !== wide)) {
      const all = rows.flat();
      if (all.length % wide) throw new Error(`${name} must have ${counted(wide, "number")} a row, got ${counted(all.length, "number")} in ${counted(rows.length, "line")}.`);
      rows = Array.from({ length: all.length / wide }, (_, i) => all.slice(i * wide, (i + 1) * wide));
    }
    return name === "confidence" ? rows.flat() : rows; // one number per row has no columns
  }

  async function send(body, type, what) {
    say(`Sending ${what} …`);
    $("send").disabled = true;
    let answer = null;
    try { answer = await ask("v1/verdicts", { method: "POST", body, headers: { "Content-Type": type } }, SENDING); } catch { /* no answer */ }
    $("send").disabled = false;
    if (answer === null) return say("The service did not answer. Nothing is known about these rows; send them again.", true);
    if (answer.status === 401) askForKey();
    if (!answer.ok) return say(problemOf(answer), true);
    const rows = answer.content.verdicts, kinds = KINDS.map((kind) => `${count(rows.filter((row) => row.kind === kind).length)} ${kind}`);
    say(`${counted(rows.length, "verdict")}: ${kinds.join(", ")}.${rows.length > ANSWERS ? ` The first ${ANSWERS} are shown.` : ""}`);
    $("answer-table").replaceChildren(verdictTable(rows.slice(0, ANSWERS), false));
    $("answer").scrollIntoView({ block: "nearest" });
    return poll();
  }
  function say(text, problem = false) {
    $("answer").hidden = false;
    $("answer-text").textContent = text;
    $("answer-text").classList.toggle("problem", problem);
    $("answer-table").replaceChildren();
    if (problem) $("answer").scrollIntoView({ block: "nearest" });
  }

  function sendText(event) {
    event.preventDefault();
    try {
      const content = Object.fromEntries(Object.entries(data.fields).map(([name, width], i) => [name, parseRows($(`field-${i}`).value, name, width)]));
      const lengths = Object.values(content).map((rows) => rows.length);
      if (new Set(lengths).size > 1) throw new Error(`All fields must have the same number of rows, got ${listing(lengths.map(String))}.`);
      send(JSON.stringify(content), MEDIA.json, counted(lengths[0], "row"));
    } catch (error) {
      say(error.message, true);
    }
  }
  function sendFile(file) {
    const type = MEDIA[file.name.toLowerCase().split(".").at(-1)];
    if (type === undefined) say(`${short(file.name, 20)} is not a .npz, .npy or .json file.`, true);
    else send(file, type, short(file.name, 20));
  }

  $("try").addEventListener("submit", sendText);
  $("try").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("try").requestSubmit();
  });
  $("file").addEventListener("change", () => {
    if ($("file").files.length) sendFile($("file").files[0]);
    $("file").value = ""; // the same file can be chosen again
  });
  const within = (event) => event.target instanceof Node && $("drop").contains(event.target);
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault(); // a file that misses the card must not replace the page
      $("drop").classList.toggle("over", kind === "dragover" && within(event));
      if (kind === "drop" && within(event) && event.dataTransfer.files.length) sendFile(event.dataTransfer.files[0]);
    });
  }

  poll();
})();
