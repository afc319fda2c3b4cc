// Elements, words and figures of the live page. Figures are plain SVG, drawn in pixels of the screen, so that their
// text has the same size on a phone. What comes from the service is only ever set as text, never as markup.

export const KINDS = ["accept", "abstain", "outlier"];
const MINUTES = 60;
const TOP = 10; // log10; evidence beyond it says no more
const NARROW = 420; // pixels; a narrower figure has no label below its axis
export const $ = (id) => document.getElementById(id);

// -- elements --------------------------------------------------------------------------------------------------------

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function node(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

const drawn = new Map(); // part of the page -> what it shows: unchanged parts keep selection and focus

// Fill a part of the page with what `draw` gives, unless it shows this value already.
export function once(id, value, draw) {
  const text = JSON.stringify(value);
  if (drawn.get(id) === text) return;
  drawn.set(id, text);
  $(id).replaceChildren(...[draw()].flat().filter((child) => child !== null));
}

// The mark of a kind of verdict; outliers are hatched, so that kinds differ by more than color.
export const filled = (kind) => (kind === "outlier" ? { fill: "url(#hatch)" } : { class: kind });

export function swatch(text, mark) {
  return node("span", {}, shape("svg", { class: "swatch", viewBox: "0 0 26 10", "aria-hidden": "true" }, mark), text);
}

// -- words and numbers -----------------------------------------------------------------------------------------------

export const sum = (values) => values.reduce((total, value) => total + value, 0);
export const count = (n) => n.toLocaleString("en-US");
export const counted = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
export const decimal = (value, digits = 2) => (value === null ? "–" : value.toFixed(digits).replace("-", "−"));

// Per cent of a share, without the sign; a share that is not an end is never rounded to it.
export function hundredths(share) {
  if (share > 0 && share < 0.0005) return "<0.1";
  if (share < 1 && share >= 0.9995) return ">99.9";
  return (100 * share).toFixed(1);
}

export const percent = (share) => `${hundredths(share)}\u00a0%`;
export const level = (share) => `${Number((100 * share).toPrecision(4))}\u00a0%`; // as someone chose it

export function listing(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

export function short(text, ends) {
  return text.length <= 2 * ends + 1 ? text : `${text.slice(0, ends)}…${text.slice(-ends)}`;
}

// Time of the reader's clock; with the day where that is not today.
export function clock(time, seconds = true) {
  const at = new Date(time), style = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  if (seconds) style.second = "2-digit";
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.toLocaleDateString("en-CA")} `;
  return day + at.toLocaleTimeString("en-GB", style);
}

export function duration(from, to) {
  const minutes = Math.max(0, Math.floor((new Date(to) - new Date(from)) / 60000));
  const [days, hours] = [Math.floor(minutes / 1440), Math.floor(minutes / 60)];
  if (days) return `${days} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  return minutes ? `${minutes} min` : "less than a minute";
}

// -- axes ------------------------------------------------------------------------------------------------------------

function ticks(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const values = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) {
    values.push(Number((i * step).toPrecision(12)));
  }
  return values;
}

const wholeTicks = (low, high, most) => ticks(low, high, most).filter(Number.isInteger);

// Ticks of an axis that counts rows, as [place, text, anchor]; those at the ends stay inside.
function countTicks(low, high, width) {
  const near = (tick, end) => Math.abs(tick - end) < 0.06 * (high - low);
  return wholeTicks(low, high, width < NARROW ? 2.5 : 5).map((tick) => {
    return [tick, count(tick), near(tick, high) ? "end" : near(tick, low) ? "start" : "middle"];
  });
}

// Draw a figure again when its value or its width has changed. `plan(width)` gives axes, text alternative and content.
function chart(id, value, plan) {
  const width = Math.max(240, $(id).clientWidth);
  once(id, [value, width], () => {
    const { x, y, label, draw, height = 186, left = 46, right = 10, top = 12, bottom = 34 } = plan(width);
    const svg = shape("svg", {
      class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label,
    });
    const at = (pixels) => pixels.toFixed(1);
    const px = (v) => left + ((v - x.low) / (x.high - x.low)) * (width - left - right);
    const py = (v) => height - bottom - ((v - y.low) / (y.high - y.low)) * (height - top - bottom);
    const add = (tag, attributes, ...children) => svg.appendChild(shape(tag, attributes, ...children));
    const text = (tx, ty, words, anchor = "start", cls = null) => {
      return add("text", { x: at(tx), y: at(ty), "text-anchor": anchor, class: cls }, words);
    };
    const rule = (value, cls) => add("path", { class: cls, d: `M${left} ${at(py(value))}H${width - right}` });
    const curve = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${at(px(a))} ${at(py(b))}`).join("");
    const block = (attributes, x1, y1, x2, y2, ...children) => add("rect", {
      ...attributes, x: at(px(x1)), y: at(py(y2)), width: at(px(x2) - px(x1)), height: at(py(y1) - py(y2)),
    }, ...children);
    for (const tick of y.ticks) {
      rule(tick, tick === 0 ? "axis" : "gridline");
      text(left - 7, py(tick) + 4, y.write(tick), "end");
    }
    for (const [place, words, anchor = "middle"] of x.ticks) text(px(place), height - bottom + 17, words, anchor);
    if (x.label && width >= NARROW) text((left + width - right) / 2, height - 1, x.label, "middle");
    draw({ add, text, rule, curve, block, px, py, at, left, right, width, height });
    return svg;
  });
}

function nothing(id, words) {
  chart(id, words, (width) => ({
    x: { low: 0, high: 1, ticks: [] }, y: { low: 0, high: 1, ticks: [0], write: () => "" },
    height: 110, left: 0, right: 0, bottom: 12, label: words,
    draw: (plot) => plot.text(width / 2, plot.height / 2, words, "middle", "none"),
  }));
}

const below = (width) => (width < NARROW ? 22 : 34); // room for the label of the axis

// -- figures ---------------------------------------------------------------------------------------------------------

export function drawMinutes(id, data) {
  const { minutes } = data, n = minutes.accept.length;
  const totals = minutes.accept.map((_, i) => sum(KINDS.map((kind) => minutes[kind][i])));
  const highest = Math.max(0, ...totals);
  if (!highest) return nothing(id, data.rows ? "No verdicts in the last hour" : "No verdicts yet");
  const inAll = KINDS.map((kind) => `${count(sum(minutes[kind]))} ${kind}`).join(", ");
  const start = new Date(minutes.start).getTime();
  return chart(id, minutes, () => ({
    x: { low: -MINUTES, high: 0, ticks: [[-MINUTES, "60 min ago", "start"], [-30, "30"], [0, "now", "end"]] },
    y: { low: 0, high: 1.08 * highest, ticks: wholeTicks(0, 1.08 * highest, 4), write: count },
    label: `Verdicts per minute. Last ${counted(n, "minute")}: ${inAll}; at most ${count(highest)} a minute.`,
    height: 232, bottom: 22,
    draw: (plot) => totals.forEach((total, i) => {
      if (!total) return;
      let base = 0;
      for (const kind of KINDS) {
        const rows = minutes[kind][i];
        if (rows) plot.block(filled(kind), i - n + 0.12, base, i - n + 0.88, base + rows);
        base += rows;
      }
      const words = KINDS.map((kind) => `${count(minutes[kind][i])} ${kind}`).join(", ");
      plot.block({ class: "hover" }, i - n, 0, i - n + 1, 1.08 * highest,
        shape("title", {}, `${clock(start + 60000 * i, false)}: ${words}`));
    }),
  }));
}

export function drawDrift(id, data) {
  const { streams } = data.drift, rows = streams.flatMap((stream) => stream.rows);
  if (!rows.length) return nothing(id, "No verdicts yet");
  const values = streams.flatMap((stream) => stream.log10_e.filter((value) => value !== null));
  const { line } = streams[0], [first, last] = [Math.min(...rows) - 1, Math.max(...rows)];
  const low = Math.min(-1, 1.06 * Math.min(...values));
  const high = Math.min(TOP, Math.max(1.35 * line, 1.06 * Math.max(...values)));
  const inside = (value) => Math.min(high, Math.max(low, value === null ? low : value));
  const words = streams.map((stream) => {
    const rung = stream.alarmed_at === null ? "" : `, alarm at row ${count(stream.alarmed_at)}`;
    return `${stream.label}: now ${decimal(stream.now)}, highest ${decimal(stream.highest)}${rung}`;
  });
  return chart(id, streams, (width) => ({
    x: { low: first, high: last, ticks: countTicks(first, last, width), label: "Row" },
    y: {
      low, high, ticks: wholeTicks(low, high, 5),
      write: (value) => (value === TOP ? `≥${TOP}` : decimal(value, 0)),
    },
    label: `Evidence for drift over ${counted(last - first, "row")}, log10; the alarm line is at ${decimal(line)}. ` +
      `${words.join("; ")}.`,
    bottom: below(width),
    draw: (plot) => {
      plot.rule(line, "cut");
      plot.text(plot.left + 4, plot.py(line) - 6, `alarm at ${decimal(line)}`, "start", "strong");
      streams.forEach((stream, i) => {
        const points = stream.rows.map((row, j) => [row, inside(stream.log10_e[j])]);
        plot.add("path", { class: `line slot-${i + 1}`, d: plot.curve(points) });
      });
      for (const stream of streams) {
        if (stream.alarmed_at === null || stream.alarmed_at <= first) continue;
        const [x, y] = [plot.px(stream.alarmed_at), plot.py(line) - 8];
        plot.add("path", { class: "rung", d: `M${plot.at(x)} ${plot.at(y)}l7 13h-14z` },
          shape("title", {}, `${stream.label}: alarm at row ${count(stream.alarmed_at)}`));
      }
    },
  }));
}

export const outsideBand = (bars) => bars.counts.map((n, i) => n < bars.least[i] || n > bars.most[i]);

export function drawPValues(id, data) {
  const bars = data.p_values, { edges } = bars;
  if (!bars.n) return nothing(id, "No verdicts yet");
  const high = 1.08 * Math.max(...bars.counts, ...bars.most), outside = outsideBand(bars);
  const words = bars.counts.map((n, i) => `${n}${outside[i] ? " (outside)" : ""}`).join(", ");
  return chart(id, bars, (width) => ({
    x: {
      low: 0, high: 1, ticks: [[0, "0", "start"], [0.25, "0.25"], [0.5, "0.5"], [0.75, "0.75"], [1, "1", "end"]],
      label: "P-value (small: unlike the calibration data)",
    },
    y: { low: 0, high, ticks: wholeTicks(0, high, 4), write: count },
    label: `Histogram of the last ${counted(bars.n, "p-value")} in ${bars.counts.length} bars from 0 to 1. ` +
      `Rows in each: ${words}.`,
    bottom: below(width),
    draw: (plot) => {
      const steps = (ends) => ends.flatMap((end, i) => [[edges[i], end], [edges[i + 1], end]]);
      plot.add("path", { class: "band", d: `${plot.curve([...steps(bars.most), ...steps(bars.least).reverse()])}Z` });
      bars.counts.forEach((n, i) => {
        const gap = 0.08 * (edges[i + 1] - edges[i]);
        plot.block({ class: outside[i] ? "bar outside" : "bar" }, edges[i] + gap, 0, edges[i + 1] - gap, n);
      });
      for (const ends of [bars.least, bars.most]) plot.add("path", { class: "edge", d: plot.curve(steps(ends)) });
      bars.counts.forEach((n, i) => {
        const allowed = `chance allows ${count(bars.least[i])} to ${count(bars.most[i])}`;
        plot.block({ class: "hover" }, edges[i], 0, edges[i + 1], high, shape("title", {},
          `p ${edges[i].toFixed(2)} to ${edges[i + 1].toFixed(2)}: ${counted(n, "row")}; ${allowed}`));
      });
    },
  }));
}

export function drawErrors(id, data) {
  const live = data.live.error;
  if (live === null) return nothing(id, "No labels yet");
  const { labels, rate, lower, upper } = live.path, last = Math.max(2, labels.at(-1));
  const settled = Math.min(labels.at(-1), Math.max(20, 0.1 * last)); // the first labels would set the scale
  const widest = Math.max(...upper.filter((_, i) => labels[i] >= settled));
  const high = Math.min(1, 1.05 * Math.max(widest, 1.3 * (live.promised || 0), 0.01));
  const points = (values) => values.map((value, i) => [labels[i], Math.min(high, value)]);
  return chart(id, live, (width) => ({
    x: { low: 0, high: last, ticks: countTicks(0, last, width), label: "Accepted rows with a label" },
    y: { low: 0, high, ticks: ticks(0, high, 4), write: (value) => `${Number((100 * value).toPrecision(3))}\u00a0%` },
    label: `Error among the accepted after ${counted(live.labels, "label")}: ${percent(live.rate)}, between ` +
      `${percent(live.lower)} and ${percent(live.upper)} with ${level(live.level)} confidence.`,
    bottom: below(width), left: 52,
    draw: (plot) => {
      plot.add("path", { class: "area", d: `${plot.curve([...points(upper), ...points(lower).reverse()])}Z` });
      plot.add("path", { class: "line slot-1", d: plot.curve(points(rate)) });
      const [x, y] = points(rate).at(-1);
      plot.add("circle", { class: "accept", cx: plot.at(plot.px(x)), cy: plot.at(plot.py(y)), r: 4 });
      if (live.promised === null) return;
      plot.rule(live.promised, "cut");
      plot.text(plot.width - plot.right - 4, plot.py(live.promised) - 6, `promised: at most ${level(live.promised)}`,
        "end", "strong");
    },
  }));
}
