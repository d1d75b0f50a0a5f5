// Sorts and searches the layers, and shows the one that is selected in the table, the network and the charts.
"use strict";

const byId = (id) => document.getElementById(id);
const numbers = (id) => { const held = byId(id); return held === null ? null : JSON.parse(held.textContent); };
const state = { layer: null, tensor: null, network: null };

// Compares rows: names upwards first, figures from the worst; what has no figure stands last.
function order(key, descending) {
  const sign = descending ? -1 : 1;
  return (a, b) => {
    const left = a[key], right = b[key];
    if (left === null || right === null) return (left === null) - (right === null) || a.index - b.index;
    return sign * (left < right ? -1 : left > right ? 1 : 0) || a.index - b.index;
  };
}

function matches(words, text) {
  const folded = text.toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => folded.includes(word));
}

function sortLayers(button) {
  const header = button.closest("th"), key = button.dataset.sort;
  const before = header.getAttribute("aria-sort");
  const first = button.dataset.first === "descending";
  const descending = before === null ? first : before === "ascending";
  for (const other of header.parentElement.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const body = byId("layers-table").tBodies[0];
  const figure = (text) => (text === undefined || text === "" ? null : text === "inf" ? Infinity : text === "-inf" ? -Infinity : Number(text));
  const rows = Array.from(body.rows, (row) => ({
    row: row, index: Number(row.dataset.index), name: row.cells[0].textContent.trim().toLowerCase(), op: row.dataset.op,
    precision: row.dataset.precision, local: figure(row.dataset.local), cumulative: figure(row.dataset.cumulative),
    weights: figure(row.dataset.weights), clipped: figure(row.dataset.clipped),
  }));
  body.append(...rows.sort(order(key, descending)).map((one) => one.row));
}

function searchLayers() {
  const rows = Array.from(byId("layers-table").tBodies[0].rows), words = byId("search").value;
  const told = (row) => [row.cells[0].textContent, row.dataset.op, row.dataset.precision, row.cells[7].textContent].join(" ");
  for (const row of rows) row.hidden = !matches(words, told(row));
  byId("found").textContent = rows.filter((row) => !row.hidden).length + " of " + rows.length + " layers";
}

// Scrolls the list, and never the page.
function bringIntoView(row) {
  const list = byId("layers-list"), head = byId("layers-table").tHead.offsetHeight;
  if (row.offsetTop - head < list.scrollTop) list.scrollTop = row.offsetTop - head;
  const hidden = row.offsetTop + row.offsetHeight - list.scrollTop - list.clientHeight;
  if (hidden > 0) list.scrollTop += hidden;
}

function fact(list, label, value) {
  if (value) list.append(element("div", {}, element("dt", {}, label), element("dd", {}, value)));
}

function showLayer(index) {
  const layer = numbers("layer-data-" + index);
  if (layer === null) return;
  state.layer = layer;
  byId("layer-name").replaceChildren(...breakable(layer.name));
  const facts = byId("layer-facts");
  facts.replaceChildren();
  fact(facts, "op", layer.op || "input of the model");
  fact(facts, "computed in", layer.precision + (layer.why ? ": " + layer.why : ""));
  fact(facts, "SQNR, this layer alone", layer.local);
  fact(facts, "SQNR, all up to here", layer.cumulative);
  fact(facts, "SQNR of the weights", layer.weights_db);
  fact(facts, "multiply-accumulates", layer.macs);
  fact(facts, "computed together with", layer.parts.join(", "));
  const choice = byId("layer-tensors");
  choice.replaceChildren();
  layer.tensors.forEach((tensor, n) => {
    const button = element("button", { type: "button", class: "button", "aria-pressed": "false" }, n === 0 ? "yields " : "reads ", ...breakable(tensor.name));
    button.addEventListener("click", () => showTensor(n));
    choice.append(button);
  });
  byId("weights-figure").hidden = layer.weights === null;
  if (layer.weights !== null) {
    const joined = layer.weights.together > 1 ? ", " + layer.weights.together + " neighbours in one bar" : "";
    byId("weights-caption").textContent = "Smallest and largest weight of each of the " + layer.weights.count + " output channels" + joined + ".";
    drawWeights(byId("weights-chart"), layer.weights);
  }
  byId("activations").hidden = layer.tensors.length === 0;
  state.tensor = null;
  if (layer.tensors.length > 0) showTensor(0);
}

function showTensor(place) {
  const tensor = numbers("tensor-data-" + state.layer.tensors[place].place);
  state.tensor = tensor;
  Array.from(byId("layer-tensors").children).forEach((button, n) => button.setAttribute("aria-pressed", String(n === place)));
  byId("tensor-facts").textContent = tensor.facts;
  byId("tensor-name").replaceChildren(...breakable(tensor.name));
  byId("histogram-figure").hidden = tensor.counts === null;
  byId("codes-figure").hidden = tensor.codes === "";
  if (tensor.counts !== null) {
    byId("histogram-chart").setAttribute("aria-label", "Histogram of " + tensor.name + ": " + tensor.facts);
    drawHistogram(byId("histogram-chart"), tensor);
  }
  if (tensor.codes !== "") drawCodes(byId("codes-chart"), tensor);
}

function redraw() {
  if (state.layer !== null && state.layer.weights !== null) drawWeights(byId("weights-chart"), state.layer.weights);
  if (state.tensor !== null && state.tensor.counts !== null) drawHistogram(byId("histogram-chart"), state.tensor);
  if (state.tensor !== null && state.tensor.codes !== "") drawCodes(byId("codes-chart"), state.tensor);
  if (state.network !== null) state.network.apply();
  const found = numbers("candidates-data");
  if (found !== null) drawCandidates(byId("candidates-chart"), found);
}

// Shows a layer everywhere. ``from`` says where it was chosen: that place is left where it is.
function select(index, from) {
  for (const row of byId("layers-table").tBodies[0].rows) {
    const current = Number(row.dataset.index) === index;
    if (!current) { row.removeAttribute("aria-current"); continue; }
    row.setAttribute("aria-current", "true");
    if (from !== "table") bringIntoView(row);
  }
  if (state.network !== null) state.network.select(index, from !== "network");
  showLayer(index);
  if (byId("network-chosen") !== null) {
    const link = element("a", { href: "#tensors" }, state.layer.name);
    byId("network-chosen").replaceChildren("Selected: ", link, state.layer.local ? ", " + state.layer.local + " alone" : "");
  }
}

function selectByAddress(event) {
  const known = /^#layer-(\d+)$/.exec(location.hash);
  if (known === null || byId("layer-data-" + known[1]) === null) return;
  select(Number(known[1]), event ? "table" : "start");
  if (event) {
    byId("tensors").scrollIntoView();
    byId("layer-name").focus({ preventScroll: true });
  }
}

function startNetwork() {
  const data = numbers("network-data");
  if (data === null) return;
  state.network = new Network(byId("network-svg"), data, (layer) => select(layer, "network"));
  for (const radio of document.querySelectorAll("input[name=colour]")) {
    radio.addEventListener("change", () => {
      state.network.colourBy(radio.value);
      byId("legend-loss").hidden = radio.value === "precision";
      byId("legend-precision").hidden = radio.value !== "precision";
    });
    if (radio.checked) state.network.colourBy(radio.value);
  }
  byId("legend-loss").hidden = document.querySelector("input[name=colour]:checked").value === "precision";
  byId("legend-precision").hidden = !byId("legend-loss").hidden;
  const actions = { "zoom-in": () => state.network.zoom(1.25), "zoom-out": () => state.network.zoom(0.8), "zoom-all": () => state.network.all() };
  for (const [id, action] of Object.entries(actions)) byId(id).addEventListener("click", action);
  const blocks = byId("open-all");
  if (blocks !== null) blocks.addEventListener("click", () => {
    const open = blocks.getAttribute("aria-pressed") !== "true";
    blocks.setAttribute("aria-pressed", String(open));
    state.network.openAll(open);
  });
}

function start() {
  startNetwork();
  if (byId("layers-table") !== null) {
    byId("search").addEventListener("input", searchLayers);
    for (const button of document.querySelectorAll("button[data-sort]")) button.addEventListener("click", () => sortLayers(button));
    window.addEventListener("hashchange", selectByAddress);
    const first = /^#layer-\d+$/.test(location.hash) ? null : byId("layers-table").tBodies[0].rows[0];
    if (first) { showLayer(Number(first.dataset.index)); } else selectByAddress(null);
  }
  redraw();
  let waiting = false;
  window.addEventListener("resize", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; redraw(); });
  });
}

start();
