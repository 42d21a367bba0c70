// Faults, and the registers and VMEM blocks that operations in flight hold against each other.
#include "machine.hpp"
#include "text.hpp"

namespace atlas {
namespace {

constexpr int64_t kBlock = 32;  // VMEM is held in blocks of this many bytes

inline int64_t clamp(Wide value) {
  constexpr Wide limit = Wide(1) << 61;
  return static_cast<int64_t>(value > limit ? limit : value < -limit ? -limit : value);
}

}  // namespace

// --- faults ------------------------------------------------------------------------------

// Stop the run, or note the fault and take away the operation's effect; true to go on.
bool Machine::fault(int32_t index, int64_t tick, FaultKind kind, bool& dropped, std::string message) {
  faults.push_back({kind, index, tick, true, std::move(message)});
  dropped = true;
  if (settings.record) return true;
  Progress& p = progress;
  const bool fetched = p.latched || (p.held && tick > p.claim);
  if (p.frozen_pc < 0) p.frozen_pc = fetched ? fetching() : before_claim();
  p.tick = tick;
  p.outcome = Stop::fault;
  return false;
}

// Note a hazard that waiting resolves.
void Machine::note(int32_t index, int64_t tick, FaultKind kind, std::string message) {
  faults.push_back({kind, index, tick, false, std::move(message)});
}

// --- conflict sets -----------------------------------------------------------------------

bool Machine::check_pairs(const Instruction& op, int32_t index, int64_t tick, bool& dropped) {
  const uint8_t wrong = settings.conflict == Rule::ignore ? kSpanEnds : kFootprintEnds | kSpanEnds;
  if (!(op.flags & wrong)) return true;
  const Row& row = rows[op.row];
  for (const OperandRow& operand : row.operands) {
    if (!operand.tensor) continue;
    const int value = operand.place == OperandRow::Place::a   ? op.a
                      : operand.place == OperandRow::Place::b ? op.b
                                                              : op.c;
    const int covered = settings.conflict == Rule::ignore ? operand.span : std::max(operand.footprint, operand.span);
    if (value + covered > 64)
      return fault(index, tick, FaultKind::pair_range, dropped,
                   "m" + std::to_string(value) + " has no register behind it for a pair");
  }
  return true;
}

// VMEM blocks an operation holds while in flight; registers are in its mask.
template <bool Compat>
void Machine::sets(const Instruction& op, int64_t& first, int64_t& last) const {
  Wide start = 0, count = 0;
  if (op.flags & kTensorMemory) {
    start = address<Compat>(op.b, 32 * int64_t(op.imm & 0xFFF));
    count = op.size;
  } else if (op.kind == Class::dma_load || op.kind == Class::dma_store) {
    start = address<Compat>(op.kind == Class::dma_load ? op.a : op.b, 0);
    count = byte_count(address<Compat>(op.c, 0));
  }
  first = last = 0;
  if (count == 0) return;
  // Shifts round down, also below zero.
  first = clamp(start >> 5);
  last = clamp((start + count + kBlock - 1) >> 5);
}

// The operation in flight at or after key `from` that holds part of these sets: the earliest
// unit of the tick order, the oldest in it.
const Event* Machine::rival(uint64_t mask, int64_t first, int64_t last, uint64_t from) const {
  const Event* found = nullptr;
  for (size_t i = head_; i < events_.size(); ++i) {
    const Event& event = events_[i];
    if (event.key < from) continue;
    const bool clash = (mask & event.mask) || (std::max(first, event.first_block) < std::min(last, event.last_block));
    if (clash && (!found || event.place() < found->place() ||
                  (event.place() == found->place() && event.sequence < found->sequence)))
      found = &event;
  }
  return found;
}

std::string Machine::conflict_text(const Event& holder, bool registers, uint64_t mask) const {
  const std::string where =
      registers ? "MRF conflict on m" + std::to_string(__builtin_ctzll(mask & holder.mask)) : "VMEM conflict on VMEM";
  return where + " with " + rows[program[holder.index].row].mnemonic + " (instruction " + std::to_string(holder.index) +
         "), in flight until tick " + std::to_string(holder.tick());
}

template void Machine::sets<false>(const Instruction&, int64_t&, int64_t&) const;
template void Machine::sets<true>(const Instruction&, int64_t&, int64_t&) const;

}  // namespace atlas
