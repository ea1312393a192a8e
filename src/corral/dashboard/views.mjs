// What `overview` answers as trees: queues below their cohorts, clusters, placements, jobs as a list or on a line of time. Knows no browser.

import { el } from "./tree.mjs";

const STATES = { pending: ["waits", "wait"], quotaReserved: ["has quota, waits for a check", "wait"], admitted: ["admitted", "good"], finished: ["finished", "muted"] };
const SCALE = 1000;

export function span(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 120) return `${whole}s`;
  if (whole < 7200) return `${Math.floor(whole / 60)}m`;
  return whole < 172800 ? `${Math.floor(whole / 3600)}h` : `${Math.floor(whole / 86400)}d`;
}

export const age = (created, now) => span((now - Date.parse(created)) / 1000);

const BINARY = ["Ki", "Mi", "Gi", "Ti", "Pi"];

export function amount(text) {
  const found = /^([0-9.]+)(Ki|Mi|Gi|Ti|m)?$/.exec(text ?? "");
  if (!found) return `${text}`;
  if (found[2] === "m") return `${Number(found[1]) / 1000}`;
  let value = Number(found[1]), at = BINARY.indexOf(found[2]);
  if (at < 0) return found[1];
  for (; value >= 1024 && at < BINARY.length - 1; at += 1) value /= 1024;
  return `${Number(value.toFixed(1))}${BINARY[at]}`;
}

const short = (resource) => resource.split("/").pop();

export const times = (job, now) => {
  const [created, started, ended] = [job.created, job.started, job.ended].map((text) => (text ? Date.parse(text) : NaN));
  const over = Number.isNaN(ended) ? now : ended;
  return { created, started, ended, waited: ((Number.isNaN(started) ? over : started) - created) / 1000, ran: (over - started) / 1000 };
};

export function bar(label, used, whole, share, title, note = "") {
  const text = `${amount(used)} of ${amount(whole)}${note}`;
  return el("div", { class: share > 1 ? "quota over" : "quota", title },
    el("span", {}, label), el("progress", { max: 1, value: Math.min(1, share ?? 0), "aria-label": `${title}: ${text}` }), el("span", { class: "number" }, text));
}

function quotas(list) {
  const flavors = new Set(list.map((entry) => entry.flavor));
  return list.map((entry) => bar(flavors.size > 1 ? `${short(entry.resource)} (${entry.flavor})` : short(entry.resource), entry.used, entry.quota, entry.share,
    `${entry.resource} of ${entry.flavor}`, entry.borrowed !== "0" ? `, ${amount(entry.borrowed)} borrowed` : ""));
}

function queueCard(queue) {
  const about = [queue.active ? el("span", { class: "good" }, "active") : el("span", { class: "bad" }, `not active: ${queue.message}`), ` · ${queue.pending} waiting · ${queue.admitted} admitted`];
  if (queue.weightedShare) about.push(` · weighted share ${queue.weightedShare}`);
  return el("section", { class: "card", "data-key": queue.name }, el("h3", {}, queue.name), el("div", {}, about),
    el("div", { class: "muted" }, queue.localQueues.length ? `fed by ${queue.localQueues.join(", ")}` : "no LocalQueue feeds it"), quotas(queue.quotas));
}

function cohortPart(cohort, queues) {
  return el("section", { class: `cohort depth${Math.min(cohort.depth, 4)}`, "data-key": `cohort ${cohort.name}` },
    el("h3", {}, `cohort ${cohort.name}`, el("span", { class: "muted" }, cohort.parent ? ` below ${cohort.parent}, together` : " together")),
    el("div", { class: "sums" }, quotas(cohort.quotas)), queues.length ? el("div", { class: "cards" }, queues.map(queueCard)) : null);
}

function queueParts(state) {
  if (!state.queues.length) return el("p", { class: "muted" }, "There is no ClusterQueue that you may see; `corral queue create` makes one.");
  const known = new Set(state.cohorts.map((cohort) => cohort.name)), alone = state.queues.filter((queue) => !known.has(queue.cohort));
  return [alone.length ? el("div", { class: "cards", "data-key": "alone" }, alone.map(queueCard)) : null,
    state.cohorts.map((cohort) => cohortPart(cohort, state.queues.filter((queue) => queue.cohort === cohort.name)))];
}

export function table(headers, rows) {
  const labelled = (cell, at) => { const made = cell?.tag === "td" ? cell : el("td", {}, cell); return { ...made, attributes: { "data-label": headers[at].label ?? headers[at], ...made.attributes } }; };
  return el("table", {}, el("thead", {}, el("tr", {}, headers.map((header) => header.node ?? el("th", { scope: "col" }, header)))),
    el("tbody", {}, rows.map((cells) => el("tr", cells.key ? { "data-key": cells.key } : {}, cells.map(labelled)))));
}

export const clusterAddress = (name) => `#@${encodeURIComponent(name)}`;

function capacity(one, known) {
  if (known?.has) return [Object.entries(known.has).map(([resource, whole]) => bar(short(resource), one.used[resource] ?? "0", whole, ratio(one.used[resource] ?? "0", whole), resource)),
    known.ready < known.nodes ? el("div", { class: "bad" }, `${known.nodes - known.ready} of ${known.nodes} nodes not ready`) : null];
  const used = Object.entries(one.used).filter(([resource]) => resource !== "pods").map(([resource, text]) => `${amount(text)} ${short(resource)}`);
  return [used.join(", "), known?.unknown ? el("div", { class: "muted" }, known.unknown) : null];
}

export function ratio(part, whole) {
  const [a, b] = [part, whole].map((text) => { const found = /^([0-9.]+)([a-zA-Z]*)$/.exec(text) ?? [0, "0", ""]; const at = BINARY.indexOf(found[2]);
    return Number(found[1]) * (found[2] === "m" ? 0.001 : at < 0 ? { k: 1e3, M: 1e6, G: 1e9, T: 1e12 }[found[2]] ?? 1 : 1024 ** (at + 1)); });
  return b ? a / b : 0;
}

function clusters(list, capacities) {
  return table(["Cluster", "State", "Runs", "Asked for", "In use"], list.map((one) => Object.assign([
    el("td", {}, el("a", { href: clusterAddress(one.name) }, one.name)),
    el("td", { class: one.active ? "good" : "bad" }, one.active ? "connected" : `not connected: ${one.message}`), `${one.running}`, `${one.asked}`,
    el("td", { class: "bars" }, el("div", { class: "sums" }, capacity(one, capacities[one.name])))], { key: one.name })));
}

function members(list, now) {
  return table(["Member", "State", "Last seen", "Free"], list.map((one) => [
    one.name, el("td", { class: one.joined ? "good" : "bad" }, (one.joined ? "joined" : "not joined") + (one.taints.length ? `, tainted: ${one.taints.join(", ")}` : "")),
    one.seen ? `${age(one.seen, now)} ago` : "never", Object.entries(one.available).map(([name, text]) => `${name} ${amount(text)}`).join(", ")]));
}

function placements(list) {
  return table(["Placement", "Clusters", "State", "Message"], list.map((one) => [
    one.namespace ? `${one.namespace}/${one.name}` : one.name, one.clusters.join(", ") || "none yet",
    el("td", { class: one.state === "Available" ? "good" : "wait" }, one.state), one.message]));
}

export const jobAddress = (job) => `#${encodeURIComponent(`${job.namespace}/${job.workload}`)}`;
export const needed = (needs) => Object.entries(needs ?? {}).map(([resource, text]) => (resource === "memory" ? amount(text) : `${amount(text)} ${short(resource)}`)).join(", ");
const stateOf = (job) => (job.failed ? ["failed", "bad"] : job.stopped && job.state !== "finished" ? ["stopped", "muted"] : STATES[job.state]);

export function timeline(job, from, now) {
  const { created, started, ended, waited, ran } = times(job, now), until = Math.max(now, from + 1000);
  const at = (moment) => Math.max(0, Math.min(SCALE, Math.round((SCALE * (moment - from)) / (until - from))));
  const piece = (kind, begin, end) => el("rect", { class: kind, x: at(begin), y: 2, width: Math.max(2, at(end) - at(begin)), height: 12 });
  const over = Number.isNaN(ended) ? now : ended, runs = !Number.isNaN(started);
  return el("svg", { class: "line", viewBox: `0 0 ${SCALE} 16`, preserveAspectRatio: "none", role: "img" },
    el("title", {}, `waited ${span(waited)}${runs ? `, ${Number.isNaN(ended) ? "runs for" : "ran"} ${span(ran)}` : ""}`),
    piece("queued", created, runs ? started : over), runs ? piece(job.failed ? "ran failed" : "ran", started, over) : null);
}

export function starts(job, now, forecast) {
  if (!forecast || !["pending", "quotaReserved"].includes(job.state) || job.stopped) return "";
  const seconds = forecast.starts[`${job.namespace}/${job.kind}/${job.name}`];
  if (seconds === undefined) return job.created > forecast.at ? "" : `not in ${span(forecast.aheadSeconds)}`;
  const left = seconds - (now - Date.parse(forecast.at)) / 1000;
  return left < 5 ? "any moment" : `in ${span(left)}`;
}

const cell = (style, text) => el("td", { class: style }, text);
const COLUMNS = {
  job: { label: "Job", sort: "name", show: (job) => el("td", {}, el("a", { href: jobAddress(job) }, `${job.kind} ${job.name}`)) },
  namespace: { label: "Namespace", show: (job) => job.namespace },
  queue: { label: "Queue", sort: "queue", show: (job) => job.queue || "none" },
  state: { label: "State", show: (job) => cell(stateOf(job)[1], stateOf(job)[0]) },
  ahead: { label: "Ahead", show: (job) => cell("number", job.ahead ?? "") },
  cluster: { label: "Cluster", sort: "cluster", show: (job) => job.cluster },
  priority: { label: "Priority", sort: "priority", show: (job) => cell("number", job.priority) },
  needs: { label: "Needs", show: (job) => cell("needs", needed(job.needs)) },
  why: { label: "Why", show: (job) => cell("why", job.why) },
  line: { label: "Time", show: (job, now, from) => el("td", { class: "why" }, timeline(job, from, now)) },
  starts: { label: "Starts", show: (job, now, from, forecast) => cell("number", starts(job, now, forecast)) },
  waited: { label: "Waited", show: (job, now) => cell("number", span(times(job, now).waited)) },
  ran: { label: "Ran", sort: "started", show: (job, now) => cell("number", span(times(job, now).ran)) },
  age: { label: "Age", sort: "created", show: (job, now) => cell("number", age(job.created, now)) },
};
const LIST = ["job", "namespace", "queue", "state", "ahead", "cluster", "priority", "needs", "why", "starts", "waited", "ran", "age"];
const LINE = ["job", "namespace", "queue", "state", "cluster", "line", "waited", "ran"];

function header(column, sort, from, now) {
  const label = column === COLUMNS.line ? `Time, from ${span((now - from) / 1000)} ago until now` : column.label;
  const way = column.sort && sort.replace("-", "") === column.sort ? (sort.startsWith("-") ? "descending" : "ascending") : undefined;
  const mark = { ascending: " ▲", descending: " ▼" }[way] ?? "";
  const said = column.sort ? el("button", { type: "button", class: "link", "data-sort": column.sort }, `${label}${mark}`) : label;
  return { label: column.label, node: el("th", { scope: "col", ...(way ? { "aria-sort": way } : {}) }, said) };
}

function pager(state) {
  const range = `${state.first + 1} to ${state.first + state.jobs.length} of ${state.matching}`;
  const turn = (page, word) => el("button", { type: "button", "data-page": page, ...(page < 0 || page >= state.pages ? { disabled: "" } : {}) }, word);
  return el("p", { class: "pager muted" }, range, state.pages > 1 ? [turn(state.page - 1, "previous"), turn(state.page + 1, "next")] : []);
}

export function jobsTable(state, now, shown = {}) {
  const any = Object.values(state.counts).some(Boolean);
  if (!state.jobs.length) return el("div", { id: "jobs" }, el("p", { class: "muted" }, any ? "No job matches." : "Nothing was queued yet. `corral run train.py` runs a script as a job."));
  // A column in which all are alike says nothing.
  const differ = { namespace: new Set(state.jobs.map((job) => job.namespace)).size > 1, priority: state.jobs.some((job) => job.priority), cluster: state.jobs.some((job) => job.cluster), starts: Boolean(shown.forecast) };
  const columns = (shown.view === "timeline" ? LINE : LIST).filter((name) => differ[name] ?? true).map((name) => COLUMNS[name]);
  const from = Math.min(...state.jobs.map((job) => Date.parse(job.created)));
  const rows = state.jobs.map((job) => Object.assign(columns.map((column) => column.show(job, now, from, shown.forecast)), { key: `${job.namespace}/${job.workload}` }));
  return el("div", { id: "jobs" }, table(columns.map((column) => header(column, shown.sort ?? "", from, now)), rows), pager(state));
}

function aboutForecast(forecast, wrong) {
  if (wrong) return el("p", { class: "bad", "data-key": "forecast" }, wrong);
  if (!forecast) return null;
  const guess = forecast.assumed ? `; ${forecast.assumed} do not say how long they run, and are taken to run ${span(forecast.assumedSeconds)} (annotation corral.dev/run-seconds, activeDeadlineSeconds)` : "";
  return el("p", { class: "muted", "data-key": "forecast" }, `Starts as foreseen at ${new Date(forecast.at).toLocaleTimeString()}, if nothing else is submitted${guess}.`);
}

function filterForm(counts, view) {
  const options = Object.keys(STATES).map((name) => el("option", { value: name }, `${STATES[name][0]} (${counts[name]})`));
  const turn = (name, word) => el("button", { type: "button", "data-view": name, "aria-pressed": `${name === view}` }, word);
  return el("form", { class: "filter" },
    el("input", { id: "text", type: "search", maxlength: "200", placeholder: "name, queue, cluster, reason  ( / )", "aria-label": "Filter jobs" }),
    el("select", { id: "which", "aria-label": "State" }, el("option", { value: "" }, "all states"), options),
    el("span", { class: "views", role: "group", "aria-label": "How jobs are shown" }, turn("list", "list"), turn("timeline", "timeline")),
    counts.pending + counts.quotaReserved ? el("button", { type: "button", class: "link", "data-forecast": "", "data-key": "ask" }, "when will they start?") : null);
}

function warningsPart(list, now) {
  const rows = list.map((one) => [`${age(one.when, now)} ago${one.count > 1 ? ` (${one.count}×)` : ""}`, el("td", { class: "bad" }, one.reason), `${one.object} in ${one.namespace}`, el("td", { class: "why" }, one.message)]);
  return el("details", { "data-key": "warnings" }, el("summary", {}, list.length === 1 ? "1 warning" : `${list.length} warnings`, el("span", { class: "muted" }, `, the latest ${age(list[0].when, now)} ago`)),
    table(["When", "Reason", "About", "Message"], rows));
}

const section = (key, title, ...content) => el("section", { "data-key": key }, el("h2", {}, title), content);

export function page(state, now, shown = {}) {
  return [
    section("queues", "Queues", queueParts(state)),
    state.clusters.length ? section("clusters", "Worker clusters", clusters(state.clusters, shown.capacities ?? {})) : null,
    !state.clusters.length && !state.members.length ? el("p", { "data-key": "nodes" }, el("a", { href: clusterAddress("") }, "nodes of this cluster")) : null,
    state.members.length ? section("members", "Members", members(state.members, now)) : null,
    state.placements.length ? section("placements", "Placements", placements(state.placements)) : null,
    shown.warnings?.length ? warningsPart(shown.warnings, now) : null,
    section("jobs", "Jobs", filterForm(state.counts, shown.view ?? "list"), aboutForecast(shown.forecast, shown.noForecast), jobsTable(state, now, shown))].filter(Boolean);
}
