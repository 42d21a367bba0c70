// List scheduling of straight virtual code: the walk over time of targets/atlas/codegen/list_schedule.py.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "constants.hpp"
#include "registers.hpp"

namespace tilewright::codegen {

struct Edge {
  int node;
  Tick distance;
};

// Parts of a register that a node touches.
struct Row {
  int id;
  int first;
  int count;
};

// How an operand of the instruction gets its number.
enum class Source { number, channel, constant, address, place };
struct Operand {
  Source source;
  std::int64_t first;   // the number; the constant's file; the register
  std::int64_t second;  // the constant's value; the part of the register
};

enum class Unit { other, dma, scalar, decode };

// One instruction and what the dependence graph knows of it.
struct Node {
  Unit unit;
  int number;  // of the unit
  int order;   // in the program
  Tick path;   // to the end of the code
  int rank;    // of two that can issue, the one with the higher rank does
  Tick earliest;
  int transfer;  // of a wait: the node it waits for, or -1
  int channel;   // of a repeated transfer and its waits, or -1
  Tick transfer_ticks;
  Tick latency;
  Tick interval;
  int position;       // of the unit within a tick
  bool repeated;      // belongs to a transfer that the loop repeats
  bool stores;        // which is a store
  bool waits;         // is a wait
  bool prefetches;    // is a transfer for a later piece
  bool closing;       // is a wait that nothing depends on
  bool loads_tensor;  // reads tensor memory
  std::vector<Edge> after;
  std::vector<int> before;
  std::vector<Row> rows;
  std::vector<Operand> operands;
};

// Limits of the tuning table, and what the piece finds.
struct Limits {
  std::size_t window;
  std::size_t window_ahead;  // of these, transfers for later pieces and what makes their addresses
  Tick transfer_haste;
  int spare_channels;
  int result_registers;
  bool idle;            // the DMA engine has nothing else to do
  bool registers_hold;  // two readers of a register exclude each other
  Tick dma_last;        // until when the engine is busy at the start
};

// Tensor registers left free by work that runs further ahead than `near` instructions.
struct Reserve {
  int registers;
  int near;
};

struct Problem {
  std::vector<Node> nodes;
  std::vector<Register> registers;
  std::uint64_t pairs;
  std::vector<int> channels;
  Constants constants;
  Limits limits;
};

// An instruction of the code (no step), or one that makes a constant for it.
struct Issue {
  Tick tick;
  int node;
  std::optional<Step> step;
};

struct Schedule {
  std::vector<Issue> issues;
  std::vector<std::vector<std::int64_t>> operands;  // of each node
  std::vector<Tick> dispatch;
  std::vector<Tick> completion;
  std::vector<int> places;  // of each register
  Tick finish;
  Constants constants;
};

// The schedule, or nothing where registers do not suffice.
std::optional<Schedule> list_schedule(const Problem& problem, Reserve reserve);

}  // namespace tilewright::codegen
