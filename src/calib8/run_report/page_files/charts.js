// Small charts as SVG, drawn in the pixels that they have: histograms, codes, weights, candidates.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 52, right: 14, top: 12, bottom: 40 };

// An element of SVG with its attributes and children; texts are texts, whatever they hold.
function drawn(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

// An element of HTML, likewise.
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

// A name that a line may end in, behind the signs that part it.
function breakable(name) {
  const pieces = name.match(/[^/_.]*[/_.]|[^/_.]+$/g) || [name];
  return pieces.flatMap((piece, n) => (n === 0 ? [piece] : [document.createElement("wbr"), piece]));
}

// Numbers that were written with commas between them, nothing for 0.
function unpacked(text) {
  return text === "" ? [] : text.split(",").map((one) => (one === "" ? 0 : Number(one)));
}

function short(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e5 || size < 1e-3) return value.toExponential(2).replace("e+", "e");
  return Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
}

// Round numbers in [low, high], about so many.
function ticks(low, high, about) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / Math.max(about, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw);
  const found = [];
  for (let n = Math.ceil(low / step); n * step <= high + step * 1e-9; n++) found.push(Number((n * step).toPrecision(12)));
  return found;
}

// The frame of a chart: its size, its axes, and where a value stands.
function plot(svg, xs, ys, labels) {
  const box = svg.getBoundingClientRect();
  const width = Math.max(box.width, 200), height = Math.max(box.height, 120);
  svg.replaceChildren();
  svg.setAttribute("viewBox", "0 0 " + width + " " + height);
  const inner = { x: MARGIN.left, y: MARGIN.top, w: width - MARGIN.left - MARGIN.right, h: height - MARGIN.top - MARGIN.bottom };
  const at = {
    x: (value) => inner.x + ((value - xs[0]) / (xs[1] - xs[0] || 1)) * inner.w,
    y: (value) => inner.y + inner.h - ((value - ys[0]) / (ys[1] - ys[0] || 1)) * inner.h,
  };
  for (const tick of labels.y) {
    const y = at.y(tick.value);
    svg.append(drawn("line", { class: "grid", x1: inner.x, x2: inner.x + inner.w, y1: y, y2: y }));
    svg.append(drawn("text", { x: inner.x - 6, y: y + 4, "text-anchor": "end" }, tick.text));
  }
  for (const tick of labels.x) {
    const x = at.x(tick.value);
    svg.append(drawn("line", { class: "grid", x1: x, x2: x, y1: inner.y + inner.h, y2: inner.y + inner.h + 4 }));
    svg.append(drawn("text", { x: x, y: inner.y + inner.h + 17, "text-anchor": "middle" }, tick.text));
  }
  svg.append(drawn("text", { x: inner.x + inner.w / 2, y: height - 5, "text-anchor": "middle" }, labels.name));
  return { at: at, inner: inner, width: width, height: height };
}

function marks(values) {
  return values.map((value) => ({ value: value, text: short(value) }));
}

// Powers of ten on an axis of log10(1 + count).
function decades(highest) {
  const most = Math.ceil(Math.log10(1 + highest));
  const step = most > 6 ? 2 : 1;
  const found = [{ value: 0, text: "0" }];
  for (let power = step; power <= most; power += step) {
    found.push({ value: Math.log10(1 + 10 ** power), text: power < 4 ? String(10 ** power) : "1e" + power });
  }
  return found.filter((tick) => tick.value <= Math.log10(1 + highest) * 1.001);
}

const height = (count) => Math.log10(1 + count);

// Bars of one path: one per count, from edge(k) to edge(k + 1).
function barPath(frame, heights, edge) {
  const base = frame.at.y(0);
  const parts = [];
  heights.forEach((value, k) => {
    if (value > 0) {
      const left = frame.at.x(edge(k)), right = frame.at.x(edge(k + 1));
      parts.push("M" + left.toFixed(1) + " " + base.toFixed(1) + "V" + frame.at.y(height(value)).toFixed(1) + "H" + Math.max(right, left + 0.6).toFixed(1) + "V" + base.toFixed(1) + "Z");
    }
  });
  return drawn("path", { class: "bars", d: parts.join("") });
}

// What stands under the pointer, told below the chart.
function tellUnderPointer(svg, frame, span, text) {
  const out = svg.parentElement.querySelector(".readout");
  svg.onpointermove = (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * frame.width;
    const value = span[0] + ((x - frame.inner.x) / frame.inner.w) * (span[1] - span[0]);
    out.textContent = value < span[0] || value > span[1] ? "" : text(value);
  };
  svg.onpointerleave = () => { out.textContent = ""; };
}

// Values before saturation; what the range clips is shaded.
function drawHistogram(svg, tensor) {
  const counts = unpacked(tensor.counts), width = tensor.width, below = tensor.below;
  const chosen = tensor.chosen || tensor.observed;
  const low = Math.min(tensor.observed[0], chosen[0]), high = Math.max(tensor.observed[1], chosen[1]);
  const room = 0.02 * (high - low || 1), span = [low - room, high + room];
  const most = Math.max(1, tensor.zeros, ...counts);
  const few = svg.getBoundingClientRect().width < 420 ? 4 : 7;
  const frame = plot(svg, span, [0, height(most) * 1.04], { x: marks(ticks(low, high, few)), y: decades(most), name: "value" });
  const shade = (from, to) => {
    if (to > from) svg.append(drawn("rect", { class: "clip", x: frame.at.x(from), width: frame.at.x(to) - frame.at.x(from), y: frame.inner.y, height: frame.inner.h }));
  };
  if (tensor.chosen) {
    if (tensor.observed[0] < chosen[0]) shade(span[0], chosen[0]);
    if (tensor.observed[1] > chosen[1]) shade(chosen[1], span[1]);
  }
  svg.append(barPath(frame, counts, (k) => (k - below) * width));
  if (tensor.zeros > 0) svg.append(drawn("circle", { class: "zero", cx: frame.at.x(0), cy: frame.at.y(height(tensor.zeros)), r: 4 }));
  for (const bound of tensor.chosen || []) {
    const x = frame.at.x(bound);
    svg.append(drawn("line", { class: "bound", x1: x, x2: x, y1: frame.inner.y, y2: frame.inner.y + frame.inner.h }));
  }
  tellUnderPointer(svg, frame, span, (value) => {
    const k = Math.floor(value / width) + below;
    return short(counts[k] || 0) + " values about " + short(value);
  });
}

// Values per code.
function drawCodes(svg, tensor) {
  const counts = unpacked(tensor.codes), first = tensor.first, together = tensor.together;
  const last = first + counts.length * together, span = [first, last], most = Math.max(1, ...counts);
  const few = svg.getBoundingClientRect().width < 420 ? 4 : 7;
  const frame = plot(svg, span, [0, height(most) * 1.04], { x: marks(ticks(first, last - 1, few)), y: decades(most), name: "code" });
  svg.append(barPath(frame, counts, (k) => first + k * together));
  tellUnderPointer(svg, frame, span, (value) => {
    const k = Math.floor((value - first) / together);
    return short(counts[k] || 0) + " values of code " + (first + k * together);
  });
}

// Smallest and largest weight of every output channel.
function drawWeights(svg, weights) {
  const low = unpacked(weights.low), high = unpacked(weights.high);
  const span = [0, low.length * weights.together];
  const ends = [Math.min(0, ...low), Math.max(0, ...high)];
  const few = svg.getBoundingClientRect().width < 420 ? 4 : 8;
  const frame = plot(svg, span, ends, { x: marks(ticks(0, weights.count, few)), y: marks(ticks(ends[0], ends[1], 5)), name: "output channel" });
  const step = frame.inner.w / low.length, gap = step > 4 ? 1 : 0;
  const bars = low.map((value, k) => {
    const x = frame.inner.x + k * step, top = frame.at.y(Math.max(high[k], 0)), bottom = frame.at.y(Math.min(value, 0));
    return "M" + x.toFixed(1) + " " + top.toFixed(1) + "H" + (x + Math.max(step - gap, 0.6)).toFixed(1) + "V" + Math.max(bottom, top + 0.5).toFixed(1) + "H" + x.toFixed(1) + "Z";
  });
  svg.append(drawn("path", { class: "bars", d: bars.join("") }));
  tellUnderPointer(svg, frame, span, (value) => {
    const k = Math.min(Math.floor(value / weights.together), low.length - 1), from = k * weights.together;
    const channels = weights.together > 1 ? "channels " + from + " … " + Math.min(from + weights.together, weights.count) : "channel " + from;
    return channels + ": " + short(low[k]) + " … " + short(high[k]);
  });
}

// Candidates of a search: what they cost and how good they are.
function drawCandidates(svg, found) {
  const timed = found.shown.every((one) => one.latency !== null), cost = (one) => timed ? one.latency : one.cost;
  const costs = found.shown.map(cost), values = [...found.shown.map((one) => one.value), found.promised];
  const pad = (low, high) => { const room = 0.08 * (high - low || Math.abs(high) || 1); return [low - room, high + room]; };
  const xs = pad(Math.min(...costs), Math.max(...costs)), ys = pad(Math.min(...values), Math.max(...values));
  const few = svg.getBoundingClientRect().width < 420 ? 4 : 8;
  const frame = plot(svg, xs, ys, { x: marks(ticks(Math.max(xs[0], 0), xs[1], few)), y: marks(ticks(ys[0], ys[1], 5)), name: timed ? "time of a run, ms" : "multiply-accumulates in float, %" });
  const y = frame.at.y(found.promised);
  svg.append(drawn("line", { class: "promise", x1: frame.inner.x, x2: frame.inner.x + frame.inner.w, y1: y, y2: y }));
  const front = found.shown.filter((one) => one.front).sort((a, b) => cost(a) - cost(b));
  svg.append(drawn("path", { class: "front", d: front.map((one, n) => (n ? "L" : "M") + frame.at.x(cost(one)) + " " + frame.at.y(one.value)).join("") }));
  const heaviest = Math.max(...found.shown.map((one) => one.weights || 0));
  for (const one of found.shown) {
    const r = heaviest > 0 ? Math.max(3, 9 * Math.sqrt((one.weights || 0) / heaviest)) : 5; // area by bytes
    const point = drawn("circle", { class: "point" + (one.kept ? " kept" : ""), cx: frame.at.x(cost(one)), cy: frame.at.y(one.value), r: r.toFixed(2) });
    point.append(drawn("title", {}, one.name));
    svg.append(point);
    if (one.chosen) svg.append(drawn("circle", { class: "ring", cx: frame.at.x(cost(one)), cy: frame.at.y(one.value), r: (r + 4).toFixed(2) }));
  }
}
