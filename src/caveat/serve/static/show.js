// What the live page says: tiles, tables, sentences, promises, the alarm, and what to send first.

import {
  $, KINDS, clock, count, counted, decimal, drawDrift, drawErrors, drawMinutes, drawPValues, duration, filled,
  hundredths, level, listing, node, once, outsideBand, percent, shape, short, sum, swatch,
} from "./draw.js";

const CLASSES = 8; // shown of a set
const FEW = 100; // rows whose histogram of p-values says little
let data = null; // what is shown: the last answer of v1/live

// -- tiles -----------------------------------------------------------------------------------------------------------

const promiseOf = (what) => data.promises.find((promise) => promise.what === what && promise.holds) || null;
const sure = (promise) => (promise.confidence === null ? "on average" : `${level(promise.confidence)} confidence`);
const lastHour = () => sum(KINDS.map((kind) => sum(data.minutes[kind])));

// Lines are text, or {note} for what must not be missed; null and false are left out.
function tile(id, { title, big, beside = null, lines, meter = null, cls = "" }) {
  $(id).className = `card tile ${cls}`;
  once(id, [title, big, beside, lines, meter], () => [
    node("h2", {}, title),
    node("p", { class: "big" }, big, ...(beside ? [" ", node("small", {}, beside)] : [])),
    meter === null ? null : shape("svg",
      { class: "meter", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      shape("rect", { class: "track", width: 100, height: 8 }),
      shape("rect", { class: "fill", width: 100 * meter, height: 8 })),
    ...lines.filter(Boolean).map((line) => (line.note ? node("p", { class: "note" }, line.note) : node("p", {}, line))),
  ]);
}

// Verdicts a minute, over the last five minutes or since the start.
function ratePerMinute() {
  const { minutes } = data, n = Math.min(5, minutes.accept.length), now = new Date(data.now).getTime();
  const begin = now - (now % 60000) - 60000 * (n - 1), started = new Date(data.started_at).getTime();
  const since = started - begin < 60000 ? Math.max(started, begin) : begin; // later: rows from before a restart
  const rows = sum(KINDS.map((kind) => sum(n ? minutes[kind].slice(-n) : [])));
  const words = since === begin ? `last ${counted(n, "minute")}` : `since ${clock(started)}`;
  return { rate: (60000 * rows) / Math.max(60000, now - since), words }; // the first minute is not extrapolated
}

function showRows() {
  const { rate, words } = ratePerMinute(), { queue } = data;
  tile("tile-rows", {
    title: "Verdicts",
    big: count(data.rows),
    lines: [
      `${count(Math.round(rate))} a minute, ${words}`,
      `queue: ${count(queue.depth)} of ${count(queue.limit)}`,
    ],
  });
}

function showOutliers() {
  const { rows, counts, minutes } = data, promise = promiseOf("false alarms"), recent = lastHour();
  const share = rows ? counts.outlier / rows : null;
  const lately = recent ? percent(sum(minutes.outlier) / recent) : "no verdicts";
  tile("tile-outliers", {
    title: "Called outliers",
    big: share === null ? "–" : percent(share),
    lines: [
      rows > 0 && `${count(counts.outlier)} of ${count(rows)}; last hour ${lately}`,
      promise === null ? "Nothing is promised." :
        `Promised: at most ${level(promise.bound)} of in-distribution inputs, ${sure(promise)}.`,
      promise !== null && share > promise.bound &&
        { note: `More than ${level(promise.bound)}: some inputs are out of distribution.` },
    ],
  });
}

function showErrors() {
  const live = data.live.error, promise = promiseOf("errors among the accepted"), broken = data.alarms.includes("risk");
  tile("tile-errors", {
    title: "Errors among the accepted",
    cls: broken ? "alarm" : "",
    big: live === null ? "No labels yet" : percent(live.rate),
    beside: live && `[${hundredths(live.lower)}, ${hundredths(live.upper)}]`,
    lines: [
      live && `${count(live.errors)} of ${counted(live.labels, "label")}; ${level(live.level)} confidence at all times`,
      live && live.missing > 0 && `${count(live.missing)} without a label`,
      live && live.assumption,
      broken && { note: `⚠ Alarm: above the promise${live ? `, at label ${count(live.alarmed_at)}` : ""}.` },
      promise === null ? "No error rate is promised." : `Promised: at most ${level(promise.bound)}, ${sure(promise)}.`,
      live === null && "Send labels to POST v1/labels when you know them.",
    ],
  });
}

function showDrift() {
  const { streams } = data.drift, rung = streams.filter((stream) => stream.alarmed_at !== null);
  const near = (stream) => stream.now / stream.line;
  const worst = (rung.length ? rung : streams).reduce((best, stream) => (near(stream) > near(best) ? stream : best));
  const ratio = near(worst), word = ratio >= 0.8 ? "Close to the alarm" : ratio >= 0.5 ? "Rising" : "Quiet";
  tile("tile-drift", {
    title: "Drift",
    cls: rung.length ? "alarm" : ratio >= 0.8 ? "warn" : "",
    big: rung.length ? "⚠ Alarm" : data.rows ? word : "–",
    beside: data.rows ? `${decimal(worst.now)} of ${decimal(worst.line)}` : null,
    meter: Math.min(1, Math.max(0, ratio)),
    lines: [
      rung.length > 0 &&
        { note: `${listing(rung.map((stream) => `${stream.label} at row ${count(stream.alarmed_at)}`))}.` },
      !rung.length && data.rows > 0 && `Strongest evidence (log10): ${worst.label}.`,
      worst.share_small === null ? `False-alarm rate ${level(data.drift.alpha)}, over all time.` :
        `p ≤ 0.05 in ${percent(worst.share_small)} of the last ${count(data.p_values.n)}; ` +
        "about 5\u00a0% if nothing changed.",
    ],
  });
}

// -- tables and sentences --------------------------------------------------------------------------------------------

// Heads are [text, class]; cells are a text or a node, or [content, label on a phone].
// Roles are named, because the phone layout takes the display of a table away.
function table(cls, heads, rows) {
  const head = heads.map(([text, kind = null]) => node("th", { role: "columnheader", class: kind }, text));
  const body = rows.map((row) => node("tr", { role: "row" }, ...row.map((cell, i) => {
    const [content, label = null] = Array.isArray(cell) ? cell : [cell];
    return node("td", { role: "cell", class: heads[i][1] || null, "data-label": label }, content);
  })));
  return node("table", { class: cls, role: "table" },
    node("thead", { role: "rowgroup" }, node("tr", { role: "row" }, ...head)),
    node("tbody", { role: "rowgroup" }, ...body));
}

function showNumbers() {
  const { counts, minutes, rows } = data, recent = lastHour();
  once("verdicts-table", [counts, KINDS.map((kind) => sum(minutes[kind]))], () => table(
    "numbers", [["Verdict"], ["Rows", "number"], ["Share", "number"], ["Last hour", "number"]],
    KINDS.map((kind) => [
      swatch(kind, shape("rect", { ...filled(kind), width: 26, height: 10 })), count(counts[kind]),
      rows ? percent(counts[kind] / rows) : "–", recent ? percent(sum(minutes[kind]) / recent) : "–",
    ]),
  ));
  const streams = data.drift.streams.map((stream) => ({ ...stream, rows: null, log10_e: null }));
  once("drift-table", [streams, rows > 0], () => table(
    "numbers", [["Stream"], ["Now", "number"], ["Highest", "number"], ["p ≤ 0.05", "number"], ["Alarm", "number"]],
    streams.map((stream, i) => [
      swatch(stream.label, shape("path", { class: `line slot-${i + 1}`, d: "M0 5H26" })),
      rows ? decimal(stream.now) : "–", rows ? decimal(stream.highest) : "–",
      stream.share_small === null ? "–" : percent(stream.share_small),
      stream.alarmed_at === null ? "no" : `⚠ row ${count(stream.alarmed_at)}`,
    ]),
  ));
}

function showCaptions() {
  $("drift-cap").textContent = `log10, n = ${count(data.rows)}. A stream like the calibration data ever reaches a ` +
    `line with probability ${level(data.drift.alpha)} at most. Drift never changes a verdict.`;
  const bars = data.p_values, outside = outsideBand(bars).filter(Boolean).length;
  const none = bars.n < FEW ? "No bar is outside, but so few rows say little." :
    "No bar is outside: the inputs look like the calibration data.";
  const look = outside === 0 ? none :
    `${outside === 1 ? "1 bar is" : `${outside} bars are`} outside, framed: the inputs do not look like the ` +
    "calibration data.";
  $("p-cap").textContent = bars.n === 0 ? "" : `Last ${counted(bars.n, "row")}. ${look} ` +
    `Between the dashed lines: what chance allows all ${bars.counts.length} bars at one look, ${level(bars.level)} ` +
    "confidence.";
  const { error, coverage } = data.live, promise = promiseOf("errors among the accepted");
  const band = error === null ?
    `Labels that come later show ${promise === null ? "the error rate" : "whether the promise is kept"}: ` +
    "POST v1/labels with the id of each verdict." :
    `Band: where the error rate lies with ${level(error.level)} confidence, at all times at once.`;
  const sets = coverage === null ? "" : ` Sets hold the true class in ${percent(coverage.rate)} ` +
    `[${hundredths(coverage.lower)}, ${hundredths(coverage.upper)}] of ${counted(coverage.labels, "labeled row")}` +
    (coverage.promised === null ? "." : `; promised: at least ${level(coverage.promised)}.`);
  $("live-cap").textContent = band + sets;
}

function showPromises() {
  const drift = data.alarms.some((name) => name !== "risk"), risk = data.alarms.includes("risk");
  once("promises", [data.promises, data.alarms], () => data.promises.map((promise) => {
    const broken = promise.what === "errors among the accepted" && risk;
    const kept = drift ? ["?", "In doubt: "] : ["✓", ""];
    const [mark, word] = !promise.holds ? ["–", ""] : broken ? ["✗", "Broken: "] : kept;
    const sentence = promise.sentence.replace(/n = (\d)/, "n\u00a0=\u00a0$1");
    return node("li", { class: mark === "✓" ? null : "not" },
      node("span", { class: "mark", "aria-hidden": "true" }, mark),
      node("span", {}, node("span", { class: "word" }, word), sentence));
  }));
  const made = data.promises.filter((promise) => promise.holds);
  const assumptions = [...new Set(made.map((promise) => promise.assumption))].join("; ");
  $("promises-cap").textContent = (assumptions && `Assumption: ${assumptions}. `) +
    (drift ? "The drift alarm says that this no longer holds. " : "") + "Nothing is promised about outliers.";
}

const setOf = (labels) => {
  const rest = labels.length > CLASSES ? `, … ${labels.length} classes` : "";
  return `{${labels.slice(0, CLASSES).join(", ")}${rest}}`;
};
const pValue = (value) => (value === null ? "–" : value < 0.0001 ? "<0.0001" : value.toPrecision(2));

export function verdictTable(rows, timed) {
  const heads = ["Id", "Verdict", "Class", "Set", "p", "Reason"].map((name) => [name, name.toLowerCase()]);
  if (timed) heads.unshift(["Time", "time"]);
  return table("verdicts", heads, rows.map((row) => {
    const cells = [
      node("span", { title: row.id }, short(row.id, 10)),
      node("span", { class: `pill ${KINDS.includes(row.kind) ? row.kind : ""}` }, row.kind),
      [row.prediction === null ? "–" : String(row.prediction_name ?? row.prediction), "class"],
      [row.set === null ? "–" : setOf(row.set_names ?? row.set), "set"],
      [pValue(row.p_value), "p"],
      row.reason,
    ];
    return timed ? [node("time", { datetime: row.at, title: row.at }, clock(row.at)), ...cells] : cells;
  }));
}

// -- the whole page --------------------------------------------------------------------------------------------------

// Show an answer of v1/live. `keyed`: whether the service asks for a key.
export function render(answer, keyed) {
  data = answer;
  $("content").hidden = false;
  $("name").textContent = data.name.toLowerCase() === "guard" ? "Guard" : `Guard: ${data.name}`;
  showFacts();
  showAlarm();
  $("empty").hidden = data.rows > 0;
  if (!data.rows) showStart(keyed);
  for (const show of [showRows, showOutliers, showErrors, showDrift, showNumbers, showCaptions, showPromises]) show();
  drawMinutes("plot-verdicts", data);
  drawDrift("plot-drift", data);
  drawPValues("plot-p", data);
  drawErrors("plot-live", data);
  once("last", data.last, () => {
    return data.last.length ? verdictTable(data.last, true) : node("p", { class: "quiet" }, "No verdicts yet.");
  });
}

function showFacts() {
  const { audit } = data, rows = Math.max(0, ...data.promises.map((promise) => promise.n));
  const code = (digest) => node("code", { title: digest }, short(digest, 4));
  once("facts", [audit, duration(data.started_at, data.now), data.calibrated_at, data.version], () => [
    [`calibrated ${data.calibrated_at} on ${counted(rows, "row")}`],
    ["guard ", code(data.fingerprint)],
    audit.kind === "none" ? ["no audit trail"] : [`audit: ${counted(audit.records, "record")} (${audit.kind}), chain `,
      code(audit.digest), `, verified from record ${count(audit.verified_from)}`],
    [`up ${duration(data.started_at, data.now)}`],
    [`caveat ${data.version}`],
  ].flatMap((part) => [node("span", {}, ...part), " "]));
}

function showAlarm() {
  const streams = data.drift.streams.filter((stream) => stream.alarmed_at !== null), live = data.live.error;
  const changed = listing(streams.map((stream) => `${stream.label} (row ${count(stream.alarmed_at)})`));
  const lines = streams.length ? [`${changed} changed`] : [];
  if (data.alarms.includes("risk")) {
    lines.push(`errors among the accepted passed the promise${live ? ` (label ${count(live.alarmed_at)})` : ""}`);
  }
  const meaning = streams.length ?
    "The inputs no longer look like the calibration data, so the promises may not hold." :
    "The promised error rate is not kept.";
  once("alarm", lines, () => (!lines.length ? [] : node("div", { class: "banner alarm" },
    node("h2", {}, `Alarm: ${lines.join("; ")}`),
    node("p", {}, `${meaning} Verdicts are given as before. Look at the last verdicts, collect labels, and calibrate ` +
      "again if the change stays. The alarm stays on; without a change it would ever ring with probability " +
      `${level(data.drift.alpha)} at most.`))));
}

// What to send when nothing has come yet.
function showStart(keyed) {
  const fields = Object.entries(data.fields), [name, width] = fields[0] || ["features", null];
  const inline = fields.length === 1 && width !== null && width <= 12;
  const secret = !keyed ? "" : ' -H "Authorization: Bearer $CAVEAT_SERVE_KEY"';
  const body = inline ? `"Content-Type: application/json" -d '{"${name}": [[${Array(width).fill(0).join(", ")}]]}'` :
    '"Content-Type: application/x-npz" --data-binary @rows.npz';
  $("empty-command").textContent = `curl${secret} -H ${body} ${new URL("v1/verdicts", location.href).href}`;
  const shapes = fields.map(([field, wide]) => `${field} has shape (n, ${wide === null ? "…" : wide})`);
  $("empty-text").textContent = inline ?
    `Send a row of ${name}, ${counted(width, "number")}, from a terminal, or use "Try it" below:` :
    `Write rows.npz in Python: numpy.savez("rows.npz", ${fields.map(([field]) => `${field}=${field}`).join(", ")}), ` +
    `where ${listing(shapes)}. Then send it from a terminal, or drop it on "Try it" below:`;
}
