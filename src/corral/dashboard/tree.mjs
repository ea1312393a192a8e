// Trees of plain nodes, and how a tree becomes the document. Text is only ever set as text, never as markup.

export const el = (tag, attributes = {}, ...children) => ({ tag, attributes, children: children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false) });

// A document is changed only where its tree has changed, so that focus, selection and scrolling stay where they are.

const DRAWN = new Set(["svg", "rect", "title"]);
const keyOf = (node) => node.tag === undefined ? undefined : node.attributes["data-key"];
const keyAt = (child) => child.getAttribute?.("data-key") ?? undefined;
const isLike = (child, node) => (node.tag === undefined ? child.nodeType === 3 : child.nodeType === 1 && child.localName === node.tag) && keyAt(child) === keyOf(node);

function mount(node) {
  if (node.tag === undefined) return document.createTextNode(String(node));
  const made = DRAWN.has(node.tag) ? document.createElementNS("http://www.w3.org/2000/svg", node.tag) : document.createElement(node.tag);
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
  for (const name of child.getAttributeNames()) if (!(name in node.attributes) && name !== "open") child.removeAttribute(name); // what a viewer opened stays open
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
