// The Atlas machine as an event-driven simulator: values, cycles, faults and statistics.
//
// Decode is followed instruction by instruction; completions wait in a queue ordered by (tick,
// place of the unit in the tick) and are executed just before anything later looks at the state.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels.hpp"
#include "memory.hpp"

namespace atlas {

using Wide = __int128;

constexpr int64_t kNever = 1ll << 62;
constexpr int64_t kLastTick = 1ll << 58;  // no run goes beyond; a queue key holds 8 places a tick
constexpr int kChannels = 8;
constexpr int kMaxUnits = 8;
constexpr int kMaxSlots = 8;

enum class Rule : uint8_t { fault, stall, ignore };
enum class DmaPolicy : uint8_t { exact, early, late };
enum class FaultKind : uint8_t {
  structural,
  bank_conflict,
  channel_busy,
  delay_slot,
  pair_range,
  bounds,
  misaligned,
  illegal
};
enum class Lost : uint8_t { delay, dma_wait, unit_busy, channel_busy, dependency, count };
enum class Stop : uint8_t { none, end, halt, fault, limit, until, breakpoint, watch, slice };

// How decode treats an instruction.
enum class Class : uint8_t { scalar, delay, wait, unit, dma_load, dma_store, dma_config };

// What an instruction does; the names of the table's effects are mapped to these.
enum class Effect : uint8_t {
#define EFFECT(name, here) here,
#include "effects.def"
#undef EFFECT
};

// A byte count that time and conflict sets can be computed from, whatever the register.
inline int64_t byte_count(Wide value) {
  constexpr Wide most = Wide(1) << 40;
  return static_cast<int64_t>(value < 0 ? 0 : value > most ? most : value);
}

// The effect of a name in the table; throws std::invalid_argument for an unknown one.
Effect effect_named(const std::string& name);
std::vector<std::string> effect_names();

// An operand of a table row: where its value goes, what it may be, which registers it covers.
struct OperandRow {
  enum class Place : uint8_t { a, b, c, e, imm, channel };
  Place place = Place::a;
  bool tensor = false;
  int64_t low = 0, high = 0;
  int span = 1, footprint = 1;
};

struct Row {
  std::string mnemonic;
  Effect effect = Effect::fence;
  Class kind = Class::scalar;
  int unit = 0;  // place within a tick
  uint32_t latency = 1, interval = 1;
  bool present = true;  // the profile has it
  bool transfer = false;
  bool tensor_memory = false;
  uint32_t bytes = 0;
  int mxu = 0;
  std::vector<OperandRow> operands;
};

struct DmaLaw {
  int64_t minimum = 1, link_bytes = 0, link_ticks = 0, command_bytes = 0, vmem_bytes = 1;
  int64_t max_bytes = 0;
};

struct Accidents {
  int link_from_fetch = 0, auipc_from_fetch = 0, jalr_offset = 0;
  bool branch_from_fetch = false, sra_unbounded = false, zero_byte_store_faults = false;
  bool misaligned_load_faults = false;
};

struct Settings {
  std::vector<std::string> units;
  int dma_place = 0;
  int pc_step = 4, delay_slots = 2;
  bool halts = true;
  Rule busy = Rule::fault, conflict = Rule::fault, channel = Rule::fault;
  bool record = false, note_busy = true, note_conflict = true;
  bool transfer_in_slot_faults = true;
  DmaPolicy dma_policy = DmaPolicy::exact;
  bool compat = false;
  Fill fill;
  uint64_t vmem_bytes = 0, dram_bytes = 0;
  int tile_registers = 2;
  bool fill_bits = true, pop_divides = true, row_sum_quarters = true, column_sum_halves = true;
  DmaLaw dma;
  Accidents accidents;
};

struct Instruction {
  Effect effect;
  Class kind;
  uint8_t unit, row;
  uint8_t a, b, c, e;
  int32_t imm;
  uint32_t latency, interval;
  uint16_t size;
  uint8_t mxu, flags;
  uint64_t mask;  // tensor registers held
};

enum InstructionFlag : uint8_t {
  kAbsent = 1,         // the profile lacks it
  kTransfer = 2,       // may redirect the stream
  kFootprintEnds = 4,  // an operand's footprint reaches past the last register
  kSpanEnds = 8,       // and so do the registers it reads or writes
  kTensorMemory = 16,
};

struct FaultRecord {
  FaultKind kind;
  int32_t index;
  int64_t tick;
  bool stopping;  // raised, not a hazard noted while waiting
  std::string message;
};

struct TraceRow {
  int32_t index;
  int8_t unit, channel;
  int64_t claim, dispatch, start, end, bytes;
};

struct Counts {
  int64_t executions, issue_ticks;
};

// Everything a program can observe.
struct Registers {
  uint32_t x[32];
  Wide wide[32];  // the x registers in compat mode
  uint8_t e[32];
  Wide csr[4096];  // 32 bits of them but in compat mode
  uint32_t dma_base;
  alignas(64) uint8_t m[64][1024];
  alignas(64) uint8_t w[4][1024];     // mxu0.w0, mxu0.w1, mxu1.w0, mxu1.w1
  alignas(64) float weight[4][1024];  // the same, expanded
  alignas(64) uint16_t acc[4][1024];
};

// An operation in flight.
struct Event {
  uint64_t key;  // completion tick * 8 + place of the unit
  uint64_t sequence;
  uint64_t mask;
  int64_t first_block, last_block;  // VMEM blocks held, half open
  int32_t index;
  bool dropped, landed;

  int64_t tick() const { return static_cast<int64_t>(key >> 3); }
  int place() const { return static_cast<int>(key & 7); }
};

struct LateTransfer {
  int32_t index;
  bool dropped;
};

// Everything that changes while running, apart from registers and memories.
struct Progress {
  int64_t tick = 0;
  bool units_done = false;  // we stand at a claim point
  bool held = false;        // an instruction sits in decode
  bool latched = false;     // dispatched in `dispatch`, accepted the tick after
  bool dropped = false;     // a recorded fault took the effect of that instruction
  bool halting = false;
  uint8_t seen = 0;     // hazards recorded for the instruction in decode
  int64_t claim = 2;    // of the instruction in decode, or of the next one
  int64_t examine = 2;  // first tick in which decode has not yet looked at it
  int64_t dispatch = 0;
  int64_t last = 0;                    // latest tick in which anything happens so far
  int64_t window[kMaxSlots + 2] = {};  // f(i), f(i+1), … f(i + slots)
  int64_t since_transfer = kNever;
  int64_t free[kMaxUnits] = {};
  int64_t clear[kChannels] = {};
  int64_t dma_last = 0;
  uint64_t sequence = 0;
  uint64_t held_registers = 0;
  bool shared_registers = false;  // a recorded conflict let two operations hold a register
  int64_t vmem_holders = 0;
  int64_t passed = -1;  // dispatch count at the claim point last stopped at
  Stop outcome = Stop::none;
  int64_t frozen_pc = -1;  // fetch address at a fault or halt
  bool row_open = false;   // the last trace row awaits its end
  // statistics
  int64_t instructions = 0;
  int64_t operations[kMaxUnits] = {}, busy[kMaxUnits] = {};
  int64_t dma_loaded = 0, dma_stored = 0;
  int64_t lost[static_cast<int>(Lost::count)] = {};
};

struct Watch {
  enum class Space : uint8_t { dram, vmem, name } space;
  uint64_t address, size;
  std::string name;
  std::vector<uint8_t> value;
};

struct Snapshot {
  std::unique_ptr<Registers> registers;
  Progress progress;
  SparseMemory vmem, dram;
  std::vector<Event> events;
  std::vector<LateTransfer> late;
  std::vector<Counts> counts;
  std::vector<FaultRecord> faults;
  std::vector<TraceRow> trace;
  std::vector<Watch> watches;
};

struct Limits {
  int64_t tick = kNever;          // stop after this tick
  int64_t instructions = kNever;  // stop at the claim point with this many dispatched
  int64_t index = -1;             // stop at the claim point of this instruction
  int64_t slice = 1 << 20;        // return to the caller after this many
};

class Machine {
 public:
  Machine(Settings settings, std::vector<Row> rows, const Kernels& kernels);

  void load(const uint8_t* opcodes, const int32_t* operands, size_t count, size_t width, bool keep_memory = false);
  void reset();    // tick 0, registers and memory as at power-on
  void restart();  // the same, but memory keeps its content
  Stop run(const Limits& limits);

  Settings settings;
  std::vector<Row> rows;
  std::unique_ptr<Registers> registers;
  SparseMemory vmem, dram;
  Progress progress;
  std::vector<Instruction> program;
  std::vector<uint8_t> breakpoints;  // empty, or one flag per instruction
  std::vector<Watch> watches;
  std::vector<Counts> counts;
  std::vector<FaultRecord> faults;
  std::vector<TraceRow> trace;
  bool tracing = false;
  int64_t trace_first = 0, trace_last = 0;

  int64_t pc() const;
  Wide scalar(int index) const;
  void set_scalar(int index, Wide value);
  void refresh_weight(int slot) { decode_weight(*registers, slot); }
  void decode_weight(Registers& of, int slot) const;
  std::vector<uint8_t> watched(const Watch& watch) const;
  std::unique_ptr<Snapshot> snapshot() const;
  void restore(const Snapshot& snapshot);

 private:
  enum class Decoded : uint8_t { dispatched, holding, stopped };

  template <bool Compat>
  Stop run_as(const Limits& limits);
  template <bool Compat>
  Decoded decode(int64_t limit);
  template <bool Compat>
  bool claim();
  template <bool Compat>
  bool accept();
  template <bool Compat>
  bool accept_unit(const Instruction& op, int32_t index, int64_t tick);
  template <bool Compat>
  bool settle(uint64_t limit);
  template <bool Compat>
  bool settle_due(uint64_t limit);
  template <bool Compat>
  bool complete(Event& event);
  template <bool Compat>
  bool land_late(int channel, int64_t tick);
  template <bool Compat>
  Stop finish(Stop reason, int64_t tick);
  template <bool Compat>
  Stop pause(int64_t limit);
  template <bool Compat>
  bool wait_until(int64_t until, int64_t limit, Lost cause, Decoded& result);
  template <bool Compat>
  void sets(const Instruction& op, int64_t& first, int64_t& last) const;

  // Values: effects.cpp. False when the operation broke a rule and the run stops.
  template <bool Compat>
  bool execute(const Instruction& op, int32_t index, int64_t tick, bool& dropped);
  template <bool Compat>
  bool redirect(const Instruction& op, int32_t index, int64_t tick, bool& dropped, Wide target);
  template <bool Compat>
  bool memory(const Instruction& op, int32_t index, int64_t tick, bool& dropped);
  template <bool Compat>
  bool transfer(const Instruction& op, int32_t index, int64_t tick, bool& dropped);
  template <bool Compat>
  bool in_range(const SparseMemory& space, const char* name, Wide& start, Wide count, int64_t align, int32_t index,
                int64_t tick, bool& dropped);
  template <bool Compat>
  Wide address(int base, int64_t offset) const;
  template <bool Compat>
  void write_scale(int number, uint8_t value);
  void tensor(const Instruction& op);

  Stop claim_point(const Limits& limits);
  bool check_pairs(const Instruction& op, int32_t index, int64_t tick, bool& dropped);
  const Event* rival(uint64_t mask, int64_t first, int64_t last, uint64_t from) const;
  std::string conflict_text(const Event& holder, bool registers, uint64_t mask) const;
  bool fault(int32_t index, int64_t tick, FaultKind kind, bool& dropped, std::string message);
  void note(int32_t index, int64_t tick, FaultKind kind, std::string message);
  void push(const Event& event);
  void release(const Event& event);
  void count(const Instruction& op, int32_t index, int64_t dispatch);
  void set_trace(int64_t start, int64_t end, int64_t bytes);
  void advance(bool taken, int64_t target);
  int64_t sequential(int64_t address) const { return address >= end_ ? address : address + step_; }
  // The address to be fetched while the instruction at window[0] executes.
  int64_t fetching() const {
    const int64_t* w = progress.window;
    return settings.delay_slots >= 2 ? w[2] : sequential(w[1]);
  }
  // The fetch address before decode claims window[0].
  int64_t before_claim() const {
    const int64_t* w = progress.window;
    return settings.delay_slots >= 2 ? w[1] : sequential(w[0]);
  }
  int64_t transfer_ticks(int64_t bytes) const;

  const Kernels& kernels_;
  int64_t end_ = 0;
  int64_t step_ = 4;
  int step_shift_ = 2;
  std::vector<Event> events_;
  size_t head_ = 0;
  std::vector<LateTransfer> late_;
  bool taken_ = false;  // by the scalar instruction executed last
  int64_t target_ = 0;
};

}  // namespace atlas
