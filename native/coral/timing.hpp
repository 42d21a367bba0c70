// The cycle model: an in-order scoreboard with the costs of table 2026-02. Estimates, not
// measurements; docs/machines/coral.md names the rules and how far off they were.
#pragma once
#include <array>
#include <cstdint>

#include "instructions.hpp"

namespace tilewright::coral {

class Machine;

// Costs in cycles. A newer core is a newer table.
struct TimingTable {
  const char* version = "2026-02";
  int line_cycles = 2;  // fetch of one 16-byte line
  int lines_ahead = 4;  // how far fetch runs ahead of dispatch
  int dispatch_width = 4;
  int in_flight = 8;
  int alu_ready = 1, multiply_ready = 2, float_ready = 2, float_to_integer_ready = 3;
  int divide_base = 4, divide_least = 5, float_divide = 19;
  int load_busy = 4, store_busy = 2;
  int load_ready = 4, load_ready_late = 5;  // late: address, store data, FP
  int forward_taken = 4, backward_not_taken = 5, indirect = 4;
  int vector_delay = 2;  // dispatch to first issue
  int vector_width = 2;  // micro-ops per cycle
  int vector_alu_ready = 2, vector_multiply_ready = 3, vector_to_scalar_ready = 3;
  int vector_retire = 2, vector_load_retire = 4;
  int vector_access = 1, vector_load_register = 3, vector_store_register = 2;
  int vector_divide = 9;
  int csr_hold = 2;
};

class Timing {
 public:
  explicit Timing(TimingTable table = {}) : table_(table) {}
  // One retired instruction; `next` is where control went, `address` what a scalar access touched.
  void step(const Machine& machine, const Decoded& d, uint32_t pc, uint32_t next, uint32_t address);
  // The cycle in which a counter read at `pc` would dispatch.
  uint64_t counter_cycle(uint32_t pc);
  uint64_t cycles() const { return last_retired_; }
  uint64_t dispatched() const { return cycle_; }
  const TimingTable& table() const { return table_; }

 private:
  uint64_t dispatch(const Decoded& d, uint32_t pc, uint64_t operands);
  void fetch(uint32_t pc);
  void retire(uint64_t when);
  uint64_t issue(uint64_t earliest);
  uint64_t scalar_sources(const Decoded& d) const;
  uint64_t vector_arithmetic(const Machine& machine, const Decoded& d, uint64_t when);
  uint64_t vector_access(const Machine& machine, const Decoded& d, uint64_t when);

  TimingTable table_;
  uint64_t cycle_ = 0;  // of the latest dispatch
  int in_cycle_ = 0;    // dispatched in it
  bool branch_used_ = false, multiply_used_ = false, vset_used_ = false;
  bool float_used_ = false, float_access_used_ = false;
  uint64_t group_end_ = 0;  // nothing more dispatches before
  uint32_t line_ = 0xffffffff;
  uint64_t line_time_ = 0;
  std::array<uint64_t, 8> line_started_{};  // first dispatch of recent lines
  uint64_t line_count_ = 0;
  bool redirected_ = false;
  uint64_t redirect_time_ = 0;
  std::array<uint64_t, 16> retired_{};
  uint64_t retire_count_ = 0;
  uint64_t last_retired_ = 0;
  std::array<uint64_t, 33> x_ready_{}, x_late_{};
  std::array<uint64_t, 32> f_ready_{};
  std::array<uint64_t, 32> v_ready_{};
  uint64_t lsu_free_ = 0, fpu_free_ = 0, divider_free_ = 0, reducer_free_ = 0;
  uint64_t issue_cycle_ = 0;
  int issued_ = 0;
};

}  // namespace tilewright::coral
