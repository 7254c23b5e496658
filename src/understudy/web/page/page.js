// The label page. An answer shows the next row at once and is sent in the background: it waits in an outbox, which
// survives a reload or a closed tab, until the server has it on the disk. Its name makes it count once.
"use strict";

const AHEAD = 4;                       // rows held: the one shown, and those that follow
const RENEW = 60_000, AGAIN = 5_000;   // milliseconds: renew leases; look for rows that others gave back
const MANY = 10;                       // more classes than this are searched
const $ = id => document.getElementById(id);
const fine = matchMedia("(hover: hover) and (pointer: fine)");

let session, tab, outboxKey;
let queue = [];        // cards, the first is shown
let history = [];      // this person's answers, the last one last: {name, id, label, card}
let progress = null, agreement = null;
let shownAt = null, busy = false, again = false, failures = 0, stopped = false, timer = null, refused = "";

const unique = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), byte => byte.toString(16).padStart(2, "0")).join("");
const say = text => { $("status").textContent = text; };
const make = (tag, parts = {}, ...inner) => {
  const element = Object.assign(document.createElement(tag), parts);
  element.append(...inner);
  return element;
};

// ---- The outbox: one entry of the browser's storage for each event, so that tabs do not overwrite each other's.
let counter = 0;
const pending = () => Object.keys(localStorage).filter(key => key.startsWith(outboxKey)).sort();
const read = key => JSON.parse(localStorage.getItem(key));
function post(event) {
  const when = String(Date.now()).padStart(15, "0") + String(counter++).padStart(6, "0");
  localStorage.setItem(`${outboxKey}${when}-${event.name}`, JSON.stringify(event));
  if (failures) trouble();
  sync();
}

async function sync() {
  if (stopped) return;
  if (busy) { again = true; return; }
  busy = true; again = false;
  const keys = pending().slice(0, 50);
  const events = keys.map(read).filter(Boolean);  // another tab may just have sent one
  try {
    const response = await fetch("/api/sync", {
      method: "POST", headers: { "Content-Type": "application/json" }, credentials: "same-origin",
      body: JSON.stringify({
        book: session.book, annotator: session.annotator, tab, count: AHEAD, have: queue.map(card => card.id),
        events,
      }),
    });
    if (!response.ok) throw Object.assign(new Error(await response.text()), { status: response.status });
    take(await response.json(), keys, events);
    failures = 0;
  } catch (error) {
    failed(error);
  }
  busy = false;
  clearTimeout(timer);
  if (stopped) return;
  if (again || (!failures && pending().length)) return void sync();
  timer = setTimeout(sync, failures ? Math.min(500 * 2 ** failures, 10_000) : queue.length ? RENEW : AGAIN);
  trouble();
}

// The rows of a tab that is closed go back at once; answers that wait in the outbox stay there.
function leave() {
  const body = JSON.stringify({ book: session.book, annotator: session.annotator, tab, count: 0, have: [], events: [], leave: true });
  fetch("/api/sync", { method: "POST", headers: { "Content-Type": "application/json" }, keepalive: true, body }).catch(() => {});
}

function take(answer, keys, sent) {
  keys.forEach(key => localStorage.removeItem(key));
  const waiting = pending().map(read).filter(Boolean);
  answer.results.forEach((result, place) => {
    if (!result.kept) refused = `Not kept: ${result.why}`;
    // A row that was undone, unless it is here already or has been answered since.
    const since = [...sent.slice(place + 1), ...waiting], row = result.row;
    if (row && ![...queue, ...since].some(each => each.id === row.id)) bring(row);
  });
  const shown = queue[0];
  queue = queue.filter((card, place) => place === 0 || !answer.gone.includes(card.id));
  const given = new Set(waiting.map(event => event.id));
  for (const card of answer.rows) {
    if (!queue.some(other => other.id === card.id) && !given.has(card.id)) queue.push(card);
  }
  queue.slice(1).filter(card => card.image).forEach(card => { new Image().src = picture(card); });
  progress = answer.progress;
  if (queue[0] !== shown || !queue.length) show(); else facts();
}

function bring(card) {
  // A row that was undone comes first, and only once.
  const first = queue[0];
  queue = [card, ...queue.filter(other => other.id !== card.id)];
  if (first?.id !== card.id) show();
}

function failed(error) {
  if ([401, 403, 409].includes(error.status)) {
    stopped = true;
    trouble(error.status === 409 ? `This tab is out of date: ${error.message}. Reload it.`
      : "This page's key is not valid any more. Open the link that understudy label printed.");
  } else if (error.status === 400) {
    stopped = true;
    trouble("The server does not understand this page. Reload it.");
  } else failures = Math.min(failures + 1, 8);
}

function trouble(text) {
  const waiting = failures ? pending().length : 0;
  const unsent = waiting === 1 ? "1 answer waits here, and is sent when it does." : `${waiting} answers wait here, and are sent when it does.`;
  text ??= failures ? `The server does not answer. ${waiting ? unsent : "This page tries again by itself."}` : refused;
  if (stopped && !text) return;
  $("trouble").hidden = !text;
  $("trouble").textContent = text;
}

// ---- Answers
function answer(label, button) {
  const card = queue[0];
  if (!card || stopped) return;
  refused = "";
  const seconds = shownAt === null ? null : (performance.now() - shownAt) / 1000;
  const given = { name: unique(), id: card.id, label };
  history.push({ ...given, card });
  queue.shift();
  if (progress) { progress.mine++; progress.left = Math.max(0, progress.left - 1); }
  if (button && fine.matches) { button.classList.add("picked"); setTimeout(() => button.classList.remove("picked"), 140); }
  show();
  post({ ...given, seconds });
  say(`${label === null ? "Skipped" : `Answered ${label}`}. ${queue.length ? "Next row." : ""}`);
}

function undo() {
  const last = history.pop();
  if (!last || stopped) return;
  if (progress) { progress.mine--; progress.left++; }
  if (last.card) bring(last.card); else { $("content").setAttribute("aria-busy", "true"); facts(); }
  post({ name: unique(), undoes: last.name });
  say(`Undone: ${last.label === null ? "skip" : last.label}.`);
}

// ---- What is shown
const picture = card => `/image?id=${encodeURIComponent(card.id)}`;
// Marks that turn the direction of what follows are shown, not obeyed; so are control characters.
const SIGNS = { "\u202a": "LRE", "\u202b": "RLE", "\u202c": "PDF", "\u202d": "LRO", "\u202e": "RLO", "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI", "\u200e": "LRM", "\u200f": "RLM", "\u061c": "ALM", "\ufeff": "BOM", "\u200b": "ZWSP" };
function plainly(text) {
  return text.split(/([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff])/).filter(Boolean).map(part => {
    const code = part.codePointAt(0);
    if (!(part.length === 1 && (SIGNS[part] || code < 32 && part !== "\n" && part !== "\t" || code >= 127 && code < 160))) return part;
    if (part === "\r") return "";
    const sign = SIGNS[part] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    return make("span", { className: "sign", title: `invisible character U+${code.toString(16).toUpperCase().padStart(4, "0")}`, textContent: sign });
  });
}

function show() {
  const card = queue[0], content = $("content");
  content.replaceChildren();
  content.removeAttribute("aria-busy");
  $("id").textContent = card ? card.id : "";
  $("id").closest("p").hidden = !card;
  if (!card) content.append(note());
  else {
    if (card.image) content.append(image(card));
    if (card.text) {
      const pieces = card.text.flatMap(([text, marked]) => marked ? [make("mark", {}, ...plainly(text))] : plainly(text));
      const long = card.text.reduce((sum, [text]) => sum + text.length, 0) > 600;
      content.append(make("div", { className: long ? "text long" : "text", dir: "auto" }, ...pieces));
    }
    if (card.fields.length) content.append(make("table", { className: "fields" }, make("tbody", {}, ...card.fields.map(([name, value]) =>
      make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, ...plainly(name))), make("td", { dir: "auto" }, ...plainly(value)))))));
  }
  suggest(card);
  $("row").scrollTop = 0;
  if ($("search").value) { $("search").value = ""; list(); } else $("classes").scrollTop = 0;
  for (const button of document.querySelectorAll("#classes button, #skip")) button.disabled = !card;
  if (card && fine.matches && session.classes.length > MANY) $("search").focus({ preventScroll: true });
  else if (card && document.activeElement?.closest(".answer") === null) $("row").focus({ preventScroll: true });
  shownAt = document.hidden ? null : performance.now();
  facts();
}

function image(card) {
  const img = make("img", { alt: "Picture of this row", src: picture(card), decoding: "async" });
  img.addEventListener("load", () => img.classList.toggle("tiny", img.naturalWidth < 128 && img.naturalHeight < 128));
  img.addEventListener("error", () => img.replaceWith(make("p", { className: "note", textContent: "The picture of this row cannot be shown." })));
  return make("div", { className: "picture" }, img);
}

function suggest(card) {
  const given = card?.suggestion;
  $("suggestion").hidden = !given;
  if (!given) return;
  const sure = given.confidence === null || given.confidence === undefined ? "" : ` (${Math.round(given.confidence * 100)}%)`;
  $("suggestion").replaceChildren(`The ${given.by} suggests `, make("b", {}, make("bdi", { textContent: given.label })), sure);
}

function note() {
  if (!progress) return make("p", { className: "note", textContent: failures ? "" : "…" });
  if (progress.left > 0) return make("p", { className: "note" }, "Nothing for you at the moment.",
    make("small", { textContent: `${number(progress.left)} rows are with other people. If they do not answer them, you get them here.` }));
  const done = progress.finished >= progress.rows;
  return make("p", { className: "note" }, done ? "All rows are answered. Thank you." : "You have answered everything you can. Thank you.",
    make("small", { textContent: `${number(progress.mine)} answers are yours. You may still undo. If more rows come, they appear here.` }));
}

const number = value => value.toLocaleString("en");
function left(seconds) {
  if (seconds < 90) return `about ${Math.max(1, Math.round(seconds))} s left`;
  return seconds < 5400 ? `about ${Math.round(seconds / 60)} min left` : `about ${(seconds / 3600).toFixed(1)} h left`;
}
function facts() {
  const last = history.at(-1);
  $("undo").disabled = !last;
  $("last").replaceChildren(...(last ? ["Last: ", make("bdi", { textContent: last.label ?? "skipped" })] : []));
  if (!progress) return;
  $("bar").max = progress.rows || 1;
  $("bar").value = progress.finished;
  const lines = [`${number(progress.finished)} of ${number(progress.rows)} finished`, `${number(progress.left)} left${session.several ? " for you" : ""}`];
  if (session.several) lines.push(`${number(progress.mine)} yours`);
  if (progress.pace) lines.push(`${progress.pace < 10 ? progress.pace.toFixed(1) : Math.round(progress.pace)} s a row`);
  if (progress.pace && progress.left) lines.push(left(progress.pace * progress.left));
  if (agreement?.alpha !== null && agreement?.rows >= 10) lines.push(`agreement α ${agreement.alpha.toFixed(2)} on ${number(agreement.rows)} rows`);
  $("facts").replaceChildren(...lines.map(line => make("li", { textContent: line })));
}
async function agree() {
  try { agreement = await (await fetch("/api/agreement")).json(); facts(); } catch { /* repeated by the timer */ }
}

// ---- Classes, and the search among them
const folded = text => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
function matches() {
  const words = folded($("search").value).split(/\s+/).filter(Boolean);
  const rank = name => name.startsWith(words[0] ?? "") ? 0 : name.split(/[\s_\-/.]+/).some(part => part.startsWith(words[0])) ? 1 : 2;
  return session.classes.map((name, place) => [name, folded(name), place]).filter(([, plain]) => words.every(word => plain.includes(word)))
    .sort((one, other) => rank(one[1]) - rank(other[1]) || one[2] - other[2]).map(([name]) => name);
}
// Keys 1 to 9, and 0 for a tenth; classes that are called by digits have their own. Where digits can be a part of what
// is searched for, they are no keys.
function keyOf(name, place) {
  const { classes } = session;
  if (classes.every(each => /^[0-9]$/.test(each))) return name;
  if (classes.length > MANY) return place < 9 && !classes.some(each => /[0-9]/.test(each)) ? String(place + 1) : null;
  return place < 10 ? String((place + 1) % 10) : null;
}
let best = 0;
function list() {
  const names = matches(), many = session.classes.length > MANY, typed = $("search").value !== "";
  best = 0;
  const count = session.classes.length, longest = Math.max(...session.classes.map(name => name.length));
  const shape = many ? "many" : count === 2 ? "two" : count === 3 && longest < 10 ? "three" : count > 4 && longest < 4 ? "short" : "";
  $("classes").className = `classes ${shape} ${longest > 18 || (count === 3 && longest >= 10) ? "words" : ""}`;
  $("classes").replaceChildren(...names.map((name, place) => {
    const button = make("button", { type: "button", disabled: !queue.length }, make("bdi", {}, ...name.split(/(?<=[_/])/).flatMap(part => [part, make("wbr")]))), own = keyOf(name, place);
    if (own) { button.prepend(make("kbd", { textContent: own, ariaHidden: "true" })); button.setAttribute("aria-keyshortcuts", own); }
    button.addEventListener("click", () => { if (!button.disabled) answer(name, button); });
    return make("li", {}, button);
  }));
  $("found").textContent = many ? (typed ? `${names.length} of ${session.classes.length}` : `${session.classes.length}`) : "";
  prefer();
}
const buttons = () => [...$("classes").querySelectorAll("button")];
function prefer() {
  const typed = $("search").value !== "";
  buttons().forEach((button, place) => button.classList.toggle("first", typed && place === best));
  if (typed) buttons()[best]?.scrollIntoView({ block: "nearest" });
}

// ---- Keys
function key(event) {
  if (event.isComposing || $("guide").matches(":modal")) return;
  const searching = event.target === $("search");
  const undoing = (event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === "z" && !(searching && $("search").value);
  if (undoing) { event.preventDefault(); if (!event.repeat) undo(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const meant = event.key.length === 1 && buttons().find(button => button.getAttribute("aria-keyshortcuts") === event.key);
  if (meant && /[0-9]/.test(event.key)) { event.preventDefault(); if (!event.repeat) meant.click(); return; }
  if (searching) {
    if (event.key === "Enter") { event.preventDefault(); if ($("search").value && !event.repeat) buttons()[best]?.click(); }
    else if (event.key === "Escape") { if ($("search").value) { $("search").value = ""; list(); } $("row").focus(); event.preventDefault(); }
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      best = Math.max(0, Math.min(buttons().length - 1, best + (event.key === "ArrowDown" ? 1 : -1)));
      prefer();
    }
    return;
  }
  if (event.repeat) return;  // a key held down is one answer
  if (event.key === "s" || event.key === "S") answer(null);
  else if (event.key === "u" || event.key === "U") undo();
  else if ((event.key === "g" || event.key === "G") && session.guideline) guide();
  else if (event.key === "/" && !$("search-box").hidden) { event.preventDefault(); $("search").focus(); }
}
function guide() {
  if ($("guide").open) $("guide").close();
  else if (matchMedia("(min-width: 82rem)").matches) { $("guide").show(); $("row").focus(); }
  else $("guide").showModal();
}

async function begin() {
  const response = await fetch("/api/session").catch(() => null);
  if (!response?.ok) {
    if (response && response.status !== 503) return trouble("This page's key is not valid. Open the link that understudy label printed.");
    trouble("The server does not answer. This page tries again by itself.");
    return void setTimeout(begin, 2000);
  }
  session = await response.json();
  tab = sessionStorage.getItem("understudy-tab") ?? unique();
  sessionStorage.setItem("understudy-tab", tab);
  outboxKey = `understudy/${session.book}/${session.annotator}/`;
  const undone = new Set(pending().map(each => read(each)?.undoes));
  history = session.history.reverse().filter(each => !undone.has(each.name));
  document.title = `${session.title} · label`;
  $("title").textContent = session.title;
  $("who").textContent = session.annotator;
  $("guide-open").hidden = !session.guideline;
  $("search-box").hidden = session.classes.length <= MANY;
  list();
  document.addEventListener("keydown", key);
  $("search").addEventListener("input", list);
  $("skip").addEventListener("click", () => answer(null));
  $("undo").addEventListener("click", undo);
  $("guide-open").addEventListener("click", guide);
  $("guide-close").addEventListener("click", () => $("guide").close());
  addEventListener("online", sync);
  addEventListener("pagehide", leave);
  addEventListener("pageshow", event => { if (event.persisted) sync(); });
  document.addEventListener("visibilitychange", () => { if (document.hidden) shownAt = null; else sync(); });
  show();
  await sync();
  if (session.several) { agree(); setInterval(() => { if (!document.hidden) agree(); }, 15_000); }
}
begin();
