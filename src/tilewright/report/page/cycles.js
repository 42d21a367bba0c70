// Cycles per step or layer: a bar chart that follows the order of a table.

const MOST_BARS = 60;

function drawCycles() {
  const place = byId("cycles-chart");
  let order = [], more = 0, width = 0;
  const measured = calls.length > 0;
  const bounded = data.steps.some((step) => step.bound);

  function chart() {
    if (!width || !order.length) return;
    const longest = Math.max(6, ...order.map((row) => row.name.length));
    const left = Math.min(Math.max(110, width * 0.24), longest * 7 + 16), right = 130, bar = 9, each = 3, gap = 12, top = 24;
    const high = Math.max(1, ...order.map((row) => Math.max(row.cycles || 0, row.bound)));
    const used = units.map((_, at) => at).filter((at) => order.some((row) => row.busy[at]));
    const tall = bar + (measured ? used.length * each + 2 : 0) + gap;
    const x = (value) => left + (value / high) * (width - left - right);
    const picture = svg("svg", { style: `width: ${width}px`, height: top + order.length * tall + 4, role: "img",
      "aria-label": "Cycles of each row of the table below, with its bound and the busy ticks of its units" });
    for (const at of ticks(0, high, Math.max(2, (width - left - right) / 110)))
      picture.append(
        svg("line", { class: "grid", x1: x(at), x2: x(at), y1: top - 4, y2: top + order.length * tall }),
        svg("text", { class: "axis", x: x(at), y: 14, "text-anchor": "middle" }, short(at)));
    picture.append(svg("text", { class: "axis", x: left - 8, y: 14, "text-anchor": "end" }, "cycles"));
    order.forEach((row, at) => {
      const y = top + at * tall;
      const parts = [svg("rect", { x: 0, y: y - gap / 2, width, height: tall, fill: "transparent" }),
        svg("text", { x: left - 8, y: y + tall / 2 - 2, "text-anchor": "end" }, fitting(row.name, left - 8, 7))];
      if (measured) {
        parts.push(svg("rect", { x: left, y, width: x(row.cycles) - left, height: bar, fill: "var(--measured)" }));
        used.forEach((unit, line) => parts.push(svg("rect", { x: left, y: y + bar + 2 + line * each,
          width: x(row.busy[unit]) - left, height: each - 0.6, fill: `var(--${units[unit]})` })));
      }
      if (row.bound) parts.push(svg("rect", { x: x(row.bound) - 1, y: y - 2, width: 2, height: bar + 4, fill: "var(--text)" }));
      const end = Math.max(row.cycles || 0, row.bound);
      parts.push(svg("text", { class: "axis", x: x(end) + 6, y: y + bar },
        measured ? short(row.cycles) + (row.bound ? ` · ${ratio(row.cycles / row.bound)}×` : "") : short(row.bound)));
      picture.append(tipped(svg("g", {}, parts), rowText(row)));
    });
    place.replaceChildren(picture);
    if (more) place.append(el("p", { class: "left-out" }, `${count(more)} more rows in the table; sort it to see others here`));
  }

  function rowText(row) {
    const lines = [row.name];
    if (measured) lines.push(`${count(row.cycles)} cycles in ${count(row.calls.length)} calls`);
    if (row.bound) lines.push(`bound ${count(row.bound)}` + (measured ? `, ${ratio(row.cycles / row.bound)} times the bound` : ""));
    if (measured) units.forEach((name, at) => lines.push(`${name} busy ${count(row.busy[at])} ticks, ${percent(row.busy[at] / (row.cycles || 1))}`));
    return lines.join("\n");
  }

  const total = data.cycles || 0;
  const columns = [
    { title: "step", value: (row) => row.name, show: (row) => el("span", { title: row.step === undefined ? null : data.steps[row.step].name }, row.name) },
    { title: "kernel", value: (row) => row.kernel },
    { title: "cycles", number: true, value: (row) => row.cycles, show: (row) => row.cycles === null ? null : count(row.cycles) },
    { title: "of all %", number: true, hint: "share of the cycles of the model, in percent", value: (row) => row.cycles,
      show: (row) => row.cycles === null || !total ? null : points(row.cycles / total) },
    { title: "bound", number: true, hint: "cycles no program for the step can beat", value: (row) => row.bound || null,
      show: (row) => row.bound ? count(row.bound) : null },
    { title: "ratio", number: true, hint: "cycles over bound", value: (row) => row.bound && row.cycles !== null ? row.cycles / row.bound : null,
      show: (row) => row.bound && row.cycles !== null ? ratio(row.cycles / row.bound) : null },
    { title: "above", number: true, hint: "cycles above the bound: what is there to win",
      value: (row) => row.bound && row.cycles !== null ? row.cycles - row.bound : null,
      show: (row) => row.bound && row.cycles !== null ? count(row.cycles - row.bound) : null },
    { title: "limited by", hint: "the busiest unit; latency where none is busy for half of the time",
      value: (row) => row.binding ? row.binding.unit : null,
      show: (row) => row.binding ? el("span", {}, swatch(row.binding.unit), row.binding.unit) : null },
    ...units.map((name, at) => ({ title: name, number: true, hint: `share of the cycles in which ${name} is busy, in percent`,
      value: (row) => row.cycles ? row.busy[at] / row.cycles : null,
      show: (row) => row.cycles ? el("span", { class: "cell", title: `${count(row.busy[at])} ticks`,
        style: `--color: var(--${name}); --share: ${percent(Math.min(1, row.busy[at] / row.cycles)).replace(" ", "")}` },
        points(row.busy[at] / row.cycles)) : null })),
    { title: "DRAM", number: true, hint: "bytes read from and written to DRAM", value: (row) => row.bytes,
      show: (row) => row.bytes === null ? null : el("span", { title: `${count(row.bytes)} B` }, size(row.bytes)) },
    { title: "MACs", number: true, value: (row) => row.macs, show: (row) => el("span", { title: count(row.macs) }, short(row.macs)) },
    ...(measured ? [{ title: "time", hint: "show it in the timeline", value: (row) => row.calls[0]?.start ?? null, show: (row) => row.calls.length
      ? el("button", { type: "button", class: "link", "aria-label": `show ${row.name} in the timeline`, onclick: () => zoomTimeline(row.calls) }, "show") : null }] : []),
  ].filter((column) => bounded || !["bound", "ratio", "above"].includes(column.title)).filter((column) => measured || !["cycles", "of all %", "ratio", "above", "limited by", "DRAM", ...units].includes(column.title));

  const table = makeTable(byId("cycles-table"), {
    columns, caption: measured ? "Columns of units: percent of the row's cycles in which the unit is busy." : "", rows: rowsBySteps(), children: singleRows, label: (row) => row.name, wrap: 26,
    ordered: (rows) => { order = rows.slice(0, MOST_BARS); more = rows.length - order.length; chart(); },
  });
  if (calls.length && rowsByLayers().length < calls.length) {
    const steps = loops.length ? "step, all iterations" : "step";
    byId("cycles-controls").append(
      ...choice("one row per", { steps, layers: "layer, all steps" }, "steps",
        (key) => table.replace(key === "steps" ? rowsBySteps() : rowsByLayers())),
      el("span", { class: "space" }),
      el("button", { type: "button", onclick: () => table.openAll(true) }, "open all"),
      el("button", { type: "button", onclick: () => table.openAll(false) }, "close all"));
  }
  byId("cycles-legend").append(
    ...(measured ? [el("span", {}, swatch("measured"), "cycles")] : []),
    ...(bounded ? [el("span", {}, el("i", { class: "tick" }), "bound")] : []),
    ...(measured ? units.map((name) => el("span", {}, swatch(name), `${name} busy`)) : []));
  redrawn(place, (now) => { width = now - 20; chart(); });  // room for a scroll bar
}
