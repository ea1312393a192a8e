// The page: what `overview` answers becomes a tree of plain nodes, and the tree becomes the document. Text is only ever set as
// text, never as markup. The functions that make trees know no browser, so that they can be tested without one.

export const el = (tag, attributes = {}, ...children) => ({ tag, attributes, children: children.flat().filter((child) => child !== null && child !== undefined && child !== false) });

const STATES = { pending: ["waits", "wait"], quotaReserved: ["has quota, waits for a check", "wait"], admitted: ["admitted", "good"], finished: ["finished", "muted"] };

export function age(created, now) {
  const seconds = Math.max(0, Math.floor((now - Date.parse(created)) / 1000));
  if (Number.isNaN(seconds)) return "";
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86400)}d`;
}

function quota(entry) {
  const share = entry.share ?? 0;
  const label = `${entry.used} of ${entry.quota}` + (entry.borrowed !== "0" ? `, ${entry.borrowed} borrowed` : "");
  return el("div", { class: share > 1 ? "quota over" : "quota" },
    el("span", {}, `${entry.resource} (${entry.flavor})`),
    el("progress", { max: 1, value: Math.min(1, share), "aria-label": `${entry.resource} of ${entry.flavor}: ${label}` }),
    el("span", { class: "number" }, label));
}

function queueCard(queue) {
  return el("section", { class: "card", "data-key": queue.name },
    el("h3", {}, queue.name),
    el("div", {}, queue.active ? el("span", { class: "good" }, "active") : el("span", { class: "bad" }, `not active: ${queue.message}`),
      ` · ${queue.pending} waiting · ${queue.admitted} admitted` + (queue.cohort ? ` · cohort ${queue.cohort}` : "")),
    el("div", { class: "muted" }, queue.localQueues.length ? `fed by ${queue.localQueues.join(", ")}` : "no LocalQueue feeds it"),
    queue.quotas.map(quota));
}

function table(headers, rows) {
  const labelled = (cell, at) => { const made = cell?.tag === "td" ? cell : el("td", {}, cell); return { ...made, attributes: { "data-label": headers[at], ...made.attributes } }; };
  return el("table", {}, el("thead", {}, el("tr", {}, headers.map((header) => el("th", { scope: "col" }, header)))),
    el("tbody", {}, rows.map((cells) => el("tr", cells.key ? { "data-key": cells.key } : {}, cells.map(labelled)))));
}

function clusters(list) {
  return table(["Cluster", "State", "Runs", "Asked for", "Message"], list.map((one) => [
    one.name, el("td", { class: one.active ? "good" : "bad" }, one.active ? "connected" : "not connected"), `${one.running}`, `${one.asked}`, one.message]));
}

function members(list, now) {
  return table(["Member", "State", "Last seen", "Free"], list.map((one) => [
    one.name, el("td", { class: one.joined ? "good" : "bad" }, (one.joined ? "joined" : "not joined") + (one.taints.length ? `, tainted: ${one.taints.join(", ")}` : "")),
    one.seen ? `${age(one.seen, now)} ago` : "never", Object.entries(one.available).map(([name, amount]) => `${name} ${amount}`).join(", ")]));
}

function placements(list) {
  return table(["Placement", "Clusters", "State", "Message"], list.map((one) => [
    one.namespace ? `${one.namespace}/${one.name}` : one.name, one.clusters.join(", ") || "none yet",
    el("td", { class: one.state === "Available" ? "good" : "wait" }, one.state), one.message]));
}

export const jobAddress = (job) => `#${encodeURIComponent(`${job.namespace}/${job.workload}`)}`;

function jobRow(job, now) {
  const [word, style] = job.failed ? ["failed", "bad"] : STATES[job.state];
  const cells = [
    el("td", {}, el("a", { href: jobAddress(job) }, `${job.kind} ${job.name}`)),
    job.namespace, job.queue || "none", el("td", { class: style }, word), el("td", { class: "number" }, job.ahead ?? ""), job.cluster,
    el("td", { class: "why" }, job.why), el("td", { class: "number" }, age(job.created, now))];
  return Object.assign(cells, { key: `${job.namespace}/${job.workload}` });
}

function pager(state) {
  const range = `${state.first + 1} to ${state.first + state.jobs.length} of ${state.matching}`;
  const turn = (page, word) => el("button", { type: "button", "data-page": page, ...(page < 0 || page >= state.pages ? { disabled: "" } : {}) }, word);
  return el("p", { class: "pager muted" }, range, state.pages > 1 ? [turn(state.page - 1, "previous"), turn(state.page + 1, "next")] : []);
}

export function jobsTable(state, now) {
  const any = Object.values(state.counts).some(Boolean);
  if (!state.jobs.length) return el("div", { id: "jobs" }, el("p", { class: "muted" }, any ? "No job matches." : "Nothing was queued yet."));
  const rows = table(["Job", "Namespace", "Queue", "State", "Ahead", "Cluster", "Why", "Age"], state.jobs.map((job) => jobRow(job, now)));
  return el("div", { id: "jobs" }, rows, pager(state));
}

function filterForm(counts) {
  const options = Object.keys(STATES).map((name) => el("option", { value: name }, `${STATES[name][0]} (${counts[name]})`));
  return el("form", { class: "filter" },
    el("input", { id: "text", type: "search", maxlength: "200", placeholder: "name, queue, cluster, reason", "aria-label": "Filter jobs" }),
    el("select", { id: "which", "aria-label": "State" }, el("option", { value: "" }, "all states"), options));
}

const section = (key, title, ...content) => el("section", { "data-key": key }, el("h2", {}, title), content);

export function page(state, now) {
  return [
    section("queues", "Queues", state.queues.length ? el("div", { class: "cards" }, state.queues.map(queueCard)) : el("p", { class: "muted" }, "There is no ClusterQueue that you may see; `corral queue create` makes one.")),
    state.clusters.length ? section("clusters", "Worker clusters", clusters(state.clusters)) : null,
    state.members.length ? section("members", "Members", members(state.members, now)) : null,
    state.placements.length ? section("placements", "Placements", placements(state.placements)) : null,
    section("jobs", "Jobs", filterForm(state.counts), jobsTable(state, now))].filter(Boolean);
}

const closer = () => el("a", { href: "#", "data-key": "close" }, "close");

export function jobPanel(reported, log) {
  return [
    closer(), el("h2", {}, reported.title), el("p", {}, el("strong", {}, reported.headline)),
    reported.advice ? el("p", { class: "advice", "data-key": "advice" }, reported.advice) : null, el("ul", {}, reported.facts.map((fact) => el("li", {}, fact))),
    el("h2", {}, "Pods"), reported.pods.length ? table(["Pod", "Phase", "Cluster", "Logs"], reported.pods.map((pod) => [
      pod.name, pod.phase, pod.cluster || pod.node, el("td", {}, pod.containers.map((name) => el("button", { class: "link", "data-log": `${pod.name}/${name}` }, `${name} `)))])) : el("p", { class: "muted" }, "It has no pods now."),
    log ? [el("h2", {}, `Logs of ${log.name}`), el("pre", { id: "log", "data-key": log.name, tabindex: "0" }, log.text || "(nothing written yet)")] : []].flat().filter(Boolean);
}

// A document is changed only where its tree has changed, so that focus, selection and scrolling stay where they are.

const keyOf = (node) => node.tag === undefined ? undefined : node.attributes["data-key"];
const keyAt = (child) => child.getAttribute?.("data-key") ?? undefined;
const isLike = (child, node) => (node.tag === undefined ? child.nodeType === 3 : child.nodeType === 1 && child.localName === node.tag) && keyAt(child) === keyOf(node);

function mount(node) {
  if (node.tag === undefined) return document.createTextNode(String(node));
  const made = document.createElement(node.tag);
  for (const [name, value] of Object.entries(node.attributes)) made.setAttribute(name, value);
  made.append(...node.children.map(mount));
  return made;
}

function update(child, node) {
  if (node.tag === undefined) {
    const text = String(node);
    if (text.startsWith(child.data)) { if (text.length > child.data.length) child.appendData(text.slice(child.data.length)); } else child.data = text;
    return;
  }
  for (const [name, value] of Object.entries(node.attributes)) if (child.getAttribute(name) !== String(value)) child.setAttribute(name, value);
  for (const name of child.getAttributeNames()) if (!(name in node.attributes)) child.removeAttribute(name);
  morph(child, node.children);
}

export function morph(parent, nodes) {
  const wanted = new Set(nodes.map(keyOf).filter((key) => key !== undefined)), kept = new Map();
  for (const child of [...parent.childNodes]) {
    const key = keyAt(child);
    if (key !== undefined && !wanted.has(key)) child.remove(); else if (key !== undefined) kept.set(key, child);
  }
  let at = parent.firstChild;
  for (const node of nodes) {
    const key = keyOf(node), found = key === undefined ? at : kept.get(key);
    if (!found || !isLike(found, node)) { parent.insertBefore(mount(node), at); continue; }
    if (found === at) at = at.nextSibling; else parent.insertBefore(found, at);
    update(found, node);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

// From here on: the browser.

async function ask(path, query = {}) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return answer;
}

function start() {
  const main = document.getElementById("main"), panel = document.getElementById("panel"), status = document.getElementById("state");
  const filter = { text: "", state: "", page: 0 };
  let log = null, asked = 0, typing;
  const open = () => decodeURIComponent(location.hash.slice(1)).split("/");

  async function drawPanel() {
    const [namespace, workload] = open();
    panel.hidden = !workload;
    if (!workload) { document.title = "Corral"; return; }
    const reported = await (await ask("/api/job", { namespace, workload })).json();
    if (log) {
      const [pod, container] = log.name.split("/");
      log.text = await (await ask("/api/logs", { namespace, pod, container })).text();
    }
    const before = document.getElementById("log"), atEnd = !before || before.scrollTop + before.clientHeight >= before.scrollHeight - 4;
    document.title = `${reported.title} · Corral`;
    morph(panel, jobPanel(reported, log));
    const after = document.getElementById("log");
    if (after && (atEnd || after !== before)) after.scrollTop = after.scrollHeight;
  }

  async function refresh() {
    const turn = ++asked;
    try {
      const state = await (await ask("/api/overview", filter)).json();
      if (turn !== asked) return;
      filter.page = state.page;
      document.getElementById("server").textContent = state.server;
      if (!main.querySelector("form")) main.replaceChildren();
      morph(main, page(state, Date.now()));
      await drawPanel().catch((error) => morph(panel, [closer(), el("p", { class: "bad" }, error.message)]));
      status.className = "";
      status.textContent = `as of ${new Date().toLocaleTimeString()}`;
    } catch (error) {
      status.className = "bad";
      status.textContent = `${error.message}`;
    }
  }

  document.addEventListener("click", (event) => {
    const { log: wanted, page: turned } = event.target.dataset ?? {};
    if (wanted) { log = { name: wanted, text: "" }; refresh(); }
    if (turned !== undefined) { filter.page = Number(turned); refresh(); }
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") location.hash = ""; });
  document.addEventListener("submit", (event) => { if (event.target.className === "filter") event.preventDefault(); });
  document.addEventListener("input", (event) => {
    if (event.target.id === "text") filter.text = event.target.value.slice(0, 200);
    if (event.target.id === "which") filter.state = event.target.value;
    filter.page = 0;
    clearTimeout(typing);
    typing = setTimeout(refresh, 150);
  });
  addEventListener("hashchange", () => { log = null; refresh(); });
  (async () => { for (;;) { if (!document.hidden || !asked) await refresh(); await new Promise((done) => setTimeout(done, 3000)); } })();
}

if (typeof document !== "undefined" && document.getElementById?.("main")) start();
