// The browser's part: asks, keeps what is chosen, and changes the document where its tree has changed, so that focus, selection and
// scrolling stay where they are.

import { el, morph } from "./tree.mjs";
import { closer, jobPanel, nodesPanel, question } from "./panel.mjs";
import { page } from "./views.mjs";

export * from "./tree.mjs";
export * from "./panel.mjs";
export * from "./views.mjs";

const EVERY_MS = 3000, SLOWLY_MS = 15000;

export function routeOf(hash) {
  const text = decodeURIComponent(hash.slice(1));
  if (text.startsWith("@")) return { cluster: text.slice(1) }; // without a name it is this one
  const [namespace, workload, tab = "", pod, container] = text.split("/");
  return workload ? { namespace, workload, tab, pod, container } : {};
}

async function checked(answer) {
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return answer;
}

let context = ""; // none is the cluster the page was started for
const inContext = (query) => new URLSearchParams(context ? { ...query, context } : query);
const ask = async (path, query = {}) => checked(await fetch(`${path}?${inContext(query)}`));

function start() {
  const main = document.getElementById("main"), panel = document.getElementById("panel"), status = document.getElementById("state");
  const filter = { text: "", state: "", page: 0, sort: "" }, shown = { view: "list", capacities: {} }, readOnly = "readOnly" in document.body.dataset;
  let asked = 0, typing, grep = "", said = "", slowAt = -Infinity, last = null;

  async function logOf(route, job) {
    const pod = job.pods.find((one) => one.name === route.pod) ?? job.pods[0];
    if (!pod && !route.pod) return null;
    const query = { namespace: route.namespace, pod: route.pod ?? pod.name, container: route.container ?? pod?.containers[0] ?? "" };
    const text = await (await ask("/api/logs", query)).text();
    return { name: `${query.pod}/${query.container}`, text, grep, address: `/api/logs?${inContext({ ...query, all: "1" })}` };
  }

  async function drawPanel() {
    const route = routeOf(location.hash);
    panel.hidden = !route.workload && route.cluster === undefined;
    if (panel.hidden) { document.title = "Corral"; return; }
    if (route.cluster !== undefined) {
      const reported = await (await ask("/api/nodes", { cluster: route.cluster })).json();
      document.title = `${reported.title} · Corral`;
      morph(panel, nodesPanel(reported));
      return;
    }
    const query = { namespace: route.namespace, workload: route.workload }, more = { readOnly, said };
    const job = await (await ask("/api/job", query)).json();
    if (route.tab === "logs") more.log = await logOf(route, job);
    if (route.tab === "events") more.events = await (await ask("/api/events", query)).json();
    if (route.tab === "yaml") more.yaml = await (await ask("/api/yaml", query)).text();
    const before = document.getElementById("log"), atEnd = !before || before.scrollTop + before.clientHeight >= before.scrollHeight - 4;
    document.title = `${job.title} · Corral`;
    morph(panel, jobPanel(job, route, Date.now(), more));
    const after = document.getElementById("log");
    if (after && (atEnd || after !== before)) after.scrollTop = after.scrollHeight;
  }

  const wrongPanel = (error) => morph(panel, [closer(), el("p", { class: "bad" }, error.message)]);
  const draw = () => { if (last) morph(main, page(last, Date.now(), { ...shown, sort: filter.sort })); };

  async function refreshSlowly() {
    if (Date.now() - slowAt < SLOWLY_MS) return;
    slowAt = Date.now();
    shown.warnings = await (await ask("/api/warnings")).json();
    if (last.clusters.length) shown.capacities = await (await ask("/api/capacities")).json();
    draw();
  }

  async function refresh() {
    const turn = ++asked;
    try {
      const state = await (await ask("/api/overview", filter)).json();
      if (turn !== asked) return;
      filter.page = state.page;
      last = state;
      document.getElementById("server").textContent = state.server;
      if (!context) offerContexts(state.server);
      if (!main.querySelector("form")) main.replaceChildren();
      draw();
      await drawPanel().catch(wrongPanel);
      status.className = "";
      status.textContent = `as of ${new Date().toLocaleTimeString()}`;
      refreshSlowly().catch(() => {});
    } catch (error) {
      status.className = "bad";
      status.textContent = `${error.message}`;
    }
  }

  const look = () => { document.getElementById("jobs")?.setAttribute("aria-busy", "true"); refresh(); }; // the answer takes the mark away

  function offerContexts(here) {
    const select = document.getElementById("context"), known = Object.entries(JSON.parse(document.body.dataset.contexts || "{}"));
    if (known.length < 2 || select.childNodes.length) return;
    const own = known.find(([, server]) => server === here)?.[0];
    morph(select, known.map(([name]) => el("option", { value: name === own ? "" : name }, name)));
    select.value = "";
    select.hidden = false;
  }

  function turnTo(name) {
    context = name;
    location.hash = "";
    Object.assign(filter, { page: 0 });
    Object.assign(shown, { capacities: {}, warnings: [], forecast: undefined, noForecast: "" });
    slowAt = -Infinity;
    look();
  }

  async function lookAhead(button) {
    button.setAttribute("aria-busy", "true");
    const at = new Date().toISOString();
    try {
      shown.forecast = { at, ...(await (await ask("/api/forecast")).json()) };
      shown.noForecast = "";
    } catch (error) {
      shown.noForecast = error.message;
    }
    draw();
  }

  async function act(action) {
    const { namespace, workload } = routeOf(location.hash);
    if (question(action) && !confirm(question(action))) return;
    try {
      const answer = await checked(await fetch("/api/act", { method: "POST", body: inContext({ action, namespace, workload }) }));
      said = (await answer.json()).done;
      if (action === "delete") location.hash = "";
    } catch (error) {
      said = error.message;
    }
    refresh();
  }

  document.addEventListener("click", (event) => {
    const { page: turned, sort, view, act: action, forecast } = event.target.dataset ?? {};
    if (forecast !== undefined) lookAhead(event.target);
    if (turned !== undefined) filter.page = Number(turned);
    if (sort) { filter.sort = { [sort]: `-${sort}`, [`-${sort}`]: "" }[filter.sort] ?? sort; filter.page = 0; }
    if (view) { shown.view = view; draw(); }
    if (turned !== undefined || sort) look();
    if (action) act(action);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") location.hash = "";
    if (event.key === "/" && !["INPUT", "SELECT"].includes(event.target.tagName)) { event.preventDefault(); document.getElementById("text")?.focus(); }
  });
  document.addEventListener("submit", (event) => { if (event.target.className === "filter") event.preventDefault(); });
  document.addEventListener("input", (event) => {
    if (event.target.id === "context") { turnTo(event.target.value); return; }
    if (event.target.id === "text") filter.text = event.target.value.slice(0, 200);
    if (event.target.id === "which") filter.state = event.target.value;
    if (event.target.id === "grep") grep = event.target.value; else filter.page = 0;
    clearTimeout(typing);
    typing = setTimeout(look, 150);
  });
  addEventListener("hashchange", () => { said = ""; drawPanel().catch(wrongPanel); });
  (async () => { for (;;) { if (!document.hidden || !asked) await refresh(); await new Promise((done) => setTimeout(done, EVERY_MS)); } })();
}

if (typeof document !== "undefined" && document.getElementById?.("main")) start();
