// The Python face: plain lists in, plain lists out; every index is checked before it is used.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <tuple>

#include "list_schedule.hpp"
#include "modulo_place.hpp"

namespace nb = nanobind;
using namespace tilewright::codegen;

namespace {

using Number = std::int64_t;
using Numbers = std::vector<Number>;
using Triples = std::vector<std::array<Number, 3>>;
// number and kind of unit, order, path, rank, earliest, transfer, channel, transfer ticks, latency, interval, position,
// flags
using NodeRow = std::array<Number, 13>;
using Pairs = std::vector<std::pair<Number, Number>>;
using Held = std::tuple<Pairs, Pairs, std::vector<Numbers>, Number>;  // values of x and e, last reads, clock
using Found = std::tuple<Pairs, Triples, std::vector<Numbers>, Numbers, Numbers, std::vector<int>, Number, Held>;

enum Flag { repeated = 1, stores = 2, waits = 4, prefetches = 8, closing = 16, loads_tensor = 32 };

int index(Number value, std::size_t count, const char* what) {
  if (value < 0 || static_cast<std::size_t>(value) >= count) throw std::out_of_range(what);
  return static_cast<int>(value);
}

Node node_of(const NodeRow& row, const Pairs& after, const Triples& rows, const Triples& operands, std::size_t nodes,
             const std::vector<Register>& registers) {
  auto [number, unit, order, path, rank, earliest, transfer, channel, ticks, latency, interval, position, flags] = row;
  Node node{.unit = static_cast<Unit>(index(unit, 4, "unit")),
            .number = index(number, 64, "unit"),
            .order = static_cast<int>(order),
            .path = path,
            .rank = static_cast<int>(rank),
            .earliest = earliest,
            .transfer = transfer < 0 ? -1 : index(transfer, nodes, "transfer"),
            .channel = static_cast<int>(channel),
            .transfer_ticks = ticks,
            .latency = latency,
            .interval = interval,
            .position = static_cast<int>(position),
            .repeated = (flags & repeated) != 0,
            .stores = (flags & stores) != 0,
            .waits = (flags & waits) != 0,
            .prefetches = (flags & prefetches) != 0,
            .closing = (flags & closing) != 0,
            .loads_tensor = (flags & loads_tensor) != 0,
            .after = {},
            .before = {},
            .rows = {},
            .operands = {}};
  for (const auto& [later, distance] : after) node.after.push_back({index(later, nodes, "edge"), distance});
  for (const auto& [id, first, count] : rows)
    node.rows.push_back(
        {index(id, registers.size(), "register"), index(first, kPlaces, "part"), index(count, kPlaces, "parts")});
  for (const auto& [source, first, second] : operands) {
    Operand operand{static_cast<Source>(index(source, 5, "operand")), first, second};
    if (operand.source == Source::constant) index(first, 2, "register file");
    if (operand.source == Source::address || operand.source == Source::place)
      index(first, registers.size(), "register");
    node.operands.push_back(operand);
  }
  return node;
}

std::vector<Register> registers_of(const std::vector<std::array<Number, 5>>& rows) {
  std::vector<Register> registers;
  for (const auto& [kind, size, queue, carried, physical] : rows)
    registers.push_back({static_cast<Kind>(index(kind, 3, "kind")), static_cast<int>(size),
                         index(queue + 1, 64, "queue") - 1, carried != 0, index(physical + 1, 65, "place") - 1});
  return registers;
}

Constants constants_of(const Held& held, const Numbers& reserved, const Pairs& pinned) {
  const auto& [x, e, used, clock] = held;
  Constants constants;
  for (const auto& [place, value] : x) constants.files[kX].put(index(place, kPlaces, "x"), value);
  for (const auto& [place, value] : e) constants.files[kE].put(index(place, kPlaces, "e"), value);
  if (used.size() != 2 || used[0].size() != kPlaces || used[1].size() != kPlaces)
    throw std::invalid_argument("last reads of two files of 32 registers");
  for (int file = 0; file < 2; ++file) std::copy(used[file].begin(), used[file].end(), constants.used[file].begin());
  constants.clock = clock;
  for (Number place : reserved) constants.reserved[index(place, kPlaces, "reserved")] = true;
  for (const auto& [file, place] : pinned)
    constants.pinned[index(file, 2, "register file")][index(place, kPlaces, "pinned")] = true;
  return constants;
}

Held held_of(const Constants& constants) {
  Held held;
  auto& [x, e, used, clock] = held;
  for (int place : constants.files[kX].order()) x.emplace_back(place, constants.files[kX].at(place));
  for (int place : constants.files[kE].order()) e.emplace_back(place, constants.files[kE].at(place));
  for (const auto& file : constants.used) used.emplace_back(file.begin(), file.end());
  clock = constants.clock;
  return held;
}

Found found_of(const Schedule& schedule) {
  Found found;
  auto& [issues, steps, operands, dispatch, completion, places, finish, held] = found;
  for (const Issue& issue : schedule.issues) {
    issues.emplace_back(issue.tick, issue.node);
    // -1: the instruction itself.
    steps.push_back(issue.step ? std::array<Number, 3>{static_cast<Number>(issue.step->making), issue.step->place,
                                                       issue.step->value}
                               : std::array<Number, 3>{-1, 0, 0});
  }
  operands = schedule.operands;
  dispatch = schedule.dispatch;
  completion = schedule.completion;
  places = schedule.places;
  finish = schedule.finish;
  held = held_of(schedule.constants);
  return found;
}

std::optional<Found> schedule(const std::vector<NodeRow>& nodes, const std::vector<Pairs>& after,
                              const std::vector<Triples>& rows, const std::vector<Triples>& operands,
                              const std::vector<std::array<Number, 5>>& registers, std::uint64_t pairs,
                              const std::vector<int>& channels, const Held& held, const Numbers& reserved,
                              const Pairs& pinned, const std::array<Number, 8>& limits,
                              const std::vector<std::pair<int, int>>& reserves) {
  if (after.size() != nodes.size() || rows.size() != nodes.size() || operands.size() != nodes.size())
    throw std::invalid_argument("edges, registers and operands are those of the nodes");
  auto [window, ahead, haste, spare, results, idle, hold, dma_last] = limits;
  Problem problem{.nodes = {},
                  .registers = registers_of(registers),
                  .pairs = pairs,
                  .channels = channels,
                  .constants = constants_of(held, reserved, pinned),
                  .limits = {static_cast<std::size_t>(window), static_cast<std::size_t>(ahead), haste,
                             static_cast<int>(spare), static_cast<int>(results), idle != 0, hold != 0, dma_last}};
  problem.nodes.reserve(nodes.size());
  for (std::size_t k = 0; k < nodes.size(); ++k)
    problem.nodes.push_back(node_of(nodes[k], after[k], rows[k], operands[k], nodes.size(), problem.registers));
  for (std::size_t k = 0; k < nodes.size(); ++k)
    for (const Edge& edge : problem.nodes[k].after) problem.nodes[edge.node].before.push_back(static_cast<int>(k));
  for (auto [left_free, near] : reserves)
    if (auto found = list_schedule(problem, {left_free, near})) return found_of(*found);
  return std::nullopt;
}

// unit, order, plain tick, busy ticks, latency, position, flags
using StepRow = std::array<Number, 7>;
enum StepFlag { decodes = 1, matrix = 2, transfer = 4, load = 8, late = 16, prefetch = 32, tied = 64 };

std::vector<Dependence> dependences(const Triples& rows, std::size_t steps) {
  std::vector<Dependence> found;
  for (const auto& [step, distance, turns] : rows) found.push_back({index(step, steps, "edge"), distance, turns});
  return found;
}

std::vector<int> indices(const Numbers& numbers, std::size_t count, const char* what) {
  std::vector<int> found;
  for (Number number : numbers) found.push_back(index(number, count, what));
  return found;
}

void make_body(LoopBody* body, const std::vector<StepRow>& rows, const std::vector<Triples>& before,
               const std::vector<Triples>& after, const std::vector<Numbers>& reads, const std::vector<Numbers>& slots,
               const std::vector<std::pair<Number, Numbers>>& touches, int parts, bool registers_hold) {
  std::size_t count = rows.size();
  if (before.size() != count || after.size() != count || reads.size() != count || slots.size() != count)
    throw std::invalid_argument("edges, registers and slots are those of the steps");
  LoopBody made{.steps = {}, .slots = {}, .parts = parts, .registers_hold = registers_hold};
  for (const auto& [queue, steps] : touches) {
    if (steps.empty()) throw std::invalid_argument("a slot that nothing touches");
    made.slots.push_back({index(queue, 64, "queue"), indices(steps, count, "step")});
  }
  for (std::size_t k = 0; k < count; ++k) {
    auto [unit, order, plain, busy, latency, position, flags] = rows[k];
    made.steps.push_back({.unit = index(unit, 64, "unit"),
                          .decodes = (flags & decodes) != 0,
                          .matrix = (flags & matrix) != 0,
                          .transfer = (flags & transfer) != 0,
                          .order = static_cast<int>(order),
                          .plain = plain,
                          .busy = busy,
                          .latency = latency,
                          .position = static_cast<int>(position),
                          .load = (flags & load) != 0,
                          .late = (flags & late) != 0,
                          .prefetch = (flags & prefetch) != 0,
                          .tied = (flags & tied) != 0,
                          .before = dependences(before[k], count),
                          .after = dependences(after[k], count),
                          .reads = indices(reads[k], parts, "part"),
                          .slots = indices(slots[k], made.slots.size(), "slot")});
  }
  new (body) LoopBody(std::move(made));
}

using Placed = std::tuple<bool, bool, Pairs, std::vector<int>, Numbers, Number>;

Placed place(const LoopBody& body, Number interval, std::tuple<Number, bool, bool, bool> way,
             std::tuple<double, double, Number, Number, int, int> limits, const Numbers& usual, Number work) {
  if (interval < 1) throw std::invalid_argument("an interval without ticks");
  if (!usual.empty() && usual.size() != body.slots.size()) throw std::invalid_argument("times of other slots");
  auto [lead, aligned, packed, early] = way;
  auto [tight, growth, patience, weight_lead, tries, pack_ahead] = limits;
  PlacementLimits given{tight, growth, patience, weight_lead, tries, static_cast<std::size_t>(pack_ahead)};
  PlacedLoop found = place_loop(body, interval, {lead, aligned, packed, early}, given, usual, work);
  return {found.done, found.longer, Pairs(found.at.begin(), found.at.end()), found.slot, found.usual, found.work};
}

}  // namespace

NB_MODULE(_codegen, module) {
  module.doc() = "Inner loops of the Atlas code generator.";
  nb::class_<LoopBody>(module, "LoopBody")
      .def("__init__", &make_body, nb::arg("steps"), nb::arg("before"), nb::arg("after"), nb::arg("reads"),
           nb::arg("slots"), nb::arg("touches"), nb::arg("parts"), nb::arg("registers_hold"))
      .def("place", &place, nb::arg("interval"), nb::arg("way"), nb::arg("limits"), nb::arg("usual"), nb::arg("work"),
           "Ticks of the steps and slots of their values; whether all are placed, times of slots, work left.");
  nb::class_<SlotReservations>(module, "SlotReservations")
      .def(nb::init<Tick>(), nb::arg("interval"))
      .def("__len__", &SlotReservations::size)
      .def("put", &SlotReservations::put, nb::arg("holder"), nb::arg("span"))
      .def("drop", &SlotReservations::drop, nb::arg("holder"))
      .def("meeting", &SlotReservations::meeting, nb::arg("span"), nb::arg("holder"));
  nb::class_<UnitReservations>(module, "UnitReservations")
      .def(nb::init<Tick>(), nb::arg("interval"))
      .def("take", &UnitReservations::take, nb::arg("tick"), nb::arg("length"))
      .def("drop", &UnitReservations::drop, nb::arg("tick"))
      .def("gap", &UnitReservations::gap, nb::arg("tick"))
      .def("first", &UnitReservations::first, nb::arg("tick"), nb::arg("length"), nb::arg("limit"),
           nb::arg("grain") = 0)
      .def("last", &UnitReservations::last, nb::arg("tick"), nb::arg("length"), nb::arg("limit"), nb::arg("grain") = 0);
  module.def("list_schedule", &schedule, nb::arg("nodes"), nb::arg("after"), nb::arg("rows"), nb::arg("operands"),
             nb::arg("registers"), nb::arg("pairs"), nb::arg("channels"), nb::arg("held"), nb::arg("reserved"),
             nb::arg("pinned"), nb::arg("limits"), nb::arg("reserves"),
             "Ticks, operands and constants of straight code; None where registers do not suffice.");
}
