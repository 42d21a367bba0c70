// The Python face of the machine. Everything a caller passes is checked here or in setup.cpp.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <atomic>

#include "machine.hpp"
#include "snapshot_bytes.hpp"
#include "tables.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace atlas {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Operands = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

using Addresses = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T>
T item(const nb::dict& from, const char* key) {
  if (!from.contains(key)) throw nb::key_error(key);
  return nb::cast<T>(from[key]);
}

template <typename T>
T choice(const std::string& word, std::initializer_list<std::pair<const char*, T>> choices) {
  for (const auto& [name, value] : choices)
    if (word == name) return value;
  throw std::invalid_argument("unknown setting " + word);
}

Rule rule(const nb::dict& from, const char* key) {
  return choice<Rule>(item<std::string>(from, key),
                      {{"fault", Rule::fault}, {"stall", Rule::stall}, {"ignore", Rule::ignore}});
}

Settings settings_of(const nb::dict& d) {
  Settings s;
  s.units = item<std::vector<std::string>>(d, "units");
  s.pc_step = item<int>(d, "pc_step");
  s.delay_slots = item<int>(d, "delay_slots");
  s.halts = item<bool>(d, "halts");
  s.busy = rule(d, "busy");
  s.conflict = rule(d, "conflict");
  s.channel = rule(d, "channel");
  s.record = item<bool>(d, "record");
  s.note_busy = item<bool>(d, "note_busy");
  s.note_conflict = item<bool>(d, "note_conflict");
  s.transfer_in_slot_faults = item<bool>(d, "transfer_in_slot_faults");
  s.dma_policy =
      choice<DmaPolicy>(item<std::string>(d, "dma_policy"),
                        {{"exact", DmaPolicy::exact}, {"early", DmaPolicy::early}, {"late", DmaPolicy::late}});
  s.compat = item<bool>(d, "compat");
  s.fill.initial = choice<Initial>(item<std::string>(d, "initial"),
                                   {{"zero", Initial::zero}, {"poison", Initial::poison}, {"random", Initial::random}});
  s.fill.seed = item<uint64_t>(d, "seed");
  s.vmem_bytes = item<uint64_t>(d, "vmem_bytes");
  s.dram_bytes = item<uint64_t>(d, "dram_bytes");
  s.tile_registers = item<int>(d, "tile_registers");
  s.fill_bits = item<bool>(d, "fill_bits");
  s.pop_divides = item<bool>(d, "pop_divides");
  s.row_sum_quarters = item<bool>(d, "row_sum_quarters");
  s.column_sum_halves = item<bool>(d, "column_sum_halves");
  const nb::dict dma = item<nb::dict>(d, "dma");
  s.dma.minimum = item<int64_t>(dma, "minimum");
  s.dma.link_bytes = item<int64_t>(dma, "link_bytes");
  s.dma.link_ticks = item<int64_t>(dma, "link_ticks");
  s.dma.command_bytes = item<int64_t>(dma, "command_bytes");
  s.dma.vmem_bytes = item<int64_t>(dma, "vmem_bytes");
  s.dma.max_bytes = item<int64_t>(dma, "max_bytes");
  const nb::dict quirks = item<nb::dict>(d, "accidents");
  s.accidents.link_from_fetch = item<int>(quirks, "link_from_fetch");
  s.accidents.auipc_from_fetch = item<int>(quirks, "auipc_from_fetch");
  s.accidents.jalr_offset = item<int>(quirks, "jalr_offset");
  s.accidents.branch_from_fetch = item<bool>(quirks, "branch_from_fetch");
  s.accidents.sra_unbounded = item<bool>(quirks, "sra_unbounded");
  s.accidents.zero_byte_store_faults = item<bool>(quirks, "zero_byte_store_faults");
  s.accidents.misaligned_load_faults = item<bool>(quirks, "misaligned_load_faults");
  return s;
}

OperandRow operand_of(const nb::dict& d) {
  using Place = OperandRow::Place;
  OperandRow operand;
  operand.place = choice<Place>(item<std::string>(d, "key"), {{"rd", Place::a},
                                                              {"vd", Place::a},
                                                              {"rs1", Place::b},
                                                              {"vs1", Place::b},
                                                              {"rs2", Place::c},
                                                              {"vs2", Place::c},
                                                              {"es1", Place::e},
                                                              {"imm", Place::imm},
                                                              {"imm12", Place::imm},
                                                              {"channel", Place::channel}});
  const std::string kind = item<std::string>(d, "kind");
  operand.tensor = kind == "m";
  operand.low = item<int64_t>(d, "low");
  operand.high = item<int64_t>(d, "high");
  operand.span = item<int>(d, "span");
  operand.footprint = item<int>(d, "footprint");
  return operand;
}

Row row_of(const nb::dict& d) {
  Row row;
  row.mnemonic = item<std::string>(d, "mnemonic");
  row.effect = effect_named(item<std::string>(d, "effect"));
  row.kind = choice<Class>(item<std::string>(d, "kind"), {{"scalar", Class::scalar},
                                                          {"delay", Class::delay},
                                                          {"wait", Class::wait},
                                                          {"unit", Class::unit},
                                                          {"dma_load", Class::dma_load},
                                                          {"dma_store", Class::dma_store},
                                                          {"dma_config", Class::dma_config}});
  row.unit = item<int>(d, "unit");
  row.latency = item<uint32_t>(d, "latency");
  row.interval = item<uint32_t>(d, "interval");
  row.present = item<bool>(d, "present");
  row.transfer = item<bool>(d, "transfer");
  row.tensor_memory = item<bool>(d, "tensor_memory");
  row.bytes = item<uint32_t>(d, "bytes");
  row.mxu = item<int>(d, "mxu");
  for (const nb::handle operand : item<nb::list>(d, "operands"))
    row.operands.push_back(operand_of(nb::cast<nb::dict>(operand)));
  return row;
}

nb::object integer(Wide value) {
  const auto high = static_cast<int64_t>(value >> 64);
  const auto low = static_cast<uint64_t>(value);
  if (high == (static_cast<int64_t>(low) >> 63)) return nb::int_(static_cast<int64_t>(low));
  return (nb::int_(high) << nb::int_(64)) | nb::int_(low);
}

const char* kFaultNames[] = {"structural", "bank_conflict", "channel_busy", "delay_slot",
                             "pair_range", "bounds",        "misaligned",   "illegal"};
const char* kStopNames[] = {"none", "end", "halt", "fault", "limit", "until", "breakpoint", "watch", "slice"};

// A machine that only one thread at a time may touch, though runs release the interpreter.
class Guarded {
 public:
  Guarded(const nb::list& rows, const nb::dict& settings, const std::string& kernels) {
    const Kernels* chosen = kernels.empty() ? &best_kernels() : find_kernels(kernels.c_str());
    if (!chosen) throw std::invalid_argument("this processor has no " + kernels + " kernels");
    std::vector<Row> table;
    for (const nb::handle row : rows) table.push_back(row_of(nb::cast<nb::dict>(row)));
    machine_ = std::make_unique<Machine>(settings_of(settings), std::move(table), *chosen);
    kernels_ = chosen->name;
  }

  class Hold {
   public:
    explicit Hold(Guarded& owner) : owner_(owner) {
      if (owner_.busy_.exchange(true)) throw std::runtime_error("the machine is in use by another thread");
    }
    ~Hold() { owner_.busy_ = false; }
    Hold(const Hold&) = delete;
    Machine* operator->() { return owner_.machine_.get(); }
    Machine& operator*() { return *owner_.machine_; }

   private:
    Guarded& owner_;
  };

  Hold hold() { return Hold(*this); }
  const std::string& kernels() const { return kernels_; }

 private:
  std::unique_ptr<Machine> machine_;
  std::string kernels_;
  std::atomic<bool> busy_{false};
};

SparseMemory& space_of(Machine& machine, const std::string& space, uint64_t address, uint64_t count) {
  SparseMemory& memory = choice<int>(space, {{"dram", 0}, {"vmem", 1}}) ? machine.vmem : machine.dram;
  if (address > memory.size() || count > memory.size() - address)
    throw std::invalid_argument(std::to_string(count) + " bytes at " + std::to_string(address) + " are outside " +
                                space + " of " + std::to_string(memory.size()) + " bytes");
  return memory;
}

nb::bytes read(Guarded& self, const std::string& space, uint64_t address, uint64_t count) {
  auto machine = self.hold();
  SparseMemory& memory = space_of(*machine, space, address, count);
  nb::object result = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(count)));
  if (!result.is_valid()) throw nb::python_error();
  memory.read(address, reinterpret_cast<uint8_t*>(PyBytes_AsString(result.ptr())), count);
  return nb::borrow<nb::bytes>(result);
}

void write(Guarded& self, const std::string& space, uint64_t address, const nb::bytes& data) {
  auto machine = self.hold();
  SparseMemory& memory = space_of(*machine, space, address, data.size());
  memory.write(address, reinterpret_cast<const uint8_t*>(data.c_str()), data.size());
}

// A register of bytes: its place and size.
std::pair<uint8_t*, size_t> tile_of(Machine& machine, const std::string& kind, int number) {
  Registers& r = *machine.registers;
  const int which = choice<int>(kind, {{"m", 0}, {"w", 1}, {"acc", 2}});
  if (number < 0 || number >= (which == 0 ? 64 : 4)) throw std::invalid_argument("no such register");
  if (which == 0) return {r.m[number], 1024};
  if (which == 1) return {r.w[number], 1024};
  return {reinterpret_cast<uint8_t*>(r.acc[number]), 2048};
}

nb::bytes read_tile(Guarded& self, const std::string& kind, int number) {
  auto machine = self.hold();
  const auto [at, size] = tile_of(*machine, kind, number);
  return nb::bytes(reinterpret_cast<const char*>(at), size);
}

void write_tile(Guarded& self, const std::string& kind, int number, const nb::bytes& data) {
  auto machine = self.hold();
  const auto [at, size] = tile_of(*machine, kind, number);
  if (data.size() != size) throw std::invalid_argument("wrong number of bytes for the register");
  std::memcpy(at, data.c_str(), size);
  if (kind == "w") machine->refresh_weight(number);
}

nb::object read_number(Guarded& self, const std::string& kind, int number) {
  auto machine = self.hold();
  const Registers& r = *machine->registers;
  switch (choice<int>(kind, {{"x", 0}, {"e", 1}, {"csr", 2}, {"base", 3}, {"pc", 4}})) {
    case 0:
      return integer(machine->scalar(number & 31));
    case 1:
      return nb::int_(r.e[number & 31]);
    case 2:
      return integer(r.csr[number & 4095]);
    case 3:
      return nb::int_(r.dma_base);
    default:
      return nb::int_(machine->pc());
  }
}

// The value comes as its low 128 bits, in two halves.
void write_number(Guarded& self, const std::string& kind, int number, uint64_t low, uint64_t high) {
  auto machine = self.hold();
  Registers& r = *machine->registers;
  const auto value = static_cast<Wide>((static_cast<unsigned __int128>(high) << 64) | low);
  switch (choice<int>(kind, {{"x", 0}, {"e", 1}, {"csr", 2}, {"base", 3}})) {
    case 0:
      machine->set_scalar(number & 31, value);
      return;
    case 1:
      r.e[number & 31] = static_cast<uint8_t>(low);
      return;
    case 2:
      r.csr[number & 4095] = machine->settings.compat ? value : Wide(static_cast<uint32_t>(low));
      return;
    default:
      r.dma_base = static_cast<uint32_t>(low);
      return;
  }
}

std::string run(Guarded& self, int64_t tick, int64_t instructions, int64_t index, int64_t slice) {
  auto machine = self.hold();
  Limits limits;
  limits.tick = std::min(tick, kNever);
  limits.instructions = std::min(instructions, kNever);
  limits.index = index;
  limits.slice = std::clamp<int64_t>(slice, 1, 1ll << 40);
  Stop reason;
  {
    nb::gil_scoped_release release;
    reason = machine->run(limits);
  }
  return kStopNames[static_cast<int>(reason)];
}

void set_breakpoints(Guarded& self, const std::vector<int64_t>& indices) {
  auto machine = self.hold();
  machine->breakpoints.clear();
  for (const int64_t index : indices) {
    if (index < 0 || index >= static_cast<int64_t>(machine->program.size())) continue;
    machine->breakpoints.resize(machine->program.size());
    machine->breakpoints[static_cast<size_t>(index)] = 1;
  }
}

void watch(Guarded& self, const std::string& space, uint64_t address, uint64_t size) {
  auto machine = self.hold();
  Watch entry;
  entry.address = address;
  entry.size = size;
  entry.name = space;
  entry.space = Watch::Space::name;
  if (space == "dram" || space == "vmem") {
    space_of(*machine, space, address, size);
    entry.space = space == "dram" ? Watch::Space::dram : Watch::Space::vmem;
  }
  entry.value = machine->watched(entry);
  machine->watches.push_back(std::move(entry));
}

void unwatch(Guarded& self, const std::string& space, uint64_t address, uint64_t size) {
  auto machine = self.hold();
  std::erase_if(machine->watches, [&](const Watch& entry) {
    return entry.name == space && entry.address == address && entry.size == size;
  });
}

nb::dict statistics(Guarded& self) {
  auto machine = self.hold();
  const Progress& p = machine->progress;
  nb::dict result;
  nb::list operations, busy, lost;
  for (size_t i = 0; i < machine->settings.units.size(); ++i) {
    operations.append(p.operations[i]);
    busy.append(p.busy[i]);
  }
  for (const int64_t ticks : p.lost) lost.append(ticks);
  result["instructions"] = p.instructions;
  result["operations"] = operations;
  result["busy"] = busy;
  result["lost"] = lost;  // delay, dma_wait, unit_busy, channel_busy, dependency
  result["dma_loaded"] = p.dma_loaded;
  result["dma_stored"] = p.dma_stored;
  result["counts"] =
      nb::bytes(reinterpret_cast<const char*>(machine->counts.data()), machine->counts.size() * sizeof(Counts));
  return result;
}

nb::list faults(Guarded& self, size_t from) {
  auto machine = self.hold();
  nb::list result;
  for (size_t i = from; i < machine->faults.size(); ++i) {
    const FaultRecord& f = machine->faults[i];
    result.append(nb::make_tuple(kFaultNames[static_cast<int>(f.kind)], f.index, f.tick, f.stopping, f.message));
  }
  return result;
}

// A snapshot for a file: (core, VMEM addresses, VMEM data, DRAM addresses, DRAM data), the memories
// as blocks that differ from the base's.
nb::tuple pack(Guarded& self, const Snapshot& snapshot, const Snapshot& base) {
  const auto bytes = [](const void* data, size_t size) { return nb::bytes(static_cast<const char*>(data), size); };
  const std::string core = pack_core(snapshot, self.hold()->settings);
  const Blocks vmem = pack_memory(snapshot.vmem, base.vmem), dram = pack_memory(snapshot.dram, base.dram);
  const auto places = [&](const Blocks& of) { return bytes(of.addresses.data(), of.addresses.size() * 8); };
  const auto content = [&](const Blocks& of) { return bytes(of.data.data(), of.data.size()); };
  return nb::make_tuple(bytes(core.data(), core.size()), places(vmem), content(vmem), places(dram), content(dram));
}

std::unique_ptr<Snapshot> unpack_snapshot(Guarded& self, const Snapshot& base, const Bytes& core,
                                          const Addresses& vmem_places, const Bytes& vmem, const Addresses& dram_places,
                                          const Bytes& dram) {
  auto machine = self.hold();
  const auto view = [](const Bytes& of) { return BytesView{of.data(), of.shape(0)}; };
  const auto blocks = [&](const Addresses& at, const Bytes& of) {
    return BlocksView{at.data(), at.shape(0), view(of)};
  };
  return unpack(*machine, base, view(core), blocks(vmem_places, vmem), blocks(dram_places, dram));
}

// Rows of 46 bytes without padding.
nb::bytes trace(Guarded& self) {
  auto machine = self.hold();
  std::string packed;
  packed.reserve(46 * machine->trace.size());
  const auto add = [&](const auto& value) { packed.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const TraceRow& row : machine->trace) {
    if (row.end < machine->trace_first || row.dispatch > machine->trace_last) continue;
    add(row.index), add(row.unit), add(row.channel), add(row.claim), add(row.dispatch);
    add(row.start), add(row.end), add(row.bytes);
  }
  return nb::bytes(packed.data(), packed.size());
}

}  // namespace
}  // namespace atlas

NB_MODULE(_native, m) {
  using atlas::Guarded;
  m.doc() = "Fast simulators";
  nb::class_<atlas::Snapshot>(m, "AtlasSnapshot");
  nb::class_<Guarded>(m, "AtlasMachine")
      .def(nb::init<const nb::list&, const nb::dict&, const std::string&>(), "rows"_a, "settings"_a, "kernels"_a = "")
      .def_prop_ro("kernels", &Guarded::kernels)
      .def(
          "load",
          [](Guarded& self, atlas::Bytes opcodes, atlas::Operands operands, bool keep_memory) {
            if (opcodes.shape(0) != operands.shape(0))
              throw std::invalid_argument("opcodes and operands differ in length");
            self.hold()->load(opcodes.data(), operands.data(), opcodes.shape(0), operands.shape(1), keep_memory);
          },
          "opcodes"_a, "operands"_a, "keep_memory"_a = false)
      .def("reset", [](Guarded& self) { self.hold()->reset(); })
      .def("run", &atlas::run)
      .def_prop_ro("tick", [](Guarded& self) { return self.hold()->progress.tick; })
      .def_prop_ro("claim", [](Guarded& self) { return self.hold()->progress.claim; })
      .def_prop_ro("next_address", [](Guarded& self) { return self.hold()->progress.window[0]; })
      .def_prop_ro("instructions", [](Guarded& self) { return self.hold()->progress.instructions; })
      .def("set_breakpoints", &atlas::set_breakpoints)
      .def("set_trace",
           [](Guarded& self, bool on, int64_t first, int64_t last) {
             auto machine = self.hold();
             machine->tracing = on;
             machine->trace_first = first;
             machine->trace_last = last;
           })
      .def("watch", &atlas::watch)
      .def("unwatch", &atlas::unwatch)
      .def("read", &atlas::read)
      .def("write", &atlas::write)
      .def("read_tile", &atlas::read_tile)
      .def("write_tile", &atlas::write_tile)
      .def("read_number", &atlas::read_number)
      .def("write_number", &atlas::write_number)
      .def("statistics", &atlas::statistics)
      .def("faults", &atlas::faults)
      .def("trace", &atlas::trace)
      .def("snapshot", [](Guarded& self) { return self.hold()->snapshot(); })
      .def("restore", [](Guarded& self, const atlas::Snapshot& from) { self.hold()->restore(from); })
      .def("pack", &atlas::pack, "snapshot"_a, "base"_a)
      .def("unpack", &atlas::unpack_snapshot, "base"_a, "core"_a, "vmem_places"_a, "vmem"_a, "dram_places"_a, "dram"_a)
      .def("resident_bytes", [](Guarded& self) {
        auto machine = self.hold();
        return machine->vmem.resident() + machine->dram.resident();
      });
  m.def("atlas_effects", &atlas::effect_names);
  m.def("atlas_kernels", [] {
    std::vector<std::string> names;
    for (const char* name : {"avx512", "avx2", "portable"})
      if (atlas::find_kernels(name)) names.push_back(name);
    return names;
  });
}
