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
using Found =
    std::tuple<Pairs, Triples, std::vector<Numbers>, Numbers, Numbers, std::vector<int>, Number, Number, Held>;

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
  auto& [issues, steps, operands, dispatch, completion, places, finish, dma_busy, held] = found;
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
  dma_busy = schedule.dma_busy;
  held = held_of(schedule.constants);
  return found;
}

std::optional<Found> schedule(const std::vector<NodeRow>& nodes, const std::vector<Pairs>& after,
                              const std::vector<Triples>& rows, const std::vector<Triples>& operands,
                              const std::vector<std::array<Number, 5>>& registers, std::uint64_t pairs,
                              const std::vector<int>& channels, const Held& held, const Numbers& reserved,
                              const Pairs& pinned, const std::array<Number, 7>& limits,
                              const std::vector<std::pair<int, int>>& reserves) {
  if (after.size() != nodes.size() || rows.size() != nodes.size() || operands.size() != nodes.size())
    throw std::invalid_argument("edges, registers and operands are those of the nodes");
  auto [window, haste, spare, results, idle, hold, dma_last] = limits;
  Problem problem{.nodes = {},
                  .registers = registers_of(registers),
                  .pairs = pairs,
                  .channels = channels,
                  .constants = constants_of(held, reserved, pinned),
                  .limits = {static_cast<std::size_t>(window), haste, static_cast<int>(spare),
                             static_cast<int>(results), idle != 0, hold != 0, dma_last}};
  problem.nodes.reserve(nodes.size());
  for (std::size_t k = 0; k < nodes.size(); ++k)
    problem.nodes.push_back(node_of(nodes[k], after[k], rows[k], operands[k], nodes.size(), problem.registers));
  for (std::size_t k = 0; k < nodes.size(); ++k)
    for (const Edge& edge : problem.nodes[k].after) problem.nodes[edge.node].before.push_back(static_cast<int>(k));
  for (auto [left_free, near] : reserves)
    if (auto found = list_schedule(problem, {left_free, near})) return found_of(*found);
  return std::nullopt;
}

}  // namespace

NB_MODULE(_codegen, module) {
  module.doc() = "Inner loops of the Atlas code generator.";
  module.def("list_schedule", &schedule, nb::arg("nodes"), nb::arg("after"), nb::arg("rows"), nb::arg("operands"),
             nb::arg("registers"), nb::arg("pairs"), nb::arg("channels"), nb::arg("held"), nb::arg("reserved"),
             nb::arg("pinned"), nb::arg("limits"), nb::arg("reserves"),
             "Ticks, operands and constants of straight code; None where registers do not suffice.");
}
