// The core: registers, memories, traps, counters. `interpreter.cpp` runs it, `vector*.cpp` hold
// the vector unit, `timing.cpp` the cycle model.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "instructions.hpp"
#include "memory.hpp"
#include "timing.hpp"

namespace tilewright::coral {

constexpr uint32_t kVectorBytes = 16;
constexpr uint32_t kVill = 0x80000000;

enum class FaultKind {
  none,
  fetch_bounds,
  load_bounds,
  store_bounds,
  illegal,
  misaligned_fetch,
  ecall,
  ebreak,
  wfi,
  max_instructions,
  stack_range,
  uninitialised_read,
  readonly_write,
  fused_hazard
};
const char* fault_name(FaultKind);

struct Fault {
  FaultKind kind = FaultKind::none;
  uint32_t pc = 0;
  uint32_t address = 0;  // or the instruction word of an illegal one
};

struct Options {
  Features features;
  bool timing = true;
  bool vector_traps = false;   // architectural traps go to mtvec
  bool agnostic_ones = false;  // tail and mask agnostic elements become ones
  bool check_uninitialised = false;
  bool check_readonly = false;
  bool check_fused_hazard = false;
};

// What one vector memory instruction touched, for the cycle model.
struct VectorAccess {
  uint32_t registers = 0;
  std::array<uint32_t, 8 * 8> lines{};
};

struct Jump {
  uint32_t from, to;
};

class Machine {
 public:
  Machine(std::vector<Region> regions, Options options);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void write(uint32_t address, const uint8_t* bytes, size_t count);
  void read(uint32_t address, uint8_t* bytes, size_t count);
  void set_stack(uint32_t bottom, uint32_t top, uint32_t main);
  void add_readonly(uint32_t begin, uint32_t end) { readonly_.push_back({begin, end}); }
  void forget_written();

  // Begin at an address.
  void start(uint32_t address) { pc = start_pc = address; }
  // Run from `pc` until the core halts, faults, or has run that many more instructions.
  void run(uint64_t max_instructions);

  // --- state, open to the files of the simulator and to the bindings
  std::array<uint32_t, 33> x{};  // x[32] takes what is written to x0
  std::array<uint32_t, 32> f{};
  alignas(16) std::array<uint8_t, 32 * kVectorBytes> v{};
  uint32_t pc = 0;
  uint32_t vl = 0, vtype = kVill, vxrm = 0, vxsat = 0;
  uint32_t fflags = 0, frm = 0;
  uint32_t mstatus = 0, mie = 0, mtvec = 0, mscratch = 0, mepc = 0, mcause = 0, mtval = 0;
  std::array<uint32_t, 10> vendor{};

  Memory memory;
  Options options;
  std::vector<Decoded> code;  // one per word of instruction memory up to the last loaded, and an end
  Timing timing;

  bool halted = false;
  Fault fault;
  uint64_t instructions = 0;
  uint64_t taken_branches = 0;
  uint64_t trap_count = 0;
  int64_t minstret_offset = 0, mcycle_offset = 0;
  std::vector<uint64_t> bytes_read, bytes_written;         // by region, vector accesses and slow ones
  uint64_t scalar_slow_read = 0, scalar_slow_written = 0;  // of scalar accesses outside the fast path
  uint32_t start_pc = 0;
  std::vector<uint64_t> cycle_counts;  // by instruction, with the cycle model
  // Whose time an instruction is, by word: a number, or -1 for whoever ran before.
  std::vector<int32_t> owners;
  std::vector<uint64_t> owner_instructions, owner_cycles;
  int32_t owner = -1;
  bool untimed = false;  // memory without timing was touched
  std::array<Jump, 64> jumps{};
  uint64_t jump_count = 0;

  bool has_stack = false;
  uint32_t stack_bottom = 0, stack_top = 0, main_address = 0, stack_low = 0;
  bool stack_checked = false;  // main was reached

  VectorAccess access;

  // --- used by the parts of the simulator
  uint32_t sew() const { return 8u << (vtype >> 3 & 7); }
  // log2 of LMUL, -2 .. 3
  int lmul_log() const {
    const int field = vtype & 7;
    return field >= 4 ? field - 8 : field;
  }
  bool tail_agnostic() const { return vtype >> 6 & 1; }
  bool mask_agnostic() const { return vtype >> 7 & 1; }
  bool mask_bit(uint32_t i) const { return v[i >> 3] >> (i & 7) & 1; }

  // Traps: true when the run goes on (at mtvec), false when it ends.
  bool trap(FaultKind kind, uint32_t at, uint32_t value);
  bool load_slow(uint32_t address, uint32_t count, uint32_t& result);
  bool store_slow(uint32_t address, uint32_t count, uint32_t value);
  bool read_csr(uint32_t number, uint32_t& result);
  bool write_csr(uint32_t number, uint32_t value);
  void set_vector_type(const Decoded& d);
  void note_jump(uint32_t from, uint32_t to) { jumps[jump_count++ & 63] = {from, to}; }

  // The vector unit: false after a trap condition; `trap_kind` and `trap_value` say which.
  bool execute_vector(const Decoded& d);
  bool vector_integer(const Decoded& d);
  bool vector_mask(const Decoded& d);
  bool vector_permute(const Decoded& d);
  bool vector_floats(const Decoded& d);
  bool vector_memory(const Decoded& d);
  bool refuse() {
    trap_kind = FaultKind::illegal;
    return false;
  }
  FaultKind trap_kind = FaultKind::none;
  uint32_t trap_value = 0;

  void mark_written(uint32_t address, uint32_t count);
  bool check_read(uint32_t address, uint32_t count);  // optional checks; false ends the run
  bool check_write(uint32_t address, uint32_t count);
  bool check_fused(const Decoded& d);
  // Decode instruction memory up to `end`, or as far as before.
  void decode_words(uint32_t end);

 private:
  template <int Mode>
  void execute(uint64_t limit);
  bool stack_ok(uint32_t at);
  void account(const Decoded& d, uint32_t next, uint32_t first);

  bool prepared_ = false;  // every decoded instruction has its handler

  std::vector<std::pair<uint32_t, uint32_t>> readonly_;
  std::vector<uint8_t> written_;  // of data memory, one byte each
  std::array<uint8_t, 32> recent_float_load_{};
};

}  // namespace tilewright::coral
