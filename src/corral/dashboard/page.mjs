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
  return el("section", { class: "card" },
    el("h3", {}, queue.name),
    el("div", {}, queue.active ? el("span", { class: "good" }, "active") : el("span", { class: "bad" }, `not active: ${queue.message}`),
      ` · ${queue.pending} waiting · ${queue.admitted} admitted` + (queue.cohort ? ` · cohort ${queue.cohort}` : "")),
    el("div", { class: "muted" }, queue.localQueues.length ? `fed by ${queue.localQueues.join(", ")}` : "no LocalQueue feeds it"),
    queue.quotas.map(quota));
}

function table(headers, rows) {
  return el("table", {}, el("thead", {}, el("tr", {}, headers.map((header) => el("th", { scope: "col" }, header)))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell) => (cell?.tag === "td" ? cell : el("td", {}, cell)))))));
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

export function chosen(jobs, filter) {
  const words = (filter.text || "").toLowerCase().split(/\s+/).filter(Boolean);
  return jobs.filter((job) => (!filter.state || job.state === filter.state) &&
    words.every((word) => `${job.kind} ${job.namespace}/${job.name} ${job.queue} ${job.cluster} ${job.why}`.toLowerCase().includes(word)));
}

function jobRow(job, now) {
  const [word, style] = job.failed ? ["failed", "bad"] : STATES[job.state];
  return [
    el("td", {}, el("button", { class: "link", "data-job": `${job.namespace}/${job.workload}` }, `${job.kind} ${job.name}`)),
    job.namespace, job.queue || "none", el("td", { class: style }, word), el("td", { class: "number" }, job.ahead ?? ""), job.cluster,
    el("td", { class: "why" }, job.why), el("td", { class: "number" }, age(job.created, now))];
}

export function jobsTable(state, filter, now) {
  const found = chosen(state.jobs, filter);
  const rows = table(["Job", "Namespace", "Queue", "State", "Ahead", "Cluster", "Why", "Age"], found.map((job) => jobRow(job, now)));
  const note = !state.jobs.length ? "Nothing was queued yet." : !found.length ? "No job matches." : state.left_off ? `${state.left_off} older ones are not shown.` : "";
  return el("div", { id: "jobs" }, found.length ? rows : null, el("p", { class: "muted" }, note));
}

export function page(state, filter, now) {
  const options = ["", ...Object.keys(STATES)].map((name) => el("option", { value: name, ...(name === filter.state ? { selected: "" } : {}) }, name ? STATES[name][0] : "all states"));
  return [
    el("h2", {}, "Queues"), state.queues.length ? el("div", { class: "cards" }, state.queues.map(queueCard)) : el("p", { class: "muted" }, "There is no ClusterQueue that you may see; `corral queue create` makes one."),
    state.clusters.length ? [el("h2", {}, "Worker clusters"), clusters(state.clusters)] : [],
    state.members.length ? [el("h2", {}, "Members"), members(state.members, now)] : [],
    state.placements.length ? [el("h2", {}, "Placements"), placements(state.placements)] : [],
    el("h2", {}, "Jobs"),
    el("form", { class: "filter" }, el("input", { id: "text", type: "search", placeholder: "name, queue, cluster, reason", "aria-label": "Filter jobs", value: filter.text || "" }), el("select", { id: "which", "aria-label": "State" }, options)),
    jobsTable(state, filter, now)].flat();
}

const closer = () => el("button", { class: "link", "data-close": "" }, "close");

export function jobPanel(title, told, log) {
  return [
    closer(), el("h2", {}, title), el("p", {}, el("strong", {}, told.headline)),
    told.advice ? el("p", { class: "advice" }, told.advice) : null, el("ul", {}, told.facts.map((fact) => el("li", {}, fact))),
    el("h2", {}, "Pods"), told.pods.length ? table(["Pod", "Phase", "Cluster", "Logs"], told.pods.map((pod) => [
      pod.name, pod.phase, pod.cluster || pod.node, el("td", {}, pod.containers.map((name) => el("button", { class: "link", "data-log": `${pod.name}/${name}` }, `${name} `)))])) : el("p", { class: "muted" }, "It has no pods now."),
    log ? [el("h2", {}, `Logs of ${log.name}`), el("pre", { tabindex: "0" }, log.text || "(nothing written yet)")] : []].flat().filter(Boolean);
}

// From here on: the browser.

function mount(node) {
  if (node.tag === undefined) return document.createTextNode(String(node));
  const made = document.createElement(node.tag);
  for (const [name, value] of Object.entries(node.attributes)) made.setAttribute(name, value);
  made.append(...node.children.map(mount));
  return made;
}

async function ask(path, query = {}) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return answer;
}

function start() {
  const main = document.getElementById("main"), panel = document.getElementById("panel"), status = document.getElementById("state");
  const filter = { text: "", state: "" };
  let state = null, log = null;

  const drawJobs = () => document.getElementById("jobs")?.replaceWith(mount(jobsTable(state, filter, Date.now())));
  const draw = () => {
    const typing = document.activeElement?.id === "text" || document.activeElement?.id === "which";
    if (typing) return drawJobs();
    main.replaceChildren(...page(state, filter, Date.now()).map(mount));
  };
  const open = () => decodeURIComponent(location.hash.slice(1)).split("/");

  async function drawPanel() {
    const [namespace, workload] = open();
    panel.hidden = !workload;
    if (!workload) return;
    const told = await (await ask("/api/job", { namespace, workload })).json();
    if (log) {
      const [pod, container] = log.name.split("/");
      log.text = await (await ask("/api/logs", { namespace, pod, container })).text();
    }
    const top = panel.scrollTop;
    const job = state.jobs.find((one) => one.namespace === namespace && one.workload === workload);
    panel.replaceChildren(...jobPanel(job ? `${job.kind} ${job.namespace}/${job.name}` : `${namespace}/${workload}`, told, log).map(mount));
    panel.scrollTop = top;
  }

  async function refresh() {
    try {
      state = await (await ask("/api/overview")).json();
      document.getElementById("server").textContent = state.server;
      draw();
      await drawPanel().catch((error) => panel.replaceChildren(...[closer(), el("p", { class: "bad" }, error.message)].map(mount)));
      status.className = "";
      status.textContent = `as of ${new Date().toLocaleTimeString()}`;
    } catch (error) {
      status.className = "bad";
      status.textContent = `${error.message}`;
    }
  }

  document.addEventListener("click", (event) => {
    const { job, log: wanted, close } = event.target.dataset ?? {};
    if (job) location.hash = encodeURIComponent(job);
    if (close !== undefined) location.hash = "";
    if (wanted) { log = { name: wanted, text: "" }; refresh(); }
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") location.hash = ""; });
  document.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("input", (event) => {
    if (event.target.id === "text") filter.text = event.target.value;
    if (event.target.id === "which") filter.state = event.target.value;
    drawJobs();
  });
  addEventListener("hashchange", () => { log = null; refresh(); });
  (async () => { for (;;) { if (!document.hidden || !state) await refresh(); await new Promise((done) => setTimeout(done, 3000)); } })();
}

if (typeof document !== "undefined") start();
