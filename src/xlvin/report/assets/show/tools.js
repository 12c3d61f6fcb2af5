// Data, state, and small tools that the other parts share. All parts are one script.

const data = JSON.parse(document.getElementById("data").textContent);
const { subject, actions, moments } = data;
const at = (id) => document.getElementById(id);
const last = moments.length - 1;
const planned = moments[0].tree !== null;
const state = { step: 0, node: 0, nodes: null, timer: null, view: null };

const SVG = "http://www.w3.org/2000/svg";
function draw(parent, tag, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  parent.append(element);
  return element;
}
function write(parent, tag, attributes = {}, text = null) {
  const element = document.createElement(tag);
  Object.assign(element, attributes);
  if (text !== null) element.textContent = text;
  parent.append(element);
  return element;
}
// A canvas of our own: sets the viewBox to the element's size in pixels and empties it.
function blank(svg) {
  const width = Math.max(svg.clientWidth, 50),
    height = Math.max(svg.clientHeight, 50);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren();
  return { width, height };
}
// Of a whole: "7.5 %". Of a length, which may be a multiple: "75 % of" or "3.5 times".
const percent = (share) =>
  `${share >= 0.9995 || share < 0.0005 ? Math.round(100 * share) : (100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
const ratio = (share) => (share < 2 ? `${percent(share)} of` : `${share.toFixed(share < 10 ? 1 : 0)} times`);
const number = (value) => {
  const size = Math.abs(value);
  const text = value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
};
const signed = (value) => (value > 0 ? "+" : "") + number(value);
const clip = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
const range = (values) =>
  values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Viridis, perceptually uniform and safe for colour-blind readers, between these stops.
const STOPS = [
  [68, 1, 84],
  [59, 82, 139],
  [33, 145, 140],
  [94, 201, 98],
  [253, 231, 37],
];
function colour(share) {
  const place = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1),
    index = Math.min(Math.floor(place), STOPS.length - 2);
  return STOPS[index].map((low, i) => Math.round(low + (STOPS[index + 1][i] - low) * (place - index)));
}
const rgb = (parts) => `rgb(${parts.join(" ")})`;
const dark = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b < 140;
function scale(values) {
  const [low, high] = range(values);
  return { low, high, share: (value) => (high > low ? (value - low) / (high - low) : 0.5) };
}

function hint(element, text) {
  element.addEventListener("pointerenter", () => {
    at("tip").textContent = text();
    at("tip").hidden = false;
  });
  element.addEventListener("pointermove", (event) => {
    const tip = at("tip"),
      left = event.clientX + 14,
      top = event.clientY + 14;
    tip.style.left = `${Math.min(left, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(top, innerHeight - tip.offsetHeight - 8)}px`;
  });
  element.addEventListener("pointerleave", () => {
    at("tip").hidden = true;
  });
}
