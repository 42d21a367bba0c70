// Addresses over steps: where each tensor is, and when.

const KINDS = ["input", "output", "weight", "constant", "activation"];

// Round addresses as sizes, others exactly.
function addressText(at) {
  if (at % 2 ** 20 === 0 || at < 2 ** 10) return size(at);
  return at % 2 ** 10 === 0 ? `${count(at / 2 ** 10)} KiB` : hex(at);
}

function drawMemory(memory) {
  const regions = data.regions.filter((region) => region.space === memory.space && region.bytes);
  const title = `${memory.space.toUpperCase()}: ${count(regions.length)} tensors up to ${size(memory.top)} of ${size(memory.capacity)}, `
    + `at most ${size(memory.peak_live)} live at once (step ${memory.peak_step}, ${data.steps[memory.peak_step]?.name || "–"})`;
  const place = el("div", { class: "chart", id: `memory-${memory.space}` });
  const controls = el("div", { class: "controls", id: `memory-${memory.space}-controls` });
  const legend = el("div", { class: "legend", id: `memory-${memory.space}-legend` });
  if (!regions.length) {
    byId("memory-maps").append(el("h3", {}, memory.space.toUpperCase()), el("p", { class: "dim" }, "No tensor is kept here from one step to the next."));
    return;
  }
  byId("memory-maps").append(el("h3", {}, title), controls, place, legend);

  const steps = data.steps.length;
  const cycles = data.steps.map(() => 0);
  for (const call of calls) cycles[call.step] += call.cycles;
  const edges = { steps: [...Array(steps + 1).keys()], cycles: [0] };
  for (const each of cycles) edges.cycles.push(edges.cycles.at(-1) + each);
  let scale = "steps";
  const x = { low: 0, high: steps, from: 0, to: steps, least: Math.min(steps, 1) };
  const y = { low: 0, high: memory.top * 1.02, from: 0, to: memory.top * 1.02, least: Math.min(memory.top, 256) };
  const left = 84, right = 14, top = 10, height = 340, curve = 56, foot = loops.length ? 46 : 24;
  const shown = new Set(KINDS);
  let width = 0;
  const picture = svg("svg", { class: "interactive", tabindex: 0, height: top + height + curve + foot, role: "application",
    "aria-label": `${title}. Plus and minus zoom addresses, brackets zoom steps, arrows move, 0 shows all.` });

  // A place on the axis of steps, which may be stretched by cycles.
  const edge = (step) => scale === "steps" ? step : (edges.cycles[step] / edges.cycles[steps]) * steps;
  const px = (place_) => left + ((place_ - x.from) / (x.to - x.from)) * (width - left - right);
  const py = (address) => top + height - ((address - y.from) / (y.to - y.from)) * height;
  const toX = (pixel) => x.from + ((pixel - left) / (width - left - right)) * (x.to - x.from);
  const toY = (pixel) => y.from + ((top + height - pixel) / height) * (y.to - y.from);

  // One box per round, unless they follow each other without a gap.
  const boxes = regions.flatMap((region) => {
    const each = region.bytes / region.count;
    if (region.count === 1 || region.stride === each) return [{ region, low: region.address, high: region.end, name: region.name }];
    const loop = loops.find(({ names }) => names.length === region.count);
    return Array.from({ length: region.count }, (_, turn) => ({ region, turn, low: region.address + turn * region.stride,
      high: region.address + turn * region.stride + each, name: `${loop ? loop.names[turn] : `round ${turn}`} · ${region.name}` }));
  });

  const live = data.steps.map((_, step) => regions.reduce((sum, region) =>
    sum + (shown.has(region.kind) && region.first <= step && step <= region.last ? region.bytes : 0), 0));

  function text({ region, low, high, name }) {
    const times = region.count > 1 ? `\n${region.count} iterations, ${count(region.stride)} B apart, ${count(region.bytes)} B in all` : "";
    return [name, `${region.kind}, ${region.shape.join("x")} ${region.encoding}`,
      `${count(high - low)} B (${size(high - low)}) at ${hex(low)} to ${hex(high - 1)}${times}`,
      `steps ${region.first} to ${region.last}: ${data.steps[region.first]?.name} to ${data.steps[region.last]?.name}`].join("\n");
  }

  function draw() {
    if (!width) return;
    const clip = `clip-${memory.space}`, wide = width - left - right;
    const inner = svg("g", { "clip-path": `url(#${clip})` }), below = svg("g", { "clip-path": `url(#${clip}-live)` });
    const parts = [svg("clipPath", { id: clip }, svg("rect", { x: left, y: top, width: wide, height })),
      svg("clipPath", { id: `${clip}-live` }, svg("rect", { x: left, y: top + height, width: wide, height: curve })),
      svg("rect", { class: "lane", x: left, y: top, width: width - left - right, height })];
    for (const loop of loops) {
      const from = Math.max(left, px(edge(loop.first))), to = Math.min(width - right, px(edge(loop.end)));
      if (to <= from) continue;
      parts.push(svg("line", { x1: from, x2: to, y1: top + height + curve + 33, y2: top + height + curve + 33, stroke: "var(--dim)", "stroke-width": 2 }),
        svg("rect", { x: (from + to) / 2 - 34, y: top + height + curve + 25, width: 68, height: 14, fill: "var(--back)" }),
        svg("text", { class: "axis", x: (from + to) / 2, y: top + height + curve + 37, "text-anchor": "middle" }, `${loop.names.length} iterations`));
    }
    for (const at of ticks(y.from, y.to, 8, 2)) parts.push(
      svg("line", { class: "grid", x1: left, x2: width - right, y1: py(at), y2: py(at) }),
      svg("text", { class: "axis", x: left - 6, y: py(at) + 4, "text-anchor": "end" }, addressText(at)));
    for (const item of boxes) {
      const { region } = item;
      if (!shown.has(region.kind)) continue;
      const from = px(edge(region.first)), to = px(edge(region.last + 1));
      const high = py(item.high), low = py(item.low);
      if (to < left || from > width - right || low < top || high > top + height) continue;
      const tall = Math.max(1.5, low - high);  // nothing is too small to be seen
      const seen = Math.max(high, top), bottom = Math.min(low, top + height), begin = Math.max(from, left);
      const box = svg("g", {}, svg("rect", { class: tall > 7 ? "hot edge" : "hot", x: from, y: low - tall, width: Math.max(1.5, to - from), height: tall,
        fill: `var(--${region.kind})` }));
      const label = bottom - seen >= 13 ? fitting(item.name, Math.min(to, width - right) - begin) : "";
      if (label) box.append(svg("text", { class: "on", x: begin + 4, y: (seen + bottom) / 2 + 4 }, label));
      inner.append(tipped(box, () => text(item)));
    }
    const most = Math.max(1, ...live), base = top + height + curve;
    let line = `M${px(0)} ${base}`;
    live.forEach((bytes, step) => { line += `V${(base - (bytes / most) * (curve - 14)).toFixed(1)}H${px(edge(step + 1)).toFixed(1)}`; });
    below.append(svg("path", { d: `${line}V${base}Z`, fill: "var(--measured)" }));
    parts.push(inner, below, svg("rect", { class: "frame", x: left, y: top, width: width - left - right, height }),
      svg("text", { class: "axis", x: left - 6, y: base - curve + 18, "text-anchor": "end" }, size(most)),
      svg("text", { class: "axis", x: left - 6, y: base, "text-anchor": "end" }, "live"));
    let free = -1;
    for (let step = 0; step < steps; step++) {
      const from = px(edge(step)), to = px(edge(step + 1)), at = (from + to) / 2;
      if (at < left || at > width - right) continue;
      const name = fitting(`${step}: ${shortNames[step]}`, to - from - 10, 6.2) || String(step);
      const half = Math.max(8, name.length * 3.4);
      if (at - half < free) continue;
      free = at + half + 7;
      parts.push(svg("text", { class: "axis", x: at, y: base + 15, "text-anchor": "middle" }, name));
    }
    picture.replaceChildren(...parts);
    picture.dataset.from = Math.round(y.from);
    picture.dataset.to = Math.round(y.to);
  }

  const counts = Object.fromEntries(KINDS.map((kind) => [kind, regions.filter((region) => region.kind === kind)]));
  for (const kind of KINDS.filter((each) => counts[each].length)) {
    const total = counts[kind].reduce((sum, region) => sum + region.bytes, 0);
    legend.append(el("label", {}, el("input", { type: "checkbox", checked: true, onchange: (event) => {
      if (event.target.checked) shown.add(kind); else shown.delete(kind);
      data.steps.forEach((_, step) => { live[step] = regions.reduce((sum, region) =>
        sum + (shown.has(region.kind) && region.first <= step && step <= region.last ? region.bytes : 0), 0); });
      draw();
    } }), " ", swatch(kind), `${kind}: ${count(counts[kind].length)}, ${size(total)}`));
  }
  controls.append(...zoomButtons(y, x, y, draw, " on addresses"));
  if (calls.length) controls.append(...choice("width of a step:", { steps: "equal", cycles: "its cycles" }, "steps", (key) => { scale = key; draw(); }));
  controls.append(el("span", { class: "space" }),
    el("span", { class: "dim" }, "wheel or + − zooms addresses, Shift+wheel or [ ] zooms steps, drag or arrows move"));
  interactive(picture, { x, y, toX, toY, draw });
  picture.addEventListener("pointerleave", hideTip);
  place.append(picture);
  redrawn(place, (now) => { width = now - 2; draw(); });
}
