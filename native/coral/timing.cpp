#include "timing.hpp"

#include <algorithm>
#include <bit>

#include "machine.hpp"

namespace tilewright::coral {
namespace {

using C = Class;
using O = Operation;

bool is_vector(const Decoded& d) { return d.operation >= O::vadd; }
uint32_t opcode_of(const Decoded& d) { return d.word & 0x7f; }

}  // namespace

// Fetch: one aligned line per `line_cycles`, a few lines ahead of dispatch. After a predicted jump
// the target's line follows the jump's; after a wrong guess it comes when the guess is corrected.
void Timing::fetch(uint32_t pc) {
  const uint32_t line = pc >> 4;
  if (line == line_ && !redirected_) return;
  uint64_t when = line_time_ + (line_count_ ? table_.line_cycles : 0);
  if (redirected_) when = std::max(when, redirect_time_);
  const int ahead = table_.lines_ahead;
  if (line_count_ >= static_cast<uint64_t>(ahead)) when = std::max(when, line_started_[(line_count_ - ahead) & 7]);
  line_ = line;
  line_time_ = when;
  redirected_ = false;
  line_started_[line_count_ & 7] = 0;
  ++line_count_;
}

void Timing::retire(uint64_t when) {
  last_retired_ = std::max(last_retired_, when);
  retired_[retire_count_++ & 15] = last_retired_;
}

// When the scalar operands of an instruction are ready; a load's result is late for some uses.
uint64_t Timing::scalar_sources(const Decoded& d) const {
  const auto x = [&](uint32_t r) { return x_ready_[r]; };
  const auto late = [&](uint32_t r) { return x_late_[r]; };
  const auto f = [&](uint32_t r) { return f_ready_[r]; };
  switch (d.type) {
    case C::alu:
      if (d.operation == O::lui || d.operation == O::auipc) return 0;
      return opcode_of(d) == 0x33 ? std::max(x(d.rs1), x(d.rs2)) : x(d.rs1);
    case C::multiply:
    case C::divide:
    case C::branch:
      return std::max(x(d.rs1), x(d.rs2));
    case C::jump:
      return d.operation == O::jalr ? x(d.rs1) : 0;
    case C::load:
    case C::float_load:
      return late(d.rs1);
    case C::store:
      return std::max(late(d.rs1), late(d.rs2));
    case C::float_store:
      return std::max(late(d.rs1), f(d.rs2));
    case C::csr:
      return d.word >> 14 & 1 ? 0 : x(d.rs1);
    case C::integer_to_float:
      return late(d.rs1);
    case C::float_arithmetic:
    case C::float_divide:
    case C::float_to_integer: {
      uint64_t when = f(d.rs1);
      const uint32_t opcode = opcode_of(d);
      if (opcode != 0x53) return std::max({when, f(d.rs2), f(d.rs3)});
      const bool one = d.operation == O::fsqrt || d.operation == O::fcvt_w || d.operation == O::fcvt_wu ||
                       d.operation == O::fmv_x || d.operation == O::fclass;
      return one ? when : std::max(when, f(d.rs2));
    }
    case C::vset:
      if (d.operation == O::vsetivli) return 0;
      return d.operation == O::vsetvl ? std::max(x(d.rs1), x(d.rs2)) : x(d.rs1);
    case C::vector_load:
    case C::vector_store: {
      const bool strided = d.operation == O::vload_strided || d.operation == O::vstore_strided;
      return strided ? std::max(late(d.rs1), late(d.rs2)) : late(d.rs1);
    }
    default:
      break;
  }
  if (!is_vector(d)) return 0;
  const uint32_t kind = d.word >> 12 & 7;
  if (kind == ivx || kind == mvx) return x(d.rs1);
  return kind == fvf ? f(d.rs1) : 0;
}

uint64_t Timing::dispatch(const Decoded& d, uint32_t pc, uint64_t operands) {
  fetch(pc);
  uint64_t when = std::max({cycle_, line_time_, operands, group_end_});
  const uint64_t flight = static_cast<uint64_t>(table_.in_flight);
  if (retire_count_ >= flight) when = std::max(when, retired_[(retire_count_ - flight) & 15]);
  const bool branch = d.type == C::branch || d.type == C::jump;
  const bool multiply = d.type == C::multiply, vset = d.type == C::vset;
  const bool is_float = d.type == C::float_arithmetic || d.type == C::float_divide || d.type == C::float_to_integer ||
                        d.type == C::integer_to_float;
  const bool float_access = d.type == C::float_load || d.type == C::float_store;
  if (d.type == C::csr) when = std::max(when, last_retired_);
  if (d.type == C::fence) when = std::max({when, last_retired_, lsu_free_});
  if (d.type == C::divide) when = std::max(when, divider_free_);
  if (is_float) when = std::max(when, fpu_free_);
  const auto full = [&] {
    return in_cycle_ >= table_.dispatch_width || (branch && branch_used_) || (multiply && multiply_used_) ||
           (vset && vset_used_) || (is_float && float_access_used_) || (float_access && float_used_);
  };
  if (when == cycle_ && full()) ++when;
  if (when != cycle_) {
    cycle_ = when;
    in_cycle_ = 0;
    branch_used_ = multiply_used_ = vset_used_ = float_used_ = float_access_used_ = false;
  }
  ++in_cycle_;
  branch_used_ |= branch;
  multiply_used_ |= multiply;
  vset_used_ |= vset;
  float_used_ |= is_float;
  float_access_used_ |= float_access;
  uint64_t& started = line_started_[(line_count_ - 1) & 7];
  if (!started) started = when;
  return when;
}

uint64_t Timing::counter_cycle(uint32_t pc) {
  Timing probe = *this;
  Decoded read;
  read.type = Class::csr;
  read.word = 1u << 14;
  return probe.dispatch(read, pc, 0);
}

uint64_t Timing::issue(uint64_t earliest) {
  uint64_t when = std::max(issue_cycle_, earliest);
  if (when == issue_cycle_ && issued_ >= table_.vector_width) ++when;
  if (when != issue_cycle_) {
    issue_cycle_ = when;
    issued_ = 0;
  }
  ++issued_;
  return when;
}

uint64_t Timing::vector_arithmetic(const Machine& machine, const Decoded& d, uint64_t when) {
  const uint32_t vd = d.word >> 7 & 31, vs1 = d.word >> 15 & 31, vs2 = d.word >> 20 & 31;
  const bool masked = !(d.word >> 25 & 1);
  const uint32_t kind = d.word >> 12 & 7;
  const bool two = kind == ivv || kind == mvv || kind == fvv;
  const uint32_t bytes = machine.sew() / 8;
  // Registers of the setting's width that vl covers.
  const auto covered = [&](uint32_t element_bytes) {
    return std::max<uint32_t>(1, (machine.vl * element_bytes + kVectorBytes - 1) / kVectorBytes);
  };
  const auto ready = [&](uint32_t reg) { return v_ready_[reg & 31]; };
  const uint64_t earliest = when + static_cast<uint64_t>(table_.vector_delay);
  const uint64_t mask_ready = masked ? v_ready_[0] : 0;
  const bool multiplies = d.type == C::vector_multiply || d.type == C::vector_float ||
                          (d.operation >= O::vwmulu && d.operation <= O::vwmaccsu);
  const int latency = multiplies ? table_.vector_multiply_ready : table_.vector_alu_ready;
  uint64_t last = 0;

  if (d.type == C::vector_reduce || d.type == C::vector_permute || d.type == C::vector_mask_to_scalar) {
    const uint32_t registers = d.type == C::vector_mask_to_scalar ? 1 : covered(bytes);
    uint64_t sources = std::max(mask_ready, reducer_free_);
    for (uint32_t k = 0; k < registers; ++k) sources = std::max(sources, ready(vs2 + k));
    if (two && d.type == C::vector_reduce) sources = std::max(sources, ready(vs1));
    if (two && d.type == C::vector_permute)
      for (uint32_t k = 0; k < registers; ++k) sources = std::max(sources, ready(vs1 + k));
    // A cycle of its own.
    uint64_t at = std::max(issue_cycle_ + (issued_ > 0), std::max(earliest, sources));
    issue_cycle_ = at + 1;
    issued_ = 0;
    const bool widening = d.operation == O::vwredsum || d.operation == O::vwredsumu;
    const uint32_t busy = d.type == C::vector_permute ? 2 * registers - 1 : registers * (widening ? 2 : 1);
    reducer_free_ = at + busy;
    const uint64_t result = at + busy - 1 + static_cast<uint64_t>(table_.vector_multiply_ready);
    if (d.type == C::vector_mask_to_scalar) {
      x_ready_[d.rd] = x_late_[d.rd] = at + static_cast<uint64_t>(table_.vector_to_scalar_ready);
    } else if (d.type == C::vector_reduce && d.operation != O::viota) {
      v_ready_[vd] = result;
    } else {
      for (uint32_t k = 0; k < registers; ++k) v_ready_[(vd + k) & 31] = result;
    }
    return result;
  }
  if (d.type == C::vector_to_scalar || d.operation == O::vfmv_f_s) {
    const uint64_t at = issue(std::max(earliest, ready(vs2)));
    last = at + static_cast<uint64_t>(table_.vector_to_scalar_ready);
    if (d.operation == O::vfmv_f_s) {
      f_ready_[vd] = last;
    } else {
      x_ready_[d.rd] = x_late_[d.rd] = last;
    }
    return last;
  }

  const bool widens = d.type == C::vector_widen || d.operation == O::vfwcvt_f_x || d.operation == O::vfwcvt_f_xu;
  const bool narrows =
      d.type == C::vector_narrow || (d.operation >= O::vfncvt_xu_f && d.operation <= O::vfncvt_rtz_x_f);
  const bool compares = d.type == C::vector_compare;
  const bool wide_source = d.operation >= O::vwaddu_w && d.operation <= O::vwsub_w;
  const bool accumulates = d.operation == O::vmacc || d.operation == O::vnmsac || d.operation == O::vmadd ||
                           d.operation == O::vnmsub || (d.operation >= O::vwmaccu && d.operation <= O::vwmaccsu) ||
                           (d.operation >= O::vfmadd && d.operation <= O::vfnmsac);
  const bool reads_vs2 = d.operation != O::vmv_v && d.operation != O::vmv_s_x && d.operation != O::vid &&
                         d.operation != O::vfmv_v && d.operation != O::vfmv_s_f;
  const bool mask_logic = d.operation >= O::vmandn && d.operation <= O::vmxnor;
  uint32_t count = covered(bytes);
  if (widens) count = covered(2 * bytes);
  if (narrows) count = covered(2 * bytes);
  if (d.operation == O::vmvr) count = vs1 + 1;
  if (mask_logic || d.operation == O::vmv_s_x || d.operation == O::vfmv_s_f ||
      (d.operation >= O::vmsbf && d.operation <= O::vmsif))
    count = 1;
  const uint32_t extension = d.operation == O::vzext4 || d.operation == O::vsext4 ? 4 : 2;
  for (uint32_t k = 0; k < count; ++k) {
    uint64_t sources = std::max(earliest, mask_ready);
    uint32_t first = k, second = k, result = k;
    if (widens) first = wide_source ? k : k / 2, second = k / 2;
    if (narrows) second = result = k / 2;
    if (d.type == C::vector_extend) first = k / extension;
    if (compares) result = 0;
    if (reads_vs2) sources = std::max(sources, ready(vs2 + first));
    const bool reads_vs1 = two && d.type != C::vector_extend && d.operation != O::vmvr && d.operation != O::vid &&
                           !(d.operation >= O::vmsbf && d.operation <= O::vmsif) &&
                           !(d.operation >= O::vfcvt_xu_f && d.operation <= O::vfclass);
    if (reads_vs1) sources = std::max(sources, ready(vs1 + second));
    if (accumulates) sources = std::max(sources, ready(vd + result));
    uint64_t at;
    if (compares) {
      at = std::max(issue_cycle_ + (issued_ > 0), sources);
      issue_cycle_ = at;
      issued_ = table_.vector_width;  // one per cycle
    } else {
      at = issue(sources);
    }
    uint64_t done = at + static_cast<uint64_t>(latency);
    if (d.type == C::vector_divide) {
      done = at + static_cast<uint64_t>(table_.vector_divide);
      issue_cycle_ = done - 1;
      issued_ = table_.vector_width;
    }
    v_ready_[(vd + result) & 31] = done;
    last = std::max(last, done);
  }
  return last;
}

uint64_t Timing::vector_access(const Machine& machine, const Decoded& d, uint64_t when) {
  const VectorAccess& access = machine.access;
  const bool is_store = d.type == C::vector_store;
  const uint32_t vd = d.word >> 7 & 31, vs2 = d.word >> 20 & 31;
  const bool indexed = d.operation == O::vload_indexed || d.operation == O::vstore_indexed;
  uint64_t start =
      std::max({when + static_cast<uint64_t>(table_.vector_delay), issue_cycle_ + (issued_ > 0), lsu_free_});
  if (!(d.word >> 25 & 1)) start = std::max(start, v_ready_[0]);
  if (indexed)
    for (uint32_t k = 0; k < access.registers; ++k) start = std::max(start, v_ready_[(vs2 + k) & 31]);
  if (is_store)
    for (uint32_t k = 0; k < access.registers; ++k) start = std::max(start, v_ready_[(vd + k) & 31] + 1);
  issue_cycle_ = start + 1;
  issued_ = 0;
  uint64_t end = start + static_cast<uint64_t>(table_.vector_access);
  const int per_register = is_store ? table_.vector_store_register : table_.vector_load_register;
  for (uint32_t k = 0; k < access.registers; ++k) {
    end += static_cast<uint64_t>(per_register) + access.lines[k];
    if (!is_store) v_ready_[(vd + k) & 31] = end;
  }
  lsu_free_ = end;
  return end;
}

void Timing::step(const Machine& machine, const Decoded& d, uint32_t pc, uint32_t next, uint32_t first) {
  const uint64_t when = dispatch(d, pc, scalar_sources(d));
  const auto after = [when](int cycles) { return when + static_cast<uint64_t>(cycles); };
  const auto set_x = [&](uint64_t ready) { x_ready_[d.rd] = x_late_[d.rd] = ready; };
  const uint32_t address = first + static_cast<uint32_t>(d.immediate);
  const auto access = [&](int busy) {
    const uint64_t start = std::max(when, lsu_free_);
    const bool crosses = (address & 15) + d.bytes > 16;
    lsu_free_ = start + static_cast<uint64_t>(busy) + crosses;
    return start + crosses;
  };
  x_ready_[0] = x_late_[0] = 0;
  switch (d.type) {
    case C::alu:
      set_x(after(table_.alu_ready));
      retire(after(1));
      break;
    case C::branch:
      retire(after(1));
      break;
    case C::jump:
      set_x(after(table_.alu_ready));
      retire(after(1));
      break;
    case C::multiply:
      set_x(after(table_.multiply_ready));
      retire(after(2));
      break;
    case C::divide: {
      const bool is_signed = d.operation == O::div || d.operation == O::rem;
      const uint32_t magnitude = is_signed && first >> 31 ? 0 - first : first;
      const int bits = 32 - std::countl_zero(magnitude);
      const int cycles = std::max(table_.divide_least, table_.divide_base + bits);
      divider_free_ = after(cycles);
      set_x(after(cycles));
      retire(after(cycles));
      break;
    }
    case C::load: {
      const uint64_t start = access(table_.load_busy);
      x_ready_[d.rd] = start + static_cast<uint64_t>(table_.load_ready);
      x_late_[d.rd] = start + static_cast<uint64_t>(table_.load_ready_late);
      retire(start + 4);
      break;
    }
    case C::float_load: {
      const uint64_t start = access(table_.load_busy);
      f_ready_[d.rd] = start + static_cast<uint64_t>(table_.load_ready_late);
      retire(start + 4);
      break;
    }
    case C::store:
    case C::float_store:
      retire(access(table_.store_busy) + 2);
      break;
    case C::csr:
      set_x(after(table_.csr_hold));
      group_end_ = after(table_.csr_hold);
      retire(after(2));
      break;
    case C::float_arithmetic:
    case C::integer_to_float:
      fpu_free_ = after(table_.float_ready);
      f_ready_[d.rd] = after(table_.float_ready);
      retire(after(2));
      break;
    case C::float_to_integer:
      fpu_free_ = after(table_.float_ready);
      set_x(after(table_.float_to_integer_ready));
      retire(after(2));
      break;
    case C::float_divide:
      fpu_free_ = after(table_.float_divide);
      f_ready_[d.rd] = after(table_.float_divide);
      retire(after(table_.float_divide));
      break;
    case C::vset:
      set_x(after(table_.alu_ready));
      issue_cycle_ = std::max(issue_cycle_ + (issued_ > 0), after(table_.vector_delay)) + 1;
      issued_ = 0;
      retire(after(1));
      break;
    case C::vector_load:
      retire(vector_access(machine, d, when) + static_cast<uint64_t>(table_.vector_load_retire));
      break;
    case C::vector_store:
      retire(vector_access(machine, d, when));
      break;
    case C::fence:
    case C::system:
      retire(after(1));
      break;
    default:
      retire(vector_arithmetic(machine, d, when) + static_cast<uint64_t>(table_.vector_retire));
      break;
  }

  const bool moved = next != pc + 4;
  if (d.type == C::branch) {
    const bool backward = d.immediate < 0;
    if (moved && backward) {
      group_end_ = std::max(group_end_, when + 1);
      redirected_ = true, redirect_time_ = 0;  // predicted: the target's line follows
    } else if (moved) {
      redirected_ = true, redirect_time_ = after(table_.forward_taken);
    } else if (backward) {
      redirected_ = true, redirect_time_ = after(table_.backward_not_taken);
    }
  } else if (d.type == C::jump) {
    group_end_ = std::max(group_end_, when + 1);
    redirected_ = true;
    redirect_time_ = d.operation == O::jal ? 0 : after(table_.indirect);
  } else if (moved) {
    redirected_ = true, redirect_time_ = after(table_.indirect);  // mret, traps
  }
}

}  // namespace tilewright::coral
