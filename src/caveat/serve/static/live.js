// The live page: asks the service for v1/live every two seconds, shows the answer, and sends rows that are pasted or
// dropped. Nothing is sent anywhere else.

import { $, KINDS, clock, count, counted, listing, node, once, short } from "./draw.js";
import { render, verdictTable } from "./show.js";

const EVERY = 2000, PATIENCE = 10000, SENDING = 60000; // milliseconds
const ANSWERS = 200; // rows shown of an answer
const KEY = "caveat-key";
const MEDIA = { npz: "application/x-npz", npy: "application/x-npy", json: "application/json" };

let data = null; // the last answer of v1/live

// -- asking the service ----------------------------------------------------------------------------------------------

let key = null, timer = 0, round = 0, paused = false;
try { key = sessionStorage.getItem(KEY); } catch { /* storage is switched off: the key lives as long as the page */ }

async function ask(path, options = {}, patience = PATIENCE) {
  const control = new AbortController(), limit = setTimeout(() => control.abort(), patience);
  const headers = { ...options.headers, ...(key === null ? {} : { Authorization: `Bearer ${key}` }) };
  try {
    const response = await fetch(path, { ...options, headers, cache: "no-store", signal: control.signal });
    const content = await response.json().catch(() => null);
    return { status: response.status, ok: response.ok && content !== null, content };
  } catch {
    return null; // no connection, or too slow
  } finally {
    clearTimeout(limit);
  }
}

function problemOf(answer) {
  const sentence = answer.content && answer.content.error;
  return typeof sentence === "string" ? sentence : `The service answered with status ${answer.status}.`;
}

function refresh() {
  if (data === null) return;
  render(data, key !== null);
  showForm();
}

function show(state, text, notice = "") {
  $("state").dataset.state = state;
  once("state", text, () => text);
  once("notice", notice, () => (notice ? node("p", { class: "banner" }, notice) : []));
  $("content").classList.toggle("stale", state === "gone" || state === "key");
  const name = data === null ? "Guard" : data.name, alarmed = data !== null && data.alarms.length > 0;
  document.title = `${state === "gone" ? "No answer: " : alarmed ? "⚠ Alarm: " : ""}${name}`;
}

async function poll() {
  clearTimeout(timer);
  const mine = ++round;
  if (document.hidden || paused) return;
  const answer = await ask("v1/live");
  if (mine !== round) return; // a later round has begun
  if (answer !== null && [401, 403].includes(answer.status)) {
    askForKey(); // nothing is asked again until there is a key
    return;
  }
  if (answer !== null && answer.ok) {
    data = answer.content;
    if (!$("key-form").hidden) {
      $("key-form").hidden = true;
      $("name").focus();
    }
    $("updated").textContent = `updated ${clock(data.now)}`;
    refresh();
    show("live", "Live");
  } else {
    const why = answer === null ? "The service does not answer." : problemOf(answer);
    const since = data === null ? "" : ` The numbers below are from ${clock(data.now)}.`;
    show("gone", "No answer", `${why}${since} The page asks again every ${EVERY / 1000} seconds.`);
  }
  timer = setTimeout(poll, EVERY);
}

function setKey(value) {
  key = value;
  try {
    if (value === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, value);
  } catch { /* as above */ }
}

function askForKey() {
  const refused = key !== null;
  setKey(null);
  $("key-problem").hidden = !refused;
  $("key-form").hidden = false;
  show("key", "Key needed");
  if (document.activeElement === document.body || refused) $("key").focus();
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey($("key").value.trim() || null);
  $("key").value = "";
  poll();
});
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").textContent = paused ? "Resume" : "Pause";
  if (paused) show("paused", "Paused");
  poll();
});
document.addEventListener("visibilitychange", poll);
new ResizeObserver(() => requestAnimationFrame(refresh)).observe(document.body);

// -- try it ----------------------------------------------------------------------------------------------------------

let sending = false;

function showForm() {
  const fields = Object.entries(data.fields);
  // Rows of numbers can be pasted; images, inner layers and several passes come in a file.
  const typed = fields.length > 0 && fields.every(([name]) =>
    data.inputs.some((tensor) => tensor.name === name && tensor.shape.length <= 2));
  $("send").hidden = !typed;
  once("fields", data.fields, () => {
    if (!typed) return node("p", {}, `This guard reads ${listing(fields.map(([name]) => name))}: send a file.`);
    return fields.map(([name, width], i) => {
      const numbers = width === null ? "numbers" : counted(width, "number");
      return node("div", { class: "field" },
        node("label", { for: `field-${i}` }, `Paste ${name}: ${numbers} a row, one row per line`),
        node("textarea", {
          id: `field-${i}`, rows: 3, spellcheck: "false", autocomplete: "off", placeholder: "0.12, -1.5, 3.07, …",
        }));
    });
  });
}

// A row per line; where lines do not fit the width, every `width` numbers are a row (as numpy prints long rows).
function parseRows(text, name, width) {
  const words = text.split("\n").map((line) => line.split(/[\s,;[\]()]+/).filter(Boolean));
  const lines = words.filter((line) => line.length);
  if (!lines.length) throw new Error(`Paste at least one row of ${name}.`);
  const wrong = lines.flat().find((word) => !Number.isFinite(Number(word)));
  if (wrong !== undefined) throw new Error(`"${short(wrong, 12)}" is not a number.`);
  const rows = lines.map((line) => line.map(Number)), numbers = rows.flat();
  if (name === "confidence") return numbers; // one number per row, without columns
  const column = width === null && rows.every((row) => row.length === 1); // one row, written from top to bottom
  const wide = width || (column ? rows.length : rows[0].length);
  if (rows.every((row) => row.length === wide)) return rows;
  if (numbers.length % wide) {
    throw new Error(`${name} must have ${counted(wide, "number")} a row, got ${counted(numbers.length, "number")} in ` +
      `${counted(rows.length, "line")}.`);
  }
  return Array.from({ length: numbers.length / wide }, (_, i) => numbers.slice(i * wide, (i + 1) * wide));
}

function reply(text, rows = []) {
  $("answer").hidden = false;
  $("answer-text").textContent = text;
  $("answer-text").classList.remove("problem");
  $("answer-table").replaceChildren(...(rows.length ? [verdictTable(rows.slice(0, ANSWERS), false)] : []));
  $("answer").scrollIntoView({ block: "nearest" });
}

function refuse(text) {
  reply(text);
  $("answer-text").classList.add("problem");
}

async function send(body, type, what) {
  if (sending) return; // the button stays enabled: a disabled one would lose the focus
  sending = true;
  reply(`Sending ${what} …`);
  const answer = await ask("v1/verdicts", { method: "POST", body, headers: { "Content-Type": type } }, SENDING);
  sending = false;
  if (answer === null) {
    refuse("The service did not answer. Nothing is known about these rows; send them again.");
  } else if (!answer.ok) {
    refuse(problemOf(answer));
    if ([401, 403].includes(answer.status)) askForKey();
  } else {
    const rows = answer.content.verdicts;
    const kinds = KINDS.map((kind) => `${count(rows.filter((row) => row.kind === kind).length)} ${kind}`).join(", ");
    const rest = rows.length > ANSWERS ? ` The first ${ANSWERS} are shown.` : "";
    reply(`${counted(rows.length, "verdict")}: ${kinds}.${rest}`, rows);
    poll();
  }
}

function sendText() {
  try {
    const fields = Object.entries(data.fields);
    const content = Object.fromEntries(fields.map(([name, width], i) => {
      return [name, parseRows($(`field-${i}`).value, name, width)];
    }));
    const lengths = Object.values(content).map((rows) => rows.length);
    if (new Set(lengths).size > 1) {
      throw new Error(`All fields must have the same number of rows, got ${listing(lengths.map(String))}.`);
    }
    send(JSON.stringify(content), MEDIA.json, counted(lengths[0], "row"));
  } catch (error) {
    refuse(error.message);
  }
}

function sendFile(file) {
  const type = MEDIA[file.name.toLowerCase().split(".").at(-1)];
  if (type === undefined) refuse(`${short(file.name, 20)} is not a .npz, .npy or .json file.`);
  else send(file, type, short(file.name, 20));
}

$("try").addEventListener("submit", (event) => {
  event.preventDefault();
  sendText();
});
$("try").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("try").requestSubmit();
});
$("file").addEventListener("change", () => {
  if ($("file").files.length) sendFile($("file").files[0]);
  $("file").value = ""; // the same file can be chosen again
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault(); // a file that misses the card must not replace the page
    const here = $("drop").contains(event.target);
    $("drop").classList.toggle("over", kind === "dragover" && here);
    if (kind === "drop" && here && event.dataTransfer.files.length) sendFile(event.dataTransfer.files[0]);
  });
}

poll();
