// Building a machine, loading programs, initial state, snapshots.
#include <charconv>
#include <map>

#include "machine.hpp"
#include "numbers.hpp"

namespace atlas {

Effect effect_named(const std::string& name) {
  static const std::map<std::string, Effect> effects = {
#define EFFECT(name, here) {name, Effect::here},
#include "effects.def"
#undef EFFECT
  };
  const auto found = effects.find(name);
  if (found == effects.end()) throw std::invalid_argument("the native machine has no effect named " + name);
  return found->second;
}

std::vector<std::string> effect_names() {
  return {
#define EFFECT(name, here) name,
#include "effects.def"
#undef EFFECT
  };
}

namespace {

// The highest value of an operand that the code of an effect can index with.
int64_t most_of(Effect effect, OperandRow::Place place) {
  using Place = OperandRow::Place;
  switch (place) {
    case Place::channel:
      return kChannels - 1;
    case Place::e:
      return 31;
    case Place::imm:
      if (effect >= Effect::slli && effect <= Effect::srai) return 31;
      return effect >= Effect::csrrw && effect <= Effect::csrrci ? 4095 : INT32_MAX;
    default:
      break;
  }
  switch (effect) {
    case Effect::push_weight:
    case Effect::push_fp8:
    case Effect::push_bf16:
      return place == Place::a ? 1 : 63;
    case Effect::pop_fp8:
    case Effect::pop_bf16:
      return place == Place::a ? 63 : 1;
    case Effect::matmul:
    case Effect::matmul_acc:
      return place == Place::b ? 63 : 1;
    case Effect::vload:
    case Effect::vstore:
      return place == Place::a ? 63 : 31;
    default:
      return effect >= Effect::vadd && effect <= Effect::vtrpose ? 63 : 31;
  }
}

int64_t least_of(Effect effect, OperandRow::Place place) {
  return place == OperandRow::Place::imm && most_of(effect, place) == INT32_MAX ? INT32_MIN : 0;
}

}  // namespace

Machine::Machine(Settings given, std::vector<Row> table, const Kernels& kernels)
    : settings(std::move(given)), rows(std::move(table)), registers(std::make_unique<Registers>()), kernels_(kernels) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
  };
  const int units = static_cast<int>(settings.units.size());
  require(units >= 1 && units <= kMaxUnits, "a machine has 1 to 8 units");
  require(settings.pc_step == 1 || settings.pc_step == 4, "pc_step must be 1 or 4");
  require(settings.delay_slots >= 1 && settings.delay_slots <= kMaxSlots, "delay_slots must be 1 to 8");
  require(settings.tile_registers == 1 || settings.tile_registers == 2, "tile_registers must be 1 or 2");
  require(settings.vmem_bytes >= 1024 && settings.vmem_bytes <= 1ull << 32, "VMEM must have 1 KiB to 4 GiB");
  require(settings.dram_bytes >= 1024 && settings.dram_bytes <= 1ull << 44, "DRAM must have 1 KiB to 16 TiB");
  const DmaLaw& law = settings.dma;
  for (int64_t number : {law.minimum, law.link_bytes, law.link_ticks, law.command_bytes, law.vmem_bytes, law.max_bytes})
    require(number >= 0 && number <= 1ll << 32, "a DMA number must be 0 to 2^32");
  require(law.vmem_bytes >= 1 && law.minimum >= 1, "DMA times must be positive");
  require(rows.size() <= 256, "the table has more than 256 rows");
  for (const Row& row : rows) {
    require(row.unit >= 0 && row.unit < units, "an instruction has no unit");
    require(row.latency >= 1 && row.latency <= 1u << 24, "a latency must be 1 to 2^24");
    require(row.interval >= 1 && row.interval <= row.latency, "an interval must be 1 to the latency");
    require(row.mxu == 0 || row.mxu == 1, "there are two matrix units");
    require(row.kind != Class::unit || row.unit != 0, "unit 0 takes scalar instructions only");
    require(row.kind == Class::unit || row.kind >= Class::dma_load || row.unit == 0,
            "a scalar instruction runs on unit 0");
    require(row.kind < Class::dma_load || row.unit != 0, "DMA cannot be unit 0");
    const bool tensors = row.effect == Effect::vload || row.effect == Effect::vstore;
    require(row.tensor_memory == tensors, "vload and vstore alone access VMEM by tiles");
    require(!tensors || row.bytes == 1024, "a tensor register has 1024 bytes");
    if (row.effect >= Effect::lb && row.effect <= Effect::sw)
      require(row.bytes == 1 || row.bytes == 2 || row.bytes == 4, "a scalar has 1, 2 or 4 bytes");
    for (const OperandRow& operand : row.operands) {
      require(operand.span >= 1 && operand.span <= 2 && operand.footprint >= 1 && operand.footprint <= 2,
              "an operand covers one or two registers");
      require(operand.low >= least_of(row.effect, operand.place) && operand.high <= most_of(row.effect, operand.place),
              "an operand's range does not fit its effect");
    }
  }
  step_ = settings.pc_step;
  step_shift_ = step_ == 4 ? 2 : 0;
  reset();
}

void Machine::load(const uint8_t* opcodes, const int32_t* operands, size_t count, size_t width, bool keep_memory) {
  if (count > size_t(1) << 28) throw std::invalid_argument("the program is too long");
  std::vector<Instruction> loaded(count);
  for (size_t i = 0; i < count; ++i) {
    if (opcodes[i] >= rows.size())
      throw std::invalid_argument("instruction " + std::to_string(i) + " has opcode " + std::to_string(opcodes[i]) +
                                  ", the table ends before");
    const Row& row = rows[opcodes[i]];
    Instruction op{};
    op.effect = row.effect;
    op.kind = row.kind;
    op.unit = static_cast<uint8_t>(row.unit);
    op.row = opcodes[i];
    op.latency = row.latency;
    op.interval = row.interval;
    op.size = static_cast<uint16_t>(row.bytes);
    op.mxu = static_cast<uint8_t>(row.mxu);
    op.flags = (row.present ? 0 : kAbsent) | (row.transfer ? kTransfer : 0) | (row.tensor_memory ? kTensorMemory : 0);
    if (row.operands.size() > width) throw std::invalid_argument("operand columns are missing");
    for (size_t k = 0; k < row.operands.size(); ++k) {
      const OperandRow& operand = row.operands[k];
      const int32_t value = operands[i * width + k];
      if (value < operand.low || value > operand.high)
        throw std::invalid_argument("operand " + std::to_string(k + 1) + " of instruction " + std::to_string(i) + " (" +
                                    row.mnemonic + ") is " + std::to_string(value) + ", must be " +
                                    std::to_string(operand.low) + " to " + std::to_string(operand.high));
      switch (operand.place) {
        case OperandRow::Place::a:
          op.a = static_cast<uint8_t>(value);
          break;
        case OperandRow::Place::b:
          op.b = static_cast<uint8_t>(value);
          break;
        case OperandRow::Place::c:
          op.c = static_cast<uint8_t>(value);
          break;
        case OperandRow::Place::e:
        case OperandRow::Place::channel:
          op.e = static_cast<uint8_t>(value);
          break;
        case OperandRow::Place::imm:
          op.imm = value;
          break;
      }
      if (!operand.tensor) continue;
      for (int n = 0; n < operand.footprint && value + n < 64; ++n) op.mask |= 1ull << (value + n);
      if (value + operand.footprint > 64) op.flags |= kFootprintEnds;
      if (value + operand.span > 64) op.flags |= kSpanEnds;
    }
    loaded[i] = op;
  }
  program = std::move(loaded);
  breakpoints.clear();
  if (keep_memory)
    restart();
  else
    reset();
}

void Machine::reset() {
  vmem.reset(settings.vmem_bytes, 1, settings.fill);
  dram.reset(settings.dram_bytes, 0, settings.fill);
  restart();
}

void Machine::restart() {
  Registers& r = *registers;
  const Fill& fill = settings.fill;
  fill.bytes(2, 0, r.m[0], sizeof r.m);
  fill.bytes(3, 0, r.w[0], sizeof r.w);
  std::vector<uint8_t> raw(sizeof r.acc);
  fill.bytes(4, 0, raw.data(), raw.size());
  uint16_t* acc = r.acc[0];
  for (size_t i = 0; i < 4096; ++i) acc[i] = static_cast<uint16_t>(raw[2 * i] | raw[2 * i + 1] << 8);
  const auto words = [&](uint64_t space, auto* to, size_t count) {
    raw.resize(4 * count);
    fill.bytes(space, 0, raw.data(), raw.size());
    for (size_t i = 0; i < count; ++i)
      to[i] = static_cast<uint32_t>(raw[4 * i] | raw[4 * i + 1] << 8 | raw[4 * i + 2] << 16) |
              static_cast<uint32_t>(raw[4 * i + 3]) << 24;
  };
  words(5, r.x, 32);
  for (int i = 0; i < 32; ++i) {
    if (fill.initial == Initial::poison) r.x[i] = 0xFFFFFFE0u;
    if (i == 0) r.x[i] = 0;
    r.wide[i] = r.x[i];
  }
  fill.bytes(6, 0, r.e, sizeof r.e);
  words(7, r.csr, 4096);
  r.dma_base = 0;
  for (int slot = 0; slot < 4; ++slot) refresh_weight(slot);

  progress = Progress();
  end_ = static_cast<int64_t>(program.size()) * step_;
  for (int k = 0; k <= settings.delay_slots; ++k) progress.window[k] = k == 0 ? 0 : sequential(progress.window[k - 1]);
  events_.clear();
  head_ = 0;
  late_.clear();
  counts.assign(program.size(), Counts{0, 0});
  faults.clear();
  trace.clear();
  taken_ = false;
}

void Machine::decode_weight(Registers& of, int slot) const { kernels_.decode_tile(of.w[slot], of.weight[slot]); }

int64_t Machine::pc() const {
  const Progress& p = progress;
  if (p.frozen_pc >= 0) return p.frozen_pc;
  if (p.tick == 0) return 0;
  return p.held || p.latched ? fetching() : before_claim();
}

Wide Machine::scalar(int index) const { return settings.compat ? registers->wide[index] : Wide(registers->x[index]); }

void Machine::set_scalar(int index, Wide value) {
  if (index == 0) return;
  registers->wide[index] = value;
  registers->x[index] = static_cast<uint32_t>(value);
}

namespace {

// The number after a prefix such as "csr", or -1.
int number_after(const std::string& name, size_t prefix, int limit) {
  int value = -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix, end, value);
  return error == std::errc() && stop == end && value >= 0 && value < limit ? value : -1;
}

template <typename T>
std::vector<uint8_t> bytes_of(const T& value) {
  const auto* from = reinterpret_cast<const uint8_t*>(&value);
  return {from, from + sizeof value};
}

}  // namespace

// The watched bytes, or the raw value of the watched register.
std::vector<uint8_t> Machine::watched(const Watch& watch) const {
  if (watch.space != Watch::Space::name) {
    std::vector<uint8_t> bytes(watch.size);
    (watch.space == Watch::Space::dram ? dram : vmem).read(watch.address, bytes.data(), watch.size);
    return bytes;
  }
  const Registers& r = *registers;
  const std::string& name = watch.name;
  if (name == "pc") return bytes_of(pc());
  if (name == "dma.base") return bytes_of(r.dma_base);
  if (name.rfind("mxu", 0) == 0) {
    const int slot = 2 * (name[3] - '0') + (name.back() - '0');
    return name[5] == 'w' ? bytes_of(r.w[slot]) : bytes_of(r.acc[slot]);
  }
  if (name.rfind("csr", 0) == 0) return bytes_of(r.csr[number_after(name, 3, 4096)]);
  if (name[0] == 'x') return bytes_of(scalar(number_after(name, 1, 32)));
  if (name[0] == 'e') return bytes_of(r.e[number_after(name, 1, 32)]);
  return bytes_of(r.m[number_after(name, 1, 64)]);
}

std::unique_ptr<Snapshot> Machine::snapshot() const {
  auto copy = std::make_unique<Snapshot>();
  copy->registers = std::make_unique<Registers>(*registers);
  copy->progress = progress;
  copy->vmem = vmem;
  copy->dram = dram;
  copy->events.assign(events_.begin() + static_cast<std::ptrdiff_t>(head_), events_.end());
  copy->late = late_;
  copy->counts = counts;
  copy->faults = faults;
  copy->trace = trace;
  copy->watches = watches;
  return copy;
}

void Machine::restore(const Snapshot& from) {
  if (from.counts.size() != counts.size() || from.vmem.size() != vmem.size() || from.dram.size() != dram.size())
    throw std::invalid_argument("the snapshot was taken with another program or profile");
  *registers = *from.registers;
  progress = from.progress;
  vmem = from.vmem;
  dram = from.dram;
  events_ = from.events;
  head_ = 0;
  late_ = from.late;
  counts = from.counts;
  faults = from.faults;
  trace = from.trace;
  watches = from.watches;
}

}  // namespace atlas
