// Making elements, writing numbers, the tooltip.

const data = JSON.parse(document.getElementById("report-data").textContent);

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") node.style.cssText = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const byId = (id) => document.getElementById(id);

const count = (value) => Math.round(value).toLocaleString("en-US");
const percent = (share) => (100 * share).toFixed(1) + " %";
const points = (share) => (100 * share).toFixed(1);
const hex = (value) => "0x" + value.toString(16);
const ratio = (value) => value.toFixed(value < 10 ? 3 : 1);
function small(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (value >= 1e300) return "∞";
  return Math.abs(value) >= 0.001 && Math.abs(value) < 10000 ? value.toPrecision(4) : value.toExponential(2);
}
function size(bytes) {
  for (const [unit, scale] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]])
    if (bytes >= scale) return Number((bytes / scale).toPrecision(4)) + " " + unit;
  return bytes + " B";
}
function short(value) {
  for (const [unit, scale] of [["G", 1e9], ["M", 1e6], ["k", 1e3]])
    if (Math.abs(value) >= scale) return Number((value / scale).toPrecision(4)) + " " + unit;
  return String(value);
}

// Round numbers from low to high, about `wanted` of them; `base` 2 for bytes.
function ticks(low, high, wanted, base = 10) {
  const span = Math.max(high - low, 1);
  let step = base === 2 ? 2 ** Math.ceil(Math.log2(span / wanted)) : 10 ** Math.floor(Math.log10(span / wanted));
  if (base !== 2) for (const factor of [1, 2, 5, 10]) if (span / (step * factor) <= wanted) { step *= factor; break; }
  step = Math.max(1, step);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

// The beginning of a text that fits into so many pixels, or nothing.
function fitting(text, pixels, each = 6.6) {
  const room = Math.floor((pixels - 6) / each);
  if (room >= text.length) return text;
  return room >= 4 ? text.slice(0, room - 1) + "…" : "";
}

const tooltip = byId("tooltip");
function showTip(text, event) {
  tooltip.textContent = text;
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - box.width - 10 : event.clientX + 14;
  const top = event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 16;
  tooltip.style.left = Math.max(4, left) + "px";
  tooltip.style.top = Math.max(4, top) + "px";
}
const hideTip = () => { tooltip.hidden = true; };
function tipped(node, text) {
  node.addEventListener("pointermove", (event) => showTip(typeof text === "function" ? text(event) : text, event));
  node.addEventListener("pointerleave", hideTip);
  return node;
}
addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

const swatch = (name) => el("span", { class: "swatch", style: `--color: var(--${name})` });

// Buttons of which one is pressed.
function choice(label, options, chosen, change) {
  const buttons = Object.entries(options).map(([key, text]) =>
    el("button", { type: "button", "aria-pressed": String(key === chosen), onclick: () => {
      buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(Object.keys(options)[at] === key)));
      change(key);
    } }, text));
  return [el("span", { class: "dim" }, label), ...buttons];
}

// Draw when the place around a picture gets a width, and again when it gets another one.
function redrawn(node, draw) {
  const around = node.parentElement;
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.floor(around.clientWidth);
    if (now && now !== width) { width = now; draw(now); }
  }).observe(around);
}

{
  const themes = ["system", "light", "dark"];
  const button = byId("theme");
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme || "system") + 1) % 3];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    button.textContent = "theme: " + next;
  });
}
