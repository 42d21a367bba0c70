// Timing: decode, dispatch, accept, completion and stops. Values are in effects.cpp.
#include "machine.hpp"

#include "numbers.hpp"
#include "text.hpp"

namespace atlas {
namespace {

inline uint64_t key_of(int64_t tick, int place) {
  return (static_cast<uint64_t>(tick) << 3) | static_cast<uint64_t>(place);
}

}  // namespace

// --- completions -------------------------------------------------------------------------

void Machine::push(const Event& event) {
  if (head_ > 64 && 2 * head_ > events_.size()) {
    events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
  size_t at = events_.size();
  events_.push_back(event);
  for (; at > head_ && events_[at - 1].key > event.key; --at) events_[at] = events_[at - 1];
  events_[at] = event;
}

void Machine::release(const Event& event) {
  Progress& p = progress;
  if (event.first_block != event.last_block) --p.vmem_holders;
  if (!event.mask) return;
  p.held_registers &= ~event.mask;
  if (p.shared_registers)
    for (size_t i = head_; i < events_.size(); ++i) p.held_registers |= events_[i].mask;
}

// Execute every completion before `limit`; false when one stops the run.
template <bool Compat>
inline bool Machine::settle(uint64_t limit) {
  if (head_ == events_.size() || events_[head_].key >= limit) return true;
  return settle_due<Compat>(limit);
}

template <bool Compat>
bool Machine::settle_due(uint64_t limit) {
  while (head_ < events_.size() && events_[head_].key < limit) {
    Event event = events_[head_++];
    if (head_ == events_.size()) {
      events_.clear();
      head_ = 0;
    }
    release(event);
    if (!complete<Compat>(event)) return false;
  }
  return true;
}

template <bool Compat>
bool Machine::complete(Event& event) {
  const Instruction& op = program[event.index];
  if (event.dropped) {
    // A dropped transfer still takes its place in the queue of late ones.
  } else if (settings.conflict == Rule::ignore && !check_pairs(op, event.index, event.tick(), event.dropped)) {
    return false;
  }
  if (op.kind >= Class::dma_load && settings.dma_policy != DmaPolicy::exact) {
    if (settings.dma_policy == DmaPolicy::late) late_.push_back({event.index, event.dropped});
    return true;
  }
  if (event.dropped) return true;
  return execute<Compat>(op, event.index, event.tick(), event.dropped);
}

// Under late DMA: move the bytes of finished transfers up to the last on this channel (-1: all).
template <bool Compat>
bool Machine::land_late(int channel, int64_t tick) {
  size_t last = 0;
  for (size_t i = 0; i < late_.size(); ++i)
    if (channel < 0 || program[late_[i].index].e == channel) last = i + 1;
  for (size_t i = 0; i < last; ++i) {
    bool dropped = late_[i].dropped;
    const int32_t index = late_[i].index;
    if (!dropped && !execute<Compat>(program[index], index, tick, dropped)) return false;
  }
  late_.erase(late_.begin(), late_.begin() + static_cast<std::ptrdiff_t>(last));
  return true;
}

// --- accept: the tick after dispatch ---------------------------------------------------------

void Machine::set_trace(int64_t start, int64_t end, int64_t bytes) {
  if (!progress.row_open) return;
  progress.row_open = false;
  if (end < trace_first) {
    trace.pop_back();
    return;
  }
  TraceRow& row = trace.back();
  row.start = start, row.end = end, row.bytes = bytes;
}

void Machine::advance(bool taken, int64_t target) {
  int64_t* w = progress.window;
  const int slots = settings.delay_slots;
  const int64_t next = taken && w[slots] < end_ ? target : sequential(w[slots]);
  for (int k = 0; k < slots; ++k) w[k] = w[k + 1];
  w[slots] = next;
}

template <bool Compat>
bool Machine::accept() {
  Progress& p = progress;
  const int32_t index = static_cast<int32_t>(p.window[0] >> step_shift_);
  const Instruction& op = program[index];
  const int64_t tick = p.dispatch + 1;
  taken_ = false;
  if (op.unit == 0 || p.dropped) {
    if (!settle<Compat>(key_of(tick, 0))) return false;
    ++p.operations[0];
    p.busy[0] += op.kind != Class::delay;
    if (!p.dropped) {
      if ((op.flags & (kFootprintEnds | kSpanEnds)) && !check_pairs(op, index, tick, p.dropped)) return false;
      if (!p.dropped && !execute<Compat>(op, index, tick, p.dropped)) return false;
    }
    p.last = std::max(p.last, tick);
  } else if (!accept_unit<Compat>(op, index, tick)) {
    return false;
  }
  p.latched = false;
  advance(taken_, target_);
  return true;
}

int64_t Machine::transfer_ticks(int64_t bytes) const {
  const DmaLaw& law = settings.dma;
  Wide ticks = std::max(law.minimum, (bytes + law.vmem_bytes - 1) / law.vmem_bytes);
  if (law.link_bytes) {
    const int64_t beats = (bytes + law.command_bytes + law.link_bytes - 1) / law.link_bytes;
    ticks = std::max(ticks, Wide(beats) * law.link_ticks);
  }
  return static_cast<int64_t>(std::min<Wide>(ticks, kLastTick));
}

template <bool Compat>
bool Machine::accept_unit(const Instruction& op, int32_t index, int64_t tick) {
  Progress& p = progress;
  if (!settle<Compat>(key_of(tick, op.unit))) return false;
  ++p.operations[op.unit];
  Event event{};
  event.index = index;
  event.sequence = ++p.sequence;
  int64_t completes, ticks = op.latency;
  if (op.kind >= Class::dma_load) {
    int64_t bytes = 0;
    if (op.kind != Class::dma_config) {
      bytes = byte_count(address<Compat>(op.c, 0));
      ticks = transfer_ticks(bytes);
      (op.kind == Class::dma_load ? p.dma_loaded : p.dma_stored) += bytes;
    }
    const int64_t start = std::max(tick, p.dma_last + 1);
    completes = p.dma_last = std::min(start + ticks - 1, kLastTick + 1);
    p.clear[op.e] = completes + 1;
    set_trace(start, completes, bytes);
  } else {
    completes = p.dispatch + op.latency;
    set_trace(tick, completes, 0);
  }
  p.busy[op.unit] += ticks;
  p.last = std::max(p.last, completes);
  event.key = key_of(completes, op.unit);
  if (settings.conflict != Rule::ignore) {
    if (!check_pairs(op, index, tick, event.dropped)) return false;
    if (!event.dropped) {
      sets<Compat>(op, event.first_block, event.last_block);
      event.mask = op.mask;
      const bool blocks = event.first_block != event.last_block;
      if (p.held_registers & op.mask) {
        const Event* holder = rival(op.mask, 0, 0, 0);
        if (!fault(index, tick, FaultKind::bank_conflict, event.dropped, conflict_text(*holder, true, op.mask)))
          return false;
        p.shared_registers = true;
      }
      if (blocks && p.vmem_holders) {
        const Event* holder = rival(0, event.first_block, event.last_block, 0);
        if (holder && !fault(index, tick, FaultKind::bank_conflict, event.dropped, conflict_text(*holder, false, 0)))
          return false;
      }
      p.held_registers |= event.mask;
      p.vmem_holders += blocks;
    }
  }
  push(event);
  if (op.kind >= Class::dma_load && settings.dma_policy == DmaPolicy::early && !event.dropped)
    return execute<Compat>(op, index, tick, event.dropped);
  return true;
}

// --- decode ------------------------------------------------------------------------------

// Bookkeeping of an instruction that leaves decode.
void Machine::count(const Instruction& op, int32_t index, int64_t dispatch) {
  Progress& p = progress;
  p.held = false;
  p.dispatch = dispatch;
  ++p.instructions;
  ++counts[index].executions;
  counts[index].issue_ticks += dispatch - p.claim + 1;
  if (tracing && dispatch <= trace_last) {
    const bool channel = op.kind >= Class::dma_load || op.kind == Class::wait;
    const int8_t unit = p.dropped ? int8_t(0) : op.kind == Class::wait ? int8_t(-1) : int8_t(op.unit);
    trace.push_back({index, unit, channel ? int8_t(op.e) : int8_t(-1), p.claim, dispatch, 0, kNever, 0});
    p.row_open = true;
  }
}

// Decode takes the next instruction: everything that is wrong with it as such.
template <bool Compat>
bool Machine::claim() {
  Progress& p = progress;
  const int32_t index = static_cast<int32_t>(p.window[0] >> step_shift_);
  const Instruction& op = program[index];
  p.held = true;
  p.dropped = false;
  p.seen = 0;
  p.examine = p.claim;
  if (op.flags & kAbsent) {
    if (!fault(index, p.claim, FaultKind::illegal, p.dropped, "this profile does not have the instruction"))
      return false;
  }
  if (op.flags & kTransfer) {
    if (p.since_transfer < settings.delay_slots && settings.transfer_in_slot_faults &&
        !fault(index, p.claim, FaultKind::delay_slot, p.dropped, "a control transfer in a delay slot of another"))
      return false;
    p.since_transfer = 0;
  } else {
    ++p.since_transfer;
  }
  if (op.kind == Class::delay && op.imm < 0)
    return fault(index, p.claim, FaultKind::illegal, p.dropped, "negative delay " + std::to_string(op.imm));
  return true;
}

// The instruction in decode waits from `examine` until a tick; false when decode is not done
// with it, and `result` says why.
template <bool Compat>
bool Machine::wait_until(int64_t until, int64_t limit, Lost cause, Decoded& result) {
  Progress& p = progress;
  const int64_t from = p.examine;
  const int64_t seen = std::min(until - 1, limit);
  int64_t& lost = p.lost[static_cast<int>(cause)];
  if (!settle<Compat>(key_of(std::min(until, limit) + 1, 0))) {
    lost += p.tick - from;
    result = Decoded::stopped;
    return false;
  }
  lost += seen - from + 1;
  p.examine = seen + 1;
  result = Decoded::holding;
  return until <= limit;
}

template <bool Compat>
Machine::Decoded Machine::decode(int64_t limit) {
  Progress& p = progress;
  const int32_t index = static_cast<int32_t>(p.window[0] >> step_shift_);
  const Instruction& op = program[index];
  Decoded result = Decoded::dispatched;

  if (op.kind <= Class::wait || p.dropped) {  // scalar, delay, wait: nothing to share
    int64_t d = p.claim;
    if (!p.dropped && op.kind == Class::delay) d += op.imm;
    if (!p.dropped && op.kind == Class::wait) d = std::max(d, p.clear[op.e]);
    if (d > limit) return Decoded::holding;
    if (d > p.claim && !settle<Compat>(key_of(d + 1, 0))) return Decoded::stopped;
    if (!p.dropped && op.kind == Class::delay) p.lost[static_cast<int>(Lost::delay)] += op.imm;
    if (!p.dropped && op.kind == Class::wait) {
      const int64_t claim = p.claim;
      count(op, index, d);
      p.lost[static_cast<int>(Lost::dma_wait)] += d - claim;
      set_trace(d, d, 0);
      p.last = std::max(p.last, d);
      if (!late_.empty()) {
        p.held = true;  // decode still has it while the bytes move
        if (!land_late<Compat>(op.e, d)) return Decoded::stopped;
        p.held = false;
      }
      p.claim = d + 1;
      advance(false, 0);
      return Decoded::dispatched;
    }
    count(op, index, d);
    set_trace(d + 1, d + 1, 0);
    p.latched = true;
    p.claim = d + 1;
    return Decoded::dispatched;
  }

  if (p.examine > limit) return Decoded::holding;
  if (!settle<Compat>(key_of(p.examine + 1, 0))) return Decoded::stopped;
  const bool dma = op.kind >= Class::dma_load;
  const auto first_time = [&](FaultKind kind) {
    const uint8_t bit = 1 << static_cast<int>(kind);
    const bool first = settings.record && !(p.seen & bit);
    p.seen |= bit;
    return first;
  };
  if (!dma && p.examine < p.free[op.unit]) {
    const int64_t until = p.free[op.unit];
    const auto text = [&] { return settings.units[op.unit] + " is busy until tick " + std::to_string(until); };
    if (settings.busy == Rule::fault) {
      fault(index, p.examine, FaultKind::structural, p.dropped, text());
      return Decoded::stopped;
    }
    if (settings.note_busy && first_time(FaultKind::structural)) note(index, p.examine, FaultKind::structural, text());
    if (!wait_until<Compat>(until, limit, Lost::unit_busy, result)) return result;
  }
  if (dma && p.examine < p.clear[op.e]) {
    const std::string text = "channel " + std::to_string(op.e) + " is busy";
    if (settings.channel == Rule::fault) {
      fault(index, p.examine, FaultKind::channel_busy, p.dropped, text);
      return Decoded::stopped;
    }
    if (first_time(FaultKind::channel_busy)) note(index, p.examine, FaultKind::channel_busy, text);
    if (!wait_until<Compat>(p.clear[op.e], limit, Lost::channel_busy, result)) return result;
  }
  if (settings.conflict == Rule::stall) {
    for (;;) {
      const int64_t d = p.examine;
      int64_t first, last;
      sets<Compat>(op, first, last);
      const uint64_t from = key_of(d + 1, op.unit);
      const Event* holder = nullptr;
      const bool registers = (p.held_registers & op.mask) && (holder = rival(op.mask, 0, 0, from));
      if (!registers && first != last && p.vmem_holders) holder = rival(0, first, last, from);
      if (!holder) break;
      if (settings.note_conflict && first_time(FaultKind::bank_conflict))
        note(index, d + 1, FaultKind::bank_conflict, conflict_text(*holder, registers, op.mask));
      // Nothing changes before the next completion but one tick.
      const int64_t until = std::max(d + 1, events_[head_].tick() - 1);
      if (!wait_until<Compat>(until, limit, Lost::dependency, result)) return result;
    }
  }
  const int64_t d = p.examine;
  count(op, index, d);
  if (dma) {
    if (!late_.empty()) {
      p.held = true;
      if (!land_late<Compat>(op.e, d)) return Decoded::stopped;
      p.held = false;
    }
    p.clear[op.e] = kNever;
  } else {
    p.free[op.unit] = d + op.interval;
  }
  p.latched = true;
  p.claim = d + 1;
  return Decoded::dispatched;
}

// --- running -------------------------------------------------------------------------------

Stop Machine::run(const Limits& limits) {
  if (progress.outcome != Stop::none) return progress.outcome;
  return settings.compat ? run_as<true>(limits) : run_as<false>(limits);
}

template <bool Compat>
Stop Machine::run_as(const Limits& limits) {
  Progress& p = progress;
  // At a claim point the rest of the tick is still to come, whatever the limit says.
  const int64_t limit = std::max(std::min(limits.tick, kLastTick), p.tick);
  const int64_t slice_end = p.instructions + limits.slice;
  const int64_t count_end = std::min(slice_end, limits.instructions);
  const bool special = !breakpoints.empty() || !watches.empty() || limits.index >= 0;
  for (;;) {
    if (p.latched) {
      if (p.dispatch >= limit) return pause<Compat>(limit);
      if (!accept<Compat>()) return Stop::fault;
    }
    if (!p.held) {
      if (p.window[0] >= end_ && !p.halting) {
        if (!settle<Compat>(key_of(limit + 1, 0))) return Stop::fault;
        if (head_ == events_.size()) return finish<Compat>(Stop::end, p.last);
        return pause<Compat>(limit);
      }
      if (p.claim > limit) return pause<Compat>(limit);
      if (!settle<Compat>(key_of(p.claim + 1, 0))) return Stop::fault;
      if (p.halting) {
        // The public model still decodes in the tick of the halt, and may fault on it.
        const int64_t tick = p.claim;
        p.frozen_pc = before_claim();
        if (Compat && p.window[0] < end_ && (!claim<Compat>() || decode<Compat>(tick) == Decoded::stopped))
          return Stop::fault;
        return finish<Compat>(Stop::halt, tick);
      }
      if (special || p.instructions >= count_end) {
        const Stop reason = claim_point(limits);
        if (reason != Stop::none) {
          p.tick = p.claim;
          p.units_done = true;
          return reason;
        }
        if (p.instructions >= slice_end) return Stop::slice;
      }
      p.units_done = false;
      if (!claim<Compat>()) return Stop::fault;
    }
    switch (decode<Compat>(limit)) {
      case Decoded::dispatched:
        break;
      case Decoded::holding:
        return pause<Compat>(limit);
      case Decoded::stopped:
        return Stop::fault;
    }
  }
}

// Why to stop before decode claims the next instruction, if at all.
Stop Machine::claim_point(const Limits& limits) {
  Progress& p = progress;
  if (p.passed == p.instructions) return Stop::none;  // we stopped here before
  Stop reason = Stop::none;
  for (Watch& watch : watches) {
    std::vector<uint8_t> now = watched(watch);
    if (now != watch.value) {
      watch.value = std::move(now);
      reason = Stop::watch;
    }
  }
  const int64_t index = p.window[0] >> step_shift_;
  if (!breakpoints.empty() && breakpoints[index]) reason = Stop::breakpoint;
  if (p.instructions >= limits.instructions || limits.index == index) reason = Stop::until;
  if (reason != Stop::none) p.passed = p.instructions;
  return reason;
}

template <bool Compat>
Stop Machine::pause(int64_t limit) {
  if (!settle<Compat>(key_of(limit + 1, 0))) return Stop::fault;
  progress.tick = limit;
  return Stop::limit;
}

template <bool Compat>
Stop Machine::finish(Stop reason, int64_t tick) {
  progress.tick = tick;
  if (!land_late<Compat>(-1, tick)) return Stop::fault;
  return progress.outcome = reason;
}

}  // namespace atlas
