// The calls of the run: what belongs to a step, a round, a group of them.

const units = data.units;
const calls = (data.calls || []).map(([step, turn, start, end, loaded, stored, ...busy]) =>
  ({ step, turn, start, end, loaded, stored, busy, cycles: end - start }));
const loops = data.loops;
const loopOf = (step) => loops.find((loop) => loop.first <= step && step < loop.end);
const turnName = (step, turn) => { const loop = loopOf(step); return loop ? loop.names[turn] : ""; };

// Steps of a loop have their layer's name in front, that of its first round or one with a star:
// layers.*.mlp. It says nothing where the layer is named already.
const shortNames = data.steps.map((step) => step.name);
for (const loop of loops) {
  const names = shortNames.slice(loop.first, loop.end);
  let shared = names[0];
  while (!names.every((name) => name.startsWith(shared))) shared = shared.slice(0, -1);
  if (names.length === 1) shared = shared.startsWith(`${loop.names[0]}.`) ? loop.names[0] : "";
  const whole = () => names.every((name) => name === shared || /^[. /]/.test(name.slice(shared.length)));
  while (shared && !whole()) shared = shared.slice(0, -1);
  if (shared) names.forEach((name, at) => {
    shortNames[loop.first + at] = name.slice(shared.length).replace(/^[. /]+/, "") || data.steps[loop.first + at].kernel;
  });
}

// The layer a call belongs to: its round, or what its name begins with up to a number.
function layerName(step, turn) {
  return turnName(step, turn) || (data.steps[step].name.match(/^.*?\.\d+(?=\.)/) || [""])[0];
}

function callName(step, turn) {
  const layer = turnName(step, turn);
  return layer ? `${layer} · ${shortNames[step]}` : shortNames[step];
}

// The busiest unit, or latency where none is busy for half of the time.
function binding(busy, cycles) {
  let most = 0;
  busy.forEach((ticks, at) => { if (ticks > busy[most]) most = at; });
  const share = cycles ? Math.min(1, busy[most] / cycles) : 0;
  return { unit: share >= data.busy_enough ? units[most] : "latency", busiest: units[most], share };
}

// One row of the table of cycles from some calls.
function group(name, members, extra) {
  const row = { name, calls: members, cycles: 0, bound: 0, macs: 0, bytes: 0, busy: units.map(() => 0), ...extra };
  for (const call of members) {
    const step = data.steps[call.step];
    row.cycles += call.cycles;
    row.bound += step.bound;
    row.macs += step.macs;
    row.bytes += call.loaded + call.stored;
    call.busy.forEach((ticks, at) => { row.busy[at] += ticks; });
  }
  // Steps that share a schedule with the one before have no bound of their own, nor has what they are part of.
  if (members.some((call) => !data.steps[call.step].bound)) row.bound = 0;
  row.binding = binding(row.busy, row.cycles);
  return row;
}

// Without a run a step still has a bound and multiplications.
function plannedRow(step, index) {
  const loop = loopOf(index);
  const times = loop ? loop.names.length : 1;
  return { name: shortNames[index], kernel: step.kernel, calls: [], cycles: null, bound: step.bound * times,
    macs: step.macs * times, bytes: null, busy: units.map(() => null), binding: null, step: index };
}

function rowsBySteps() {
  if (!calls.length) return data.steps.map(plannedRow);
  const members = data.steps.map(() => []);
  for (const call of calls) members[call.step].push(call);
  return data.steps.map((step, at) => group(shortNames[at], members[at], { kernel: step.kernel, step: at }));
}

function rowsByLayers() {
  const groups = new Map();
  for (const call of calls) {
    const layer = layerName(call.step, call.turn);
    const key = layer || `step ${call.step}`;
    if (!groups.has(key)) groups.set(key, { layer, members: [] });
    groups.get(key).members.push(call);
  }
  return [...groups.values()].map(({ layer, members }) => {
    const step = members[0].step;
    return layer ? group(layer, members, { kernel: members.length === 1 ? "1 step" : `${members.length} steps`, layer })
      : group(data.steps[step].name, members, { kernel: data.steps[step].kernel, step });
  });
}

const withoutLayer = (step, layer) =>
  shortNames[step].startsWith(`${layer}.`) ? shortNames[step].slice(layer.length + 1) : shortNames[step];

// The rows a group opens into: its calls, by round or by step.
function singleRows(row) {
  if (row.calls.length < 2) return [];
  row.single ||= row.calls.map((call) => group(
    row.layer ? withoutLayer(call.step, row.layer) : turnName(call.step, call.turn), [call],
    { kernel: data.steps[call.step].kernel, step: call.step }));
  return row.single;
}

function callText(call) {
  const bound = data.steps[call.step].bound;
  const { unit, busiest, share } = binding(call.busy, call.cycles);
  return [
    callName(call.step, call.turn),
    `${data.steps[call.step].kernel}, ticks ${count(call.start)} to ${count(call.end)}`,
    `${count(call.cycles)} cycles` + (bound ? `, bound ${count(bound)} (${ratio(call.cycles / bound)} times)` : ""),
    `DRAM: ${count(call.loaded)} B in, ${count(call.stored)} B out`,
    units.map((name, at) => `${name} ${percent(call.cycles ? call.busy[at] / call.cycles : 0)}`).join(", "),
    unit === "latency" ? `limited by latency (${busiest} busy ${percent(share)})` : `limited by ${unit}`,
  ].join("\n");
}
