// The panel beside the page as trees: one job with its logs, events and YAML, or the nodes of a cluster. Knows no browser.

import { el } from "./tree.mjs";
import { age, bar, needed, span, table, times } from "./views.mjs";

export const closer = () => el("a", { href: "#", class: "close", "data-key": "close" }, "close");
const TABS = { "": "overview", logs: "logs", events: "events", yaml: "YAML" };
const address = (...parts) => `#${parts.filter(Boolean).map(encodeURIComponent).join("/")}`;

export function actions(job) {
  const over = job.state === "finished";
  return [!over && !job.stopped ? "cancel" : null, !over && job.stopped ? "resume" : null, over || job.stopped ? "retry" : null, "delete"].filter(Boolean);
}

const ASKS = { cancel: "Stop this job? It stays, and can be resumed.", delete: "Delete this job, with everything it has?" };
const WORDS = { cancel: "cancel", resume: "resume", retry: "run again", delete: "delete" };
export const question = (action) => ASKS[action];

function when(job, now) {
  const { waited, ran, ended } = times(job, now), parts = [`queued ${age(job.created, now)} ago`];
  if (job.started) parts.push(`waited ${span(waited)}`, `${Number.isNaN(ended) ? "runs for" : "ran"} ${span(ran)}`);
  if (needed(job.needs)) parts.push(`needs ${needed(job.needs)}`);
  return el("p", { class: "muted" }, parts.join(" · "));
}

function pods(list, place) {
  if (!list.length) return el("p", { class: "muted" }, "It has no pods now.");
  const links = (pod) => pod.containers.map((name) => el("a", { href: address(...place, "logs", pod.name, name) }, `${name} `));
  return table(["Pod", "Phase", "Cluster", "Logs"], list.map((pod) => [pod.name, pod.phase, pod.cluster || pod.node, el("td", {}, links(pod))]));
}

function logTab(job, place, log) {
  const one = (pod, name) => el("a", { href: address(...place, "logs", pod.name, name), ...(log?.name === `${pod.name}/${name}` ? { "aria-current": "true" } : {}) }, pod.containers.length > 1 ? `${pod.name}/${name}` : pod.name);
  const choice = job.pods.flatMap((pod) => pod.containers.map((name) => one(pod, name)));
  if (!log) return [el("p", { class: "muted" }, job.pods.length ? "" : "It has no pods now, and so no logs.")];
  const lines = log.grep ? log.text.split("\n").filter((line) => line.toLowerCase().includes(log.grep.toLowerCase())).join("\n") : log.text;
  return [choice.length > 1 ? el("p", { class: "choice" }, choice) : null,
    el("form", { class: "filter" }, el("input", { id: "grep", type: "search", placeholder: "lines with", "aria-label": "Only lines with" }),
      el("a", { href: log.address, download: `${log.name.replace("/", "-")}.log` }, "download all of it")),
    el("pre", { id: "log", "data-key": log.name, tabindex: "0" }, lines || (log.grep ? "(no line has that)" : "(nothing written yet)"))];
}

function eventTab(list, now) {
  if (!list.length) return [el("p", { class: "muted" }, "Nothing was told in the last hour; servers keep events for no longer.")];
  return [table(["When", "Reason", "About", "Message"], list.map((one) => [
    `${age(one.when, now)} ago${one.count > 1 ? ` (${one.count}×)` : ""}`, el("td", { class: one.type === "Warning" ? "bad" : "" }, one.reason), one.object, el("td", { class: "why" }, one.message)]))];
}

export function jobPanel(job, route, now, more = {}) {
  const place = [route.namespace, route.workload];
  const tabs = Object.entries(TABS).map(([name, word]) => el("a", { href: address(...place, name), ...(route.tab === name ? { "aria-current": "page" } : {}) }, word));
  const overview = () => [job.advice ? el("p", { class: "advice", "data-key": "advice" }, job.advice) : null, when(job, now),
    job.facts.length ? el("ul", {}, job.facts.map((fact) => el("li", {}, fact))) : null, el("h3", {}, "Pods"), pods(job.pods, place)];
  const body = { "": overview, logs: () => logTab(job, place, more.log), events: () => eventTab(more.events ?? [], now), yaml: () => [el("pre", { tabindex: "0", class: "long" }, more.yaml ?? "")] }[route.tab];
  const buttons = more.readOnly ? [] : actions(job).map((name) => el("button", { type: "button", "data-act": name }, WORDS[name]));
  return [closer(), el("h2", {}, job.title), el("p", {}, el("strong", {}, job.headline)),
    el("div", { class: "bar" }, el("nav", { class: "tabs" }, tabs), el("span", { class: "acts" }, buttons)),
    more.said ? el("p", { class: "advice", role: "status", "data-key": "said" }, more.said) : null,
    el("div", { "data-key": `tab ${route.tab}` }, body())].filter(Boolean);
}

export function nodesPanel(reported) {
  const state = (node) => el("td", { class: node.ready && !node.unschedulable ? "good" : "bad" }, (node.ready ? (node.unschedulable ? "cordoned" : "ready") : "not ready") + (node.taints.length ? `, tainted: ${node.taints.join(", ")}` : ""));
  const bars = (node) => el("td", { class: "bars" }, node.resources.map((one) => bar(one.resource.split("/").pop(), one.used, one.has, one.share, one.resource)));
  return [closer(), el("h2", {}, reported.title),
    reported.nodes.length ? table(["Node", "State", "Asked for by pods", "Pods", "Labels"], reported.nodes.map((node) => Object.assign(
      [node.name, state(node), bars(node), el("td", { title: node.pods.join("\n") }, `${node.pods.length}`), el("td", { class: "why muted" }, node.labels.join(" "))], { key: node.name })))
      : el("p", { class: "muted" }, "It has no nodes.")];
}
