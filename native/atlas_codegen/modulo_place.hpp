// Placing the steps of a loop body at ticks so that a new iteration starts every interval: the search of
// targets/atlas/codegen/modulo_place.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reservations.hpp"

namespace tilewright::codegen {

// From or to another step, of an iteration so many turns later.
struct Dependence {
  int step;
  Tick distance;
  Tick turns;
};

struct LoopStep {
  int unit;
  bool decodes;   // needs no unit but decode
  bool matrix;    // its unit is a matrix unit
  bool transfer;  // is a DMA transfer
  int order;      // in the program
  Tick plain;     // tick in a schedule of one iteration
  Tick busy;      // ticks its unit cannot take another
  Tick latency;
  int position;   // of the unit within a tick
  bool load;      // of a tile that is used
  bool late;      // belongs just before what needs it
  bool prefetch;  // for a later iteration
  bool tied;      // and the loop reads its bytes
  std::vector<Dependence> before;
  std::vector<Dependence> after;
  std::vector<int> reads;  // tensor registers that it only reads, part by part
  std::vector<int> slots;  // weight slots and accumulators that it touches
};

// A weight slot or accumulator: `queue` numbers those of one kind and matrix unit, `touches` are its steps in order.
struct LoopSlot {
  int queue;
  std::vector<int> touches;
};

struct LoopBody {
  std::vector<LoopStep> steps;
  std::vector<LoopSlot> slots;
  int parts;            // number of tensor registers
  bool registers_hold;  // two readers of a register exclude each other
};

// How steps are placed; see Way in modulo_place.py.
struct PlacementWay {
  Tick lead;
  bool aligned;
  bool packed;
  bool early;
};

struct PlacementLimits {
  double tight_share;
  double slot_growth;
  Tick slot_patience;
  Tick weight_lead;
  int step_tries;
  std::size_t pack_ahead;
};

struct PlacedLoop {
  bool done;
  bool longer;                           // some slot is to be tried with a longer time
  std::vector<std::pair<int, Tick>> at;  // in the order in which they were placed
  std::vector<int> slot;                 // of each slot register
  std::vector<Tick> usual;               // how long each is taken to be held, for another attempt
  std::int64_t work;                     // ticks that may still be tried
};

// Usual times of slots are those of the plain schedule where none are given.
PlacedLoop place_loop(const LoopBody& body, Tick interval, PlacementWay way, const PlacementLimits& limits,
                      const std::vector<Tick>& usual, std::int64_t work);

}  // namespace tilewright::codegen
