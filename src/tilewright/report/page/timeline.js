// Steps over time with a lane for each unit.

let zoomTimeline = () => {};

// Busy ticks up to a moment, as corners of a line: from the pieces of the run, or from the calls.
function cumulative(unit, at) {
  const times = [0], sums = [0];
  const pieces = data.activity?.busy[unit];
  if (pieces) {
    const bytes = atob(pieces);
    for (let i = 0; i < bytes.length; i++) {
      const end = Math.min((i + 1) * data.activity.cycles, data.cycles);
      sums.push(sums[i] + (bytes.charCodeAt(i) / 255) * (end - times[i]));
      times.push(end);
    }
    return { times, sums };
  }
  for (const call of calls) {
    if (call.start > times.at(-1)) { sums.push(sums.at(-1)); times.push(call.start); }
    sums.push(sums.at(-1) + call.busy[at]);
    times.push(call.end);
  }
  return { times, sums };
}

function firstAfter(list, value) {
  let low = 0, high = list.length;
  while (low < high) {
    const half = (low + high) >> 1;
    if (list[half] > value) high = half; else low = half + 1;
  }
  return low;
}

function busyUntil({ times, sums }, tick) {
  const after = firstAfter(times, tick);
  if (after >= times.length) return sums.at(-1);
  if (!after) return 0;
  const span = times[after] - times[after - 1];
  return sums[after - 1] + (span ? ((tick - times[after - 1]) / span) * (sums[after] - sums[after - 1]) : 0);
}

function drawTimeline() {
  const place = byId("timeline-chart");
  const details = byId("timeline-details");
  if (!calls.length) {
    place.append(el("p", { class: "dim" }, "The model was not run for this report."));
    return;
  }
  const end = Math.max(data.cycles, calls.at(-1).end);
  const axis = { low: 0, high: end, from: 0, to: end, least: Math.min(end, 64) };
  const left = 78, right = 14, top = 26, gap = 5;
  const lanes = [...(calls.some((call) => layerName(call.step, call.turn)) ? [{ name: "layers", height: 20 }] : []), { name: "steps", height: 26 },
    ...units.map((name, at) => ({ name, at, height: 34, line: cumulative(name, at) }))];
  let y = top;
  for (const lane of lanes) { lane.y = y; y += lane.height + gap; }
  const height = y + 4;
  const starts = calls.map((call) => call.start);
  let width = 0, chosen = -1;
  const picture = svg("svg", { class: "interactive", tabindex: 0, height, role: "application",
    "aria-label": "Timeline. Plus and minus zoom, arrows move, 0 shows all, n and p choose the next and the previous step." });
  const range = el("span", { class: "dim", id: "timeline-range" });
  const toX = (pixel) => axis.from + ((pixel - left) / (width - left - right)) * (axis.to - axis.from);
  const x = (tick) => left + ((tick - axis.from) / (axis.to - axis.from)) * (width - left - right);
  const inside = (value) => Math.max(left, Math.min(width - right, value));
  const callAt = (tick) => Math.max(0, Math.min(calls.length - 1, firstAfter(starts, tick) - 1));

  function boxes(lane, items) {
    const found = [];
    let drawn = -1;
    for (const { start, stop, name, color, index } of items) {
      if (stop <= axis.from || start >= axis.to) continue;
      const from = inside(x(start)), to = inside(x(stop));
      if (to - drawn < 0.7) continue;  // many to a pixel: one stands for all
      drawn = to;
      const box = svg("rect", { class: "hot" + (to - from > 3 ? " edge" : "") + (index === chosen ? " chosen" : ""),
        x: from, y: lane.y, width: Math.max(0.7, to - from), height: lane.height, fill: color });
      if (index !== undefined) box.dataset.call = index;
      found.push(box);
      const label = fitting(name, to - from);
      if (label) found.push(svg("text", { class: "on", x: from + 4, y: lane.y + lane.height / 2 + 4 }, label));
    }
    return found;
  }

  function area(lane) {
    let path = `M${left} ${lane.y + lane.height}`;
    let before = busyUntil(lane.line, axis.from), level = null;
    const step = 1;
    for (let pixel = left; pixel < width - right; pixel += step) {
      const to = Math.min(width - right, pixel + step);
      const now = busyUntil(lane.line, toX(to));
      const share = Math.min(1, (now - before) / (toX(to) - toX(pixel)));
      const here = (lane.y + lane.height * (1 - share)).toFixed(1);
      if (here !== level) { path += `H${pixel.toFixed(1)}V${here}`; level = here; }
      before = now;
    }
    return svg("path", { d: `${path}H${width - right}V${lane.y + lane.height}Z`, fill: `var(--${lane.name})`, "pointer-events": "none" });
  }

  const layerItems = [];
  calls.forEach((call) => {
    const name = layerName(call.step, call.turn), last = layerItems.at(-1);
    if (last && last.name === name && last.stop === call.start) last.stop = call.end;
    else if (name) layerItems.push({ start: call.start, stop: call.end, name, color: "var(--dim)" });
  });
  const stepItems = calls.map((call, index) => ({ start: call.start, stop: call.end, index,
    name: withoutLayer(call.step, layerName(call.step, call.turn)), color: `var(--${binding(call.busy, call.cycles).unit})` }));

  function draw() {
    if (!width) return;
    const parts = [];
    for (const at of ticks(axis.from, axis.to, (width - left - right) / 120))
      parts.push(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: top - 6, y2: height }),
        svg("text", { class: "axis", x: Math.min(x(at), width - 30), y: 14, "text-anchor": "middle" }, count(at)));
    for (const lane of lanes) {
      parts.push(svg("text", { x: left - 8, y: lane.y + lane.height / 2 + 4, "text-anchor": "end" }, lane.name));
      if (lane.name === "layers") parts.push(...boxes(lane, layerItems));
      else if (lane.name === "steps") parts.push(...boxes(lane, stepItems));
      else parts.push(svg("rect", { class: "lane", x: left, y: lane.y, width: width - left - right, height: lane.height }), area(lane));
    }
    picture.replaceChildren(...parts);
    range.textContent = `ticks ${count(axis.from)} to ${count(axis.to)} of ${count(end)}`;
    picture.dataset.from = Math.round(axis.from);
    picture.dataset.to = Math.round(axis.to);
  }

  function choose(index) {
    chosen = index;
    const [name, ...rest] = callText(calls[index]).split("\n");
    details.replaceChildren(el("b", {}, name), " · ", rest.join(" · "));
  }
  function goTo(index) {
    choose(Math.max(0, Math.min(calls.length - 1, index)));
    const call = calls[chosen];
    if (call.start < axis.from || call.end > axis.to) panAxis(axis, (call.start + call.end) / 2 - middle(axis));
  }

  picture.addEventListener("pointermove", (event) => {
    if (event.buttons) return;
    const box = picture.getBoundingClientRect();
    const pixel = event.clientX - box.left, row = event.clientY - box.top;
    const lane = lanes.find((each) => row >= each.y && row <= each.y + each.height);
    if (pixel < left || pixel > width - right || !lane) return hideTip();
    const tick = toX(pixel), call = calls[callAt(tick)];
    if (!lane.line) return showTip(callText(call), event);
    const from = Math.max(0, toX(pixel - 0.5)), to = Math.min(end, toX(pixel + 0.5));
    const share = (busyUntil(lane.line, to) - busyUntil(lane.line, from)) / (to - from || 1);
    const at = `${lane.name} busy ${percent(Math.min(1, share))} around tick ${count(tick)}`;
    const over = `in this step ${percent(call.cycles ? call.busy[lane.at] / call.cycles : 0)}, ${count(call.busy[lane.at])} ticks`;
    showTip(`${at}\n${callName(call.step, call.turn)}\n${over}`, event);
  });
  picture.addEventListener("pointerleave", hideTip);
  picture.addEventListener("click", (event) => {
    const pixel = event.clientX - picture.getBoundingClientRect().left;
    if (pixel >= left) { choose(callAt(toX(pixel))); draw(); }
  });
  picture.addEventListener("dblclick", (event) => {
    const call = calls[callAt(toX(event.clientX - picture.getBoundingClientRect().left))];
    show([call]);
  });

  function show(members) {
    const from = Math.min(...members.map((call) => call.start)), to = Math.max(...members.map((call) => call.end));
    const margin = (to - from) * 0.05;
    axis.from = Math.max(0, from - margin);
    axis.to = Math.min(end, to + margin);
    choose(calls.indexOf(members[0]));
    draw();
  }
  zoomTimeline = (members) => {
    show(members);
    byId("timeline").scrollIntoView({ block: "start" });
    picture.focus({ preventScroll: true });
  };

  interactive(picture, { x: axis, toX, draw, keys: { n: () => goTo(chosen + 1), p: () => goTo(chosen - 1),
    Enter: () => { if (chosen >= 0) show([calls[chosen]]); } } });
  byId("timeline-controls").append(...zoomButtons(axis, axis, null, draw), range, el("span", { class: "space" }),
    el("span", { class: "dim" }, "drag or ← → to move, wheel or + − to zoom, n p for steps, double-click a step to fill the view"));
  place.append(picture);
  redrawn(place, (now) => { width = now - 2; draw(); });
  details.textContent = "Point at a step or press n to read its figures here.";
}
