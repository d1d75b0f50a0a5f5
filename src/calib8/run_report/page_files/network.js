// The network as a drawing: rows from Python, heights by what is open, colours by loss or precision.
"use strict";

const NODE = { width: 168, height: 42, gapX: 26, gapY: 30, inside: 8 };
const LIMITS = [10, 20, 30, 40]; // dB that part the colours of losses
const WIDE_ENOUGH = 24; // characters of a name in a node

// Class of a loss: q0 is the worst.
function lossClass(value) {
  if (value === null || value === undefined) return "";
  return "q" + LIMITS.filter((limit) => value === "inf" || value >= limit).length;
}

function decibel(value) {
  return value === null || value === undefined ? "" : value === "inf" ? "exact" : value.toFixed(1);
}

// The end of a long name, which tells more than its beginning.
function tail(text, most) {
  return text.length <= most ? text : "…" + text.slice(1 - most);
}

class Network {
  constructor(svg, data, onSelect) {
    this.svg = svg;
    this.data = data;
    this.onSelect = onSelect;
    this.open = new Set();
    this.colour = "local";
    this.selected = null;
    this.itemOf = new Map();
    data.items.forEach((item, index) => item.nodes.forEach((node) => this.itemOf.set(node, index)));
    this.view = { x: 0, y: 0, scale: 1 };
    this.draw();
    this.home();
    this.listen();
  }

  heightOf(index) {
    const count = this.open.has(index) ? this.data.items[index].nodes.length : 1;
    return count * NODE.height + (count - 1) * NODE.inside;
  }

  // Top of every row, and the height of all.
  measure() {
    const heights = new Array(this.data.rows).fill(NODE.height);
    this.data.items.forEach((item, index) => { heights[item.row] = Math.max(heights[item.row], this.heightOf(index)); });
    this.heights = heights;
    this.tops = [];
    let y = 0;
    for (const one of heights) { this.tops.push(y); y += one + NODE.gapY; }
    this.size = { width: Math.max(this.data.width, 1) * (NODE.width + NODE.gapX), height: Math.max(y - NODE.gapY, NODE.height) };
  }

  middle(x) { return x * (NODE.width + NODE.gapX); }

  draw() {
    this.measure();
    const edges = drawn("g", {}), nodes = drawn("g", {});
    this.groups = new Map();
    for (const edge of this.data.edges) edges.append(drawn("path", { class: "edge", d: this.way(edge) }));
    this.data.items.forEach((item, index) => this.drawItem(nodes, item, index));
    this.svg.replaceChildren(edges, nodes);
    this.paint();
    this.apply();
  }

  way(edge) {
    const from = this.data.items[edge[0]], to = this.data.items[edge[1]];
    const points = [[this.middle(from.x), this.tops[from.row] + this.heightOf(edge[0])]];
    edge[2].forEach((x, n) => {
      const row = from.row + 1 + n;
      points.push([this.middle(x), this.tops[row]], [this.middle(x), this.tops[row] + this.heights[row]]);
    });
    points.push([this.middle(to.x), this.tops[to.row]]);
    let path = "M" + points[0].map((one) => one.toFixed(1)).join(" ");
    for (let n = 1; n < points.length; n++) {
      const [x0, y0] = points[n - 1], [x1, y1] = points[n], mid = (y0 + y1) / 2;
      path += "C" + [x0, mid, x1, mid, x1, y1].map((one) => one.toFixed(1)).join(" ");
    }
    return path;
  }

  drawItem(parent, item, index) {
    const x = this.middle(item.x) - NODE.width / 2, y = this.tops[item.row];
    if (item.nodes.length > 1 && !this.open.has(index)) {
      const names = item.nodes.map((node) => this.data.nodes[node].op || "input");
      const group = this.card(parent, x, y, item.nodes.length + " nodes", "chain: " + tail(names.join(", "), WIDE_ENOUGH - 7), item.nodes);
      group.classList.add("block");
      group.dataset.item = String(index);
      return;
    }
    item.nodes.forEach((node, n) => {
      const one = this.data.nodes[node];
      const group = this.card(parent, x, y + n * (NODE.height + NODE.inside), one.op || "input", tail(one.name, WIDE_ENOUGH), [node]);
      group.dataset.node = String(node);
      if (n > 0) parent.prepend(drawn("path", { class: "edge", d: "M" + this.middle(item.x) + " " + (y + n * (NODE.height + NODE.inside) - NODE.inside) + "v" + NODE.inside }));
    });
  }

  card(parent, x, y, title, sub, members) {
    const group = drawn("g", { class: "node", transform: "translate(" + x.toFixed(1) + " " + y.toFixed(1) + ")" });
    group.append(drawn("title", {}, members.length === 1 ? this.data.nodes[members[0]].name : title));
    group.append(drawn("rect", { class: "body", width: NODE.width, height: NODE.height, rx: 6 }));
    group.append(drawn("rect", { class: "stripe", width: 6, height: NODE.height - 8, x: 4, y: 4, rx: 3 }));
    group.append(drawn("text", { class: "op", x: 18, y: 18 }, title));
    group.append(drawn("text", { class: "sub", x: 18, y: 33 }, sub));
    group.append(drawn("text", { class: "sub figure", x: NODE.width - 9, y: 18, "text-anchor": "end" }));
    for (const node of members) this.groups.set(node, group);
    group.members = members;
    parent.append(group);
    return group;
  }

  // What a node is coloured by: of a chain the worst.
  figure(node) {
    const layer = this.data.nodes[node].layer;
    if (layer === null || this.colour === "precision") return null;
    return this.data.losses[layer][this.colour === "local" ? 0 : 1];
  }

  paint() {
    for (const group of new Set(this.groups.values())) {
      const stripe = group.querySelector(".stripe"), text = group.querySelector(".figure");
      const figures = group.members.map((node) => this.figure(node)).filter((one) => one !== null);
      const worst = figures.reduce((a, b) => (a === null || a === "inf" || (b !== "inf" && b < a) ? b : a), null);
      const kinds = group.members.map((node) => this.data.nodes[node].precision);
      const kind = ["float", "wide", "int8", "input"].find((one) => kinds.includes(one));
      stripe.setAttribute("class", "stripe " + (this.colour === "precision" ? kind : lossClass(worst)));
      text.textContent = this.colour === "precision" ? "" : decibel(worst);
      group.classList.toggle("selected", this.selected !== null && group.members.some((node) => this.data.nodes[node].layer === this.selected));
    }
  }

  colourBy(what) { this.colour = what; this.paint(); }

  toggle(index, open) {
    if (open) this.open.add(index); else this.open.delete(index);
    this.draw();
  }

  openAll(open) {
    this.data.items.forEach((item, index) => { if (item.nodes.length > 1 && open) this.open.add(index); });
    if (!open) this.open.clear();
    this.draw();
  }

  // Marks a layer and brings it into view, out of its block where it is in one.
  select(layer, bring) {
    this.selected = layer;
    const node = this.data.nodes.findIndex((one) => one.layer === layer);
    if (node < 0) { this.paint(); return; }
    const index = this.itemOf.get(node);
    if (this.data.items[index].nodes.length > 1 && !this.open.has(index)) this.open.add(index);
    this.draw();
    if (bring) {
      const item = this.data.items[index], place = item.nodes.indexOf(node);
      this.centre(this.middle(item.x), this.tops[item.row] + place * (NODE.height + NODE.inside) + NODE.height / 2);
    }
  }

  box() {
    const box = this.svg.getBoundingClientRect();
    return { width: box.width || 600, height: box.height || 400, left: box.left, top: box.top };
  }

  apply() {
    const box = this.box();
    const parts = [this.view.x, this.view.y, box.width / this.view.scale, box.height / this.view.scale];
    this.svg.setAttribute("viewBox", parts.map((one) => one.toFixed(2)).join(" "));
  }

  // The top of the network at a size that can be read.
  home() {
    const box = this.box(), room = 24;
    const fits = (box.width - 2 * room) / this.size.width;
    this.view.scale = Math.min(1, Math.max(fits, 0.8));
    const first = this.data.items[0], middle = fits < this.view.scale && first ? this.middle(first.x) : this.size.width / 2;
    this.centre(middle, box.height / 2 / this.view.scale - room);
  }

  all() {
    const box = this.box(), room = 24;
    this.view.scale = Math.min(1, (box.width - 2 * room) / this.size.width, (box.height - 2 * room) / this.size.height);
    this.centre(this.size.width / 2, this.size.height / 2);
  }

  centre(x, y) {
    const box = this.box();
    this.view.x = x - box.width / this.view.scale / 2;
    this.view.y = y - box.height / this.view.scale / 2;
    this.apply();
  }

  zoom(factor, atX, atY) {
    const box = this.box();
    const x = atX === undefined ? box.width / 2 : atX, y = atY === undefined ? box.height / 2 : atY;
    const scale = Math.min(3, Math.max(0.02, this.view.scale * factor));
    this.view.x += x / this.view.scale - x / scale;
    this.view.y += y / this.view.scale - y / scale;
    this.view.scale = scale;
    this.apply();
  }

  pan(dx, dy) {
    this.view.x -= dx / this.view.scale;
    this.view.y -= dy / this.view.scale;
    this.apply();
  }

  clicked(target) {
    const group = target.closest ? target.closest(".node") : null;
    if (group === null) return;
    if (group.dataset.item !== undefined) { this.toggle(Number(group.dataset.item), true); return; }
    const layer = this.data.nodes[Number(group.dataset.node)].layer;
    if (layer !== null) this.onSelect(layer);
  }

  listen() {
    const pointers = new Map();
    let moved = 0;
    this.svg.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      moved = 0;
    });
    this.svg.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (before === undefined) return;
      const now = [event.clientX, event.clientY], box = this.box();
      if (pointers.size === 2) {
        const other = [...pointers.entries()].find(([id]) => id !== event.pointerId)[1];
        const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
        const mid = [(now[0] + other[0]) / 2 - box.left, (now[1] + other[1]) / 2 - box.top];
        this.zoom(apart(now, other) / apart(before, other), mid[0], mid[1]);
        this.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
      } else {
        this.pan(now[0] - before[0], now[1] - before[1]);
      }
      moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
      pointers.set(event.pointerId, now);
      if (moved > 4) { this.svg.classList.add("dragged"); this.svg.setPointerCapture(event.pointerId); }
    });
    const ended = (event) => { pointers.delete(event.pointerId); this.svg.classList.remove("dragged"); };
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) this.svg.addEventListener(name, ended);
    this.svg.addEventListener("click", (event) => { if (moved <= 4) this.clicked(event.target); });
    this.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = this.box();
      this.zoom(2 ** (-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    this.svg.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (moves[event.key]) this.pan(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") this.zoom(1.25);
      else if (event.key === "-") this.zoom(0.8);
      else if (event.key === "0") this.all();
      else return;
      event.preventDefault();
    });
  }
}
