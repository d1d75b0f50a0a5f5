// Sorts and searches the index, and draws the figures of one tensor from the numbers in the page.
"use strict";

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px,2px", "2px,2px"];
const SYMBOLS = ["circle", "square", "diamond", "cross", "x", "triangle-up", "triangle-down", "star"];
const MARKS = 8; // colours, dashes and symbols before they begin again
const NAME_SHOWN = 44; // characters of a name beside a bar
const ROW_HEIGHT = 20; // pixels per tensor in the summary

// A name as plotly takes it: it understands some HTML in labels.
function label(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

// A long name without its middle.
function shortened(text) {
  const half = (NAME_SHOWN - 1) >> 1;
  return text.length <= NAME_SHOWN ? text : text.slice(0, half) + "…" + text.slice(-half);
}

function number(value) {
  return Number(value.toPrecision(5)).toString();
}

function percent(share) {
  const value = 100 * share;
  return value !== 0 && value < 0.0001 ? value.toExponential(1) : value.toFixed(4);
}

// Compares two lines of the index: names upwards, figures from the largest down; equal ones by their place.
function order(key, descending) {
  const sign = descending ? -1 : 1;
  return (a, b) => {
    const difference = key === "name" ? (a.name < b.name ? -1 : a.name > b.name ? 1 : 0) : a[key] - b[key];
    return sign * difference || a.index - b.index;
  };
}

function matches(words, text) {
  const folded = text.toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => folded.includes(word));
}

// Layout that all figures share.
function frame(colors, height) {
  const axis = { gridcolor: colors.line, zerolinecolor: colors.line, linecolor: colors.faint, automargin: true };
  return {
    height: height,
    paper_bgcolor: colors.paper,
    plot_bgcolor: colors.paper,
    font: { color: colors.ink, family: "system-ui, sans-serif", size: 12 },
    hoverlabel: { font: { family: "system-ui, sans-serif" } },
    legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0, xanchor: "left", itemclick: "toggle" },
    margin: { l: 60, r: 60, t: 96, b: 45 },
    xaxis: { ...axis },
    yaxis: { ...axis },
  };
}

// Bounds of a range that cut something off: 0 is one of every range and is not drawn.
function bounds(choice) {
  return [choice.low, choice.high].filter((bound) => bound !== 0);
}

// Vertical lines from bottom to top with gaps between them.
function verticals(positions, bottom, top) {
  const x = [], y = [];
  for (const position of positions) {
    x.push(position, position, null);
    y.push(bottom, top, null);
  }
  return { x: x, y: y };
}

function methodLine(choice, positions, index, colors, bottom, top) {
  return {
    type: "scatter", mode: "lines", name: label(choice.method), legendgroup: choice.method,
    ...verticals(positions, bottom, top),
    line: { color: colors.methods[index % MARKS], dash: DASHES[index % MARKS], width: 1.5 },
    hovertemplate: label(choice.method) + " %{x:.5g}<br>" + percent(choice.saturated) + " % clipped<extra></extra>",
  };
}

function chosenLine(choice, positions, colors, bottom, top) {
  const line = methodLine(choice, positions, 0, colors, bottom, top);
  line.name = "chosen (" + label(choice.method) + ")";
  line.legendgroup = "chosen range";
  line.line = { color: colors.chosen, width: 2.5 };
  return line;
}

function clippedAreas(tensor, colors) {
  const areas = [];
  const add = (from, to) => areas.push({
    type: "rect", xref: "x", yref: "paper", x0: from, x1: to, y0: 0, y1: 1,
    fillcolor: colors.clipped, line: { width: 0 }, layer: "below",
  });
  if (tensor.observed[0] < tensor.chosen.low) add(tensor.observed[0], tensor.chosen.low);
  if (tensor.observed[1] > tensor.chosen.high) add(tensor.chosen.high, tensor.observed[1]);
  return areas;
}

// What the picture holds: all that was seen, and every range.
function spread(tensor) {
  const choices = [tensor.chosen, ...tensor.methods];
  return [
    Math.min(tensor.observed[0], ...choices.map((choice) => choice.low)),
    Math.max(tensor.observed[1], ...choices.map((choice) => choice.high)),
  ];
}

function histogramFigure(tensor, colors) {
  const { width, below, counts } = tensor.histogram;
  const highest = Math.max(tensor.zeros, 1, ...counts);
  const [bottom, top] = [0.7, highest * 1.6];
  const bars = {
    type: "bar", name: "values", width: width, marker: { color: colors.bars, line: { width: 0 } },
    x: counts.map((_, bin) => (bin - below + 0.5) * width),
    y: counts.map((count) => (count > 0 ? count : null)),
    hovertemplate: "%{y} values about %{x:.5g}<extra></extra>",
  };
  const zeros = {
    type: "scatter", mode: "markers", name: "zeros", x: [0], y: [tensor.zeros],
    marker: { symbol: "diamond", size: 10, color: colors.ink },
    hovertemplate: "%{y} zeros<extra></extra>",
  };
  const data = [bars, ...(tensor.zeros > 0 ? [zeros] : [])];
  tensor.methods.forEach((choice, index) =>
    data.push(methodLine(choice, bounds(choice), index, colors, bottom, top)));
  data.push(chosenLine(tensor.chosen, bounds(tensor.chosen), colors, bottom, top));
  data.push(outline(counts, bars, bottom, colors));
  const layout = frame(colors, 440);
  layout.bargap = 0;
  layout.shapes = clippedAreas(tensor, colors);
  const [left, right] = spread(tensor);
  const room = 0.02 * (right - left || 1);
  Object.assign(layout.xaxis, { title: { text: "value" }, range: [left - room, right + room] });
  Object.assign(layout.yaxis, {
    title: { text: "values per bin" }, ...logarithmic([bottom, top]),
  });
  return { data: data, layout: layout };
}

// The upper edge of the bars as a line over everything else: a spike below a line would not be seen.
function outline(counts, bars, bottom, colors) {
  return {
    type: "scatter", mode: "lines", showlegend: false, hoverinfo: "skip", x: bars.x,
    y: counts.map((count) => Math.max(count, bottom)), line: { color: colors.edge, width: 1, shape: "hvh" },
  };
}

// A logarithmic axis over [low, high]: labels at powers of ten, and between them where there are few.
function logarithmic([low, high]) {
  const decades = Math.log10(high / low);
  return {
    type: "log", exponentformat: "power", range: [Math.log10(low), Math.log10(high)],
    dtick: decades > 8 ? 2 : decades > 1.5 ? 1 : "D2",
  };
}

// Smallest and largest error above 0, a little apart.
function span(errors) {
  const seen = errors.filter((error) => error > 0);
  if (seen.length === 0) return [0.1, 10];
  return [0.7 * seen.reduce((a, b) => Math.min(a, b)), 1.5 * seen.reduce((a, b) => Math.max(a, b))];
}

function curveFigure(tensor, colors) {
  const curves = [
    { name: "KL", unit: "nats", curve: tensor.kl, axis: "y", color: colors.kl, dash: "solid" },
    { name: "MSE", unit: "", curve: tensor.mse, axis: "y2", color: colors.mse, dash: "longdash" },
  ];
  const data = curves.map(({ name, unit, curve, axis, color, dash }) => ({
    type: "scatter", mode: "lines", name: name, x: curve.t, y: curve.e.map((e) => (e > 0 ? e : null)), yaxis: axis,
    line: { color: color, width: 2, dash: dash },
    hovertemplate: name + " %{y:.4g} " + unit + " at %{x:.5g}<extra></extra>",
  }));
  const kl = span(tensor.kl.e);
  tensor.methods.forEach((choice, index) =>
    data.push(methodLine(choice, [choice.threshold], index, colors, kl[0], kl[1])));
  data.push(chosenLine(tensor.chosen, [tensor.chosen.threshold], colors, kl[0], kl[1]));
  const layout = frame(colors, 440);
  Object.assign(layout.xaxis, { title: { text: "threshold" }, rangemode: "tozero" });
  layout.yaxis2 = {
    ...layout.yaxis, ...logarithmic(span(tensor.mse.e)), title: { text: "MSE", font: { color: colors.mse } },
    overlaying: "y", side: "right", showgrid: false,
  };
  Object.assign(layout.yaxis, {
    ...logarithmic(kl), title: { text: "KL, nats", font: { color: colors.kl } },
  });
  return { data: data, layout: layout };
}

function summaryFigure(summary, colors) {
  const places = summary.names.map((_, index) => index);
  const full = summary.names.map(label);
  const bars = {
    type: "bar", orientation: "h", name: "chosen", x: summary.chosen, y: places, text: full, textposition: "none",
    marker: { color: colors.line }, hovertemplate: "%{text}<br>chosen %{x:.4f}<extra></extra>",
  };
  const marks = summary.methods.map(({ method, ratios }, index) => ({
    type: "scatter", mode: "markers", name: label(method), x: ratios, y: places, text: full,
    marker: { color: colors.methods[index % MARKS], symbol: SYMBOLS[index % MARKS], size: 7 },
    hovertemplate: "%{text}<br>" + label(method) + " %{x:.4f}<extra></extra>",
  }));
  const layout = frame(colors, 130 + ROW_HEIGHT * summary.names.length);
  Object.assign(layout.margin, { r: 20, t: 110, b: 20 });
  Object.assign(layout.legend, { yref: "container", yanchor: "top" });
  Object.assign(layout.xaxis, {
    title: { text: "threshold / largest magnitude" }, rangemode: "tozero", side: "top",
  });
  Object.assign(layout.yaxis, {
    tickmode: "array", tickvals: places, ticktext: summary.names.map((name) => label(shortened(name))),
    range: [summary.names.length - 0.5, -0.5], showgrid: false, zeroline: false,
  });
  return { data: [bars, ...marks], layout: layout };
}

// Sentences about a tensor.
function factsOf(tensor) {
  const zeros = tensor.count > 0 ? percent(tensor.zeros / tensor.count) : "0";
  return [
    tensor.count.toLocaleString("en") + " finite values, " + zeros + " % of them 0",
    ...(tensor.others > 0 ? [tensor.others.toLocaleString("en") + " NaN or infinite, shown nowhere"] : []),
    "seen " + number(tensor.observed[0]) + " … " + number(tensor.observed[1]),
    "chosen " + number(tensor.chosen.low) + " … " + number(tensor.chosen.high) + " by " + tensor.chosen.method,
    percent(tensor.chosen.saturated) + " % clipped",
    (100 * tensor.lost).toFixed(1) + " % of the range lost",
  ].join("; ");
}

// Cells of the table of methods, the chosen range first.
function methodRows(tensor) {
  const largest = Math.max(-tensor.observed[0], tensor.observed[1]);
  return [tensor.chosen, ...tensor.methods].map((choice) => [
    choice.method, number(choice.low), number(choice.high), number(choice.threshold),
    largest > 0 ? (choice.threshold / largest).toFixed(4) : "–", percent(choice.saturated),
  ]);
}

// Nothing leaves the page: plotly's own button would send the numbers to a server.
const CONFIG = {
  displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "", topojsonURL: "",
  modeBarButtonsToRemove: ["select2d", "lasso2d"],
};
const element = (id) => document.getElementById(id);
const numbers = (id) => JSON.parse(element(id).textContent);

function currentColors() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue("--" + name).trim();
  const names = ["paper", "ink", "faint", "line", "bars", "edge", "clipped", "chosen", "kl", "mse"];
  const colors = Object.fromEntries(names.map((name) => [name, color(name)]));
  colors.methods = Array.from({ length: MARKS }, (_, index) => color("m" + index));
  return colors;
}

function draw(id, figure, config) {
  return Plotly.react(element(id), figure.data, figure.layout, config);
}

function fillMethods(tensor, colors) {
  const body = element("methods").tBodies[0];
  body.replaceChildren(...methodRows(tensor).map((cells, place) => {
    const row = document.createElement("tr");
    cells.forEach((text, column) => {
      const cell = document.createElement(column === 0 ? "th" : "td");
      if (column === 0) {
        cell.scope = "row";
        const swatch = document.createElement("span");
        swatch.className = "swatch";
        swatch.style.background = place === 0 ? colors.chosen : colors.methods[(place - 1) % MARKS];
        cell.append(swatch, place === 0 ? "chosen: " + text : text);
      } else {
        cell.textContent = text;
      }
      row.append(cell);
    });
    row.className = place === 0 ? "chosen" : "";
    return row;
  }));
}

function showTensor(index) {
  const tensor = numbers("tensor-" + index);
  const colors = currentColors();
  element("tensor-name").textContent = tensor.name;
  element("tensor-facts").textContent = factsOf(tensor);
  fillMethods(tensor, colors);
  draw("histogram-chart", histogramFigure(tensor, colors), CONFIG);
  draw("curve-chart", curveFigure(tensor, colors), CONFIG);
}

function showSummary() {
  const chart = element("summary-chart");
  const figure = summaryFigure(numbers("summary-data"), currentColors());
  draw("summary-chart", figure, { ...CONFIG, displayModeBar: false }).then(() => {
    chart.removeAllListeners("plotly_click");
    chart.on("plotly_click", (event) => { location.hash = "#" + event.points[0].pointNumber; });
  });
}

// Scrolls the list, and never the page.
function bringIntoView(row) {
  const list = element("list"), head = element("index").tHead.offsetHeight;
  if (row.offsetTop - head < list.scrollTop) list.scrollTop = row.offsetTop - head;
  const hidden = row.offsetTop + row.offsetHeight - list.scrollTop - list.clientHeight;
  if (hidden > 0) list.scrollTop += hidden;
}

function show() {
  const index = location.hash.slice(1);
  const known = /^\d+$/.test(index) && element("tensor-" + index) !== null;
  element("tensor-view").hidden = !known;
  element("summary-view").hidden = known;
  for (const row of element("index").tBodies[0].rows) {
    const current = known && row.dataset.index === index;
    row.toggleAttribute("aria-current", current);
    if (current) {
      row.setAttribute("aria-current", "true");
      bringIntoView(row);
    }
  }
  if (known) showTensor(index); else showSummary();
}

function sortIndex(button) {
  const header = button.closest("th");
  const key = button.dataset.sort;
  const before = header.getAttribute("aria-sort");
  const descending = before === null ? key !== "name" : before === "ascending";
  for (const other of header.parentElement.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const body = element("index").tBodies[0];
  const lines = Array.from(body.rows, (row) => ({
    row: row, index: Number(row.dataset.index), name: row.dataset.name,
    saturated: Number(row.dataset.saturated), lost: Number(row.dataset.lost),
  }));
  body.append(...lines.sort(order(key, descending)).map((line) => line.row));
}

function searchIndex() {
  const rows = Array.from(element("index").tBodies[0].rows);
  for (const row of rows) row.hidden = !matches(element("search").value, row.cells[0].textContent + " " + row.cells[1].textContent);
  element("found").textContent = rows.filter((row) => !row.hidden).length + " of " + rows.length + " tensors";
}

function start() {
  element("search").addEventListener("input", searchIndex);
  for (const button of document.querySelectorAll("button[data-sort]")) {
    button.addEventListener("click", () => sortIndex(button));
  }
  window.addEventListener("hashchange", show);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

if (typeof document !== "undefined") start();
if (typeof module !== "undefined") {
  module.exports = { CONFIG, curveFigure, factsOf, histogramFigure, label, matches, methodRows, order, shortened, summaryFigure };
}
