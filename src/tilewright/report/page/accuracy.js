// Errors of every layer: a plot over the order of execution, and a table with the worst first.

function drawAccuracy() {
  const layers = data.layers;
  if (!layers.length) return;
  const place = byId("accuracy-chart");
  const measure = layers.some((layer) => layer.relative !== null) ? "relative"
    : layers.some((layer) => layer.max_abs !== null) ? "max_abs" : null;
  const names = { relative: "relative error against float32", max_abs: "largest error against float32" };
  const worstFirst = (a, b) => (b[measure] ?? -1) - (a[measure] ?? -1);

  function chart(width) {
    const values = layers.map((layer) => layer[measure]).filter((value) => value > 0 && value < 1e300);
    if (!values.length) return;
    const left = 78, right = 20, top = 22, height = 190;
    let low = Math.floor(Math.log10(Math.min(...values))), high = Math.ceil(Math.log10(Math.max(...values)));
    if (low === high) low -= 1;
    const x = (at) => left + ((at + 0.5) / layers.length) * (width - left - right);
    const y = (value) => top + height - ((Math.log10(Math.min(Math.max(value, 10 ** low), 10 ** high)) - low) / (high - low)) * height;
    const picture = svg("svg", { height: top + height + 26, role: "img", "aria-label": `${names[measure]}, layer by layer` });
    for (let power = low; power <= high; power++) picture.append(
      svg("line", { class: "grid", x1: left, x2: width - right, y1: y(10 ** power), y2: y(10 ** power) }),
      svg("text", { class: "axis", x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, `1e${power}`));
    picture.append(svg("text", { class: "axis", x: left, y: 12 }, fitting(names[measure] + ", logarithmic; layers in the order of execution", width - left - right, 6.4)));
    let before = null;
    layers.forEach((layer, at) => {
      if (layer.layer && layer.layer !== before) {
        const room = x(at + 1) - x(at);
        picture.append(svg("line", { class: "grid", x1: x(at) - room / 2, x2: x(at) - room / 2, y1: top, y2: top + height + 6 }));
        const members = layers.filter((other) => other.layer === layer.layer).length;
        const label = fitting(layer.layer, room * members, 6);
        if (label) picture.append(svg("text", { class: "axis", x: x(at) - room / 2 + 3, y: top + height + 18 }, label));
      }
      before = layer.layer;
    });
    layers.forEach((layer, at) => {
      if (layer[measure] === null) return;
      const wrong = layer.exact === false;
      const dot = wrong
        ? svg("path", { d: `M${x(at) - 5} ${y(layer[measure]) - 5}l10 10m0 -10l-10 10`, stroke: "var(--bad)", "stroke-width": 2.5 })
        : svg("circle", { class: "hot", cx: x(at), cy: y(layer[measure]), r: 3.5, fill: layer.fp8 ? "var(--fp8)" : "var(--bf16)" });
      picture.append(tipped(dot, [layer.name, `relative ${small(layer.relative)}, largest ${small(layer.max_abs)}, cosine ${cosine(layer.cosine)}`,
        layer.exact === null ? "" : wrong ? `${layer.status || "no"}: differs from the quantised reference` : "equal to the quantised reference", layer.formats].filter(Boolean).join("\n")));
    });
    const worst = [...layers].map((layer, at) => ({ layer, at })).sort((a, b) => worstFirst(a.layer, b.layer))[0];
    const near = x(worst.at) > width / 2;
    picture.append(svg("text", { class: "halo", x: x(worst.at) + (near ? -9 : 9), y: y(worst.layer[measure]) + 4, "text-anchor": near ? "end" : "start" },
      fitting(`worst: ${worst.layer.name}`, near ? x(worst.at) - left : width - x(worst.at), 7)));
    place.replaceChildren(picture, el("div", { class: "legend" },
      ...(layers.some((layer) => layer.fp8) ? [el("span", {}, swatch("fp8"), "fp8 operands"), el("span", {}, swatch("bf16"), "bf16 only")] : []),
      ...(layers.some((layer) => layer.exact === false) ? [el("span", { class: "bad" }, "× differs from the quantised reference")] : [])));
  }

  const columns = [
    { title: "layer", key: "name", value: (layer) => layer.name },
    { title: "exact", key: "exact", hint: "equal to the quantised reference in every bit", value: (layer) => layer.exact === null ? null : layer.exact ? "yes" : "no",
      show: (layer) => layer.exact === null ? null : el("span", { class: layer.exact ? "good" : "bad" }, layer.status || (layer.exact ? "yes" : "no")) },
    { title: "relative error", key: "relative", number: true, hint: "norm of the difference to float32 over norm of the values", value: (layer) => layer.relative, show: (layer) => small(layer.relative) },
    { title: "largest error", key: "max_abs", number: true, hint: "largest absolute difference to float32", value: (layer) => layer.max_abs, show: (layer) => small(layer.max_abs) },
    { title: "cosine", key: "cosine", number: true, hint: "cosine similarity to float32", value: (layer) => layer.cosine, show: (layer) => cosine(layer.cosine) },
    { title: "measured", key: "source", hint: "on the inputs of this run, or by the compiler on its calibration sample",
      value: (layer) => layer.source || (layer.cosine === null ? null : "this run") },
    { title: "formats", key: "formats", value: (layer) => layer.formats || null },
    { title: "scales", key: "scales", long: true, value: (layer) => layer.scales || null },
  ].filter(({ key }) => layers.some((layer) => layer[key] !== null && layer[key] !== ""));
  const table = makeTable(byId("accuracy-table"), {
    columns, rows: layers, sort: measure ? columns.findIndex(({ key }) => key === measure) : null, down: true, limit: 20,
    label: (layer) => layer.name,
  });
  lengthChoice(byId("accuracy-controls"), table, layers.length, 20, measure ? "worst" : "first");
  if (measure) redrawn(place, (width) => chart(width));
}

function cosine(value) {
  return value === null || value === undefined ? "–" : value.toFixed(6);
}
