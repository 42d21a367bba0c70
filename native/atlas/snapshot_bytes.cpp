#include "snapshot_bytes.hpp"

#include <type_traits>

namespace atlas {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// Numbers are written with their lowest byte first, whatever the processor.
class Writer {
 public:
  std::string out;

  template <typename T>
  void number(const T& value) {
    const auto bits = static_cast<uint64_t>(value);
    for (size_t at = 0; at < sizeof(T); ++at) out.push_back(static_cast<char>(bits >> (8 * at)));
  }
  void bytes(const uint8_t* from, size_t count) { out.append(reinterpret_cast<const char*>(from), count); }
  template <typename T, typename Each>
  void list(const std::vector<T>& items, Each each) {
    number(static_cast<uint64_t>(items.size()));
    for (const T& item : items) each(item);
  }
};

class Reader {
 public:
  explicit Reader(BytesView from) : from_(from) {}

  template <typename T>
  void number(T& value) {
    require(left() >= sizeof(T), "the state of the machine is cut short");
    uint64_t bits = 0;
    for (size_t at = 0; at < sizeof(T); ++at) bits |= static_cast<uint64_t>(from_.data[at_++]) << (8 * at);
    if constexpr (std::is_same_v<T, bool>) require(bits <= 1, "a mark of the machine is neither set nor clear");
    value = static_cast<T>(bits);
  }
  void bytes(uint8_t* to, size_t count) {
    require(left() >= count, "the state of the machine is cut short");
    std::copy_n(from_.data + at_, count, to);
    at_ += count;
  }
  template <typename T, typename Each>
  void list(std::vector<T>& items, Each each) {
    uint64_t count = 0;
    number(count);
    require(count <= left(), "the state of the machine is cut short");  // an item has a byte or more
    items.resize(count);
    for (T& item : items) each(item);
  }
  size_t left() const { return from_.size - at_; }

 private:
  BytesView from_;
  size_t at_ = 0;
};

// All that a machine is apart from its memories, field by field: the one list for both directions.
template <typename Archive, typename State>
void visit(Archive& a, State& state) {
  const auto all = [&](auto& numbers) {
    for (auto& number : numbers) a.number(number);
  };
  auto& r = *state.registers;
  all(r.x);
  all(r.e);
  for (auto& wide : r.csr) {
    auto low = static_cast<uint32_t>(wide);
    a.number(low);
    if constexpr (!std::is_const_v<std::remove_reference_t<decltype(wide)>>) wide = low;
  }
  a.number(r.dma_base);
  a.bytes(r.m[0], sizeof r.m);
  a.bytes(r.w[0], sizeof r.w);
  for (auto& tile : r.acc) all(tile);

  auto& p = state.progress;
  a.number(p.tick), a.number(p.units_done), a.number(p.held), a.number(p.latched), a.number(p.dropped);
  a.number(p.halting), a.number(p.seen), a.number(p.claim), a.number(p.examine), a.number(p.dispatch);
  a.number(p.last);
  all(p.window);
  a.number(p.since_transfer);
  all(p.free);
  all(p.clear);
  a.number(p.dma_last), a.number(p.sequence), a.number(p.held_registers), a.number(p.shared_registers);
  a.number(p.vmem_holders), a.number(p.passed), a.number(p.frozen_pc), a.number(p.instructions);
  all(p.operations);
  all(p.busy);
  a.number(p.dma_loaded), a.number(p.dma_stored);
  all(p.lost);

  a.list(state.events, [&](auto& event) {
    a.number(event.key), a.number(event.sequence), a.number(event.mask), a.number(event.first_block);
    a.number(event.last_block), a.number(event.index), a.number(event.dropped), a.number(event.landed);
  });
  a.list(state.late, [&](auto& late) { a.number(late.index), a.number(late.dropped); });
  a.list(state.counts, [&](auto& count) { a.number(count.executions), a.number(count.issue_ticks); });
}

// A state that running from cannot leave the program, its registers or its queues.
void check(const Machine& machine, const Snapshot& s) {
  const Progress& p = s.progress;
  const auto instructions = static_cast<int64_t>(machine.program.size());
  const int64_t step = machine.settings.pc_step;
  require(s.counts.size() == machine.program.size(), "the state is that of another program");
  require(s.registers->x[0] == 0, "x0 is not zero");
  for (const int64_t address : p.window)
    require(address >= 0 && address <= kNever && address % step == 0, "an instruction address is none");
  require(!(p.held || p.latched) || p.window[0] < instructions * step, "what is in decode is not in the program");
  const int64_t most = kLastTick + 1;
  for (const int64_t tick : {p.tick, p.claim, p.examine, p.dispatch, p.last, p.dma_last})
    require(tick >= 0 && tick <= most, "a tick is out of range");
  for (const int64_t tick : p.free) require(tick >= 0 && tick <= kNever, "a tick is out of range");
  for (const int64_t tick : p.clear) require(tick >= 0 && tick <= kNever, "a tick is out of range");

  uint64_t held = 0, before = 0;
  int64_t holders = 0;
  for (const Event& event : s.events) {
    require(event.index >= 0 && event.index < instructions, "an operation in flight is not in the program");
    const Instruction& op = machine.program[static_cast<size_t>(event.index)];
    require(op.kind >= Class::unit && event.place() == op.unit, "an operation is in flight on no unit of it");
    const bool checked = machine.settings.conflict != Rule::ignore && !event.dropped;
    require(!checked || !(op.flags & (kSpanEnds | kFootprintEnds)), "an operation in flight has no registers");
    require((event.mask & ~op.mask) == 0, "an operation in flight holds registers that it has not");
    require(event.key >= before, "operations in flight are out of order");
    before = event.key;
    held |= event.mask;
    holders += event.first_block != event.last_block;
  }
  require(held == p.held_registers && holders == p.vmem_holders, "registers are held by no operation");
  for (const LateTransfer& late : s.late) {
    require(late.index >= 0 && late.index < instructions, "a transfer is not in the program");
    require(machine.program[static_cast<size_t>(late.index)].kind >= Class::dma_load, "a transfer is none");
  }
}

void unpack_memory(SparseMemory& memory, const BlocksView& blocks) {
  uint64_t least = 0, done = 0;
  for (size_t number = 0; number < blocks.count; ++number) {
    const uint64_t address = blocks.addresses[number];
    require(address >= least && address < memory.size() && address % kBlockBytes == 0,
            "a block of memory has no place");
    const uint64_t count = std::min(kBlockBytes, memory.size() - address);
    require(count <= blocks.data.size - done, "the content of memory is cut short");
    memory.write(address, blocks.data.data + done, count);
    done += count;
    least = address + count;
  }
  require(done == blocks.data.size, "there is more content of memory than blocks");
}

}  // namespace

std::string pack_core(const Snapshot& snapshot, const Settings& settings) {
  require(snapshot.progress.outcome == Stop::none, "the run has ended");
  require(!settings.compat, "the machine is the public model's");
  require(snapshot.faults.empty() && !settings.record, "faults are being recorded");
  require(snapshot.trace.empty() && !snapshot.progress.row_open, "the run is traced");
  require(snapshot.watches.empty(), "memory or registers are watched");
  Writer writer;
  visit(writer, snapshot);
  return std::move(writer.out);
}

Blocks pack_memory(const SparseMemory& now, const SparseMemory& base) {
  require(now.comparable(base), "the machine began with other contents of its memory");
  Blocks found;
  std::vector<uint8_t> mine(kBlockBytes), theirs(kBlockBytes);
  now.each_page_unlike(base, [&](uint64_t start, uint64_t end) {
    for (uint64_t at = start; at < end; at += kBlockBytes) {
      const uint64_t count = std::min(kBlockBytes, end - at);
      now.read(at, mine.data(), count);
      base.read(at, theirs.data(), count);
      if (std::equal(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(count), theirs.begin())) continue;
      found.addresses.push_back(at);
      found.data.append(reinterpret_cast<const char*>(mine.data()), count);
    }
  });
  return found;
}

std::unique_ptr<Snapshot> unpack(const Machine& machine, const Snapshot& base, BytesView core, const BlocksView& vmem,
                                 const BlocksView& dram) {
  require(base.vmem.comparable(machine.vmem) && base.dram.comparable(machine.dram),
          "the machine began with other contents of its memory");
  require(!machine.settings.compat && !machine.settings.record, "the machine records faults or is the public model's");
  auto result = std::make_unique<Snapshot>();
  result->registers = std::make_unique<Registers>();
  Reader reader(core);
  visit(reader, *result);
  require(reader.left() == 0, "there is more of the machine's state than it has");
  check(machine, *result);
  Registers& r = *result->registers;
  for (int i = 0; i < 32; ++i) r.wide[i] = r.x[i];
  for (int slot = 0; slot < 4; ++slot) machine.decode_weight(r, slot);
  result->vmem = base.vmem;
  result->dram = base.dram;
  unpack_memory(result->vmem, vmem);
  unpack_memory(result->dram, dram);
  return result;
}

}  // namespace atlas
