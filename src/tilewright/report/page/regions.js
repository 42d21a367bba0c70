// The memory map as a table.

function drawRegions() {
  const place = byId("regions-table");
  if (!data.regions.length) return;
  const end = (region) => region.end - 1;
  const table = makeTable(place, {
    columns: [
      { title: "tensor", value: (region) => region.name },
      { title: "memory", value: (region) => region.space.toUpperCase() },
      { title: "kind", value: (region) => region.kind, show: (region) => el("span", {}, swatch(region.kind), region.kind) },
      { title: "from", number: true, value: (region) => region.address, show: (region) => hex(region.address) },
      { title: "to", number: true, value: end, show: (region) => hex(end(region)) },
      { title: "bytes", number: true, hint: "of all layer iterations", value: (region) => region.bytes, show: (region) => count(region.bytes) },
      { title: "shape", value: (region) => region.shape.join(" x ") },
      { title: "format", value: (region) => region.dtype },
      { title: "encoding", value: (region) => region.encoding },
      { title: "iterations", number: true, hint: "one tensor per layer iteration, and the bytes from one to the next",
        value: (region) => region.count, show: (region) => region.count > 1 ? `${region.count}, ${count(region.stride)} B apart` : "1" },
      { title: "steps", number: true, hint: "steps in which its content matters", value: (region) => region.first, show: (region) => `${region.first} to ${region.last}` },
    ],
    rows: data.regions, label: (region) => region.name,
  });
  const input = el("input", { type: "search", placeholder: "filter by name, kind or memory", "aria-label": "filter the memory map", oninput: () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    table.replace(data.regions.filter((region) => words.every((word) => `${region.name} ${region.kind} ${region.space} ${region.dtype}`.toLowerCase().includes(word))));
  } });
  byId("regions-controls").append(input);
}
