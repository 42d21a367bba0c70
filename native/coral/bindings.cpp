// Python sees the machine, its counters, and the decoder.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "machine.hpp"

namespace nb = nanobind;
using namespace tilewright::coral;

namespace {

using RegionRow = std::tuple<std::string, uint32_t, uint32_t, bool, bool>;

std::vector<Region> regions_of(const std::vector<RegionRow>& rows) {
  if (rows.size() < 2) throw nb::value_error("instruction and data memory are needed");
  std::vector<Region> made;
  for (const auto& [name, base, size, writable, timed] : rows) {
    if (size < 16 || static_cast<uint64_t>(base) + size > 0x100000000ull || size > (256u << 20))
      throw nb::value_error("a region has a size that is not possible");
    made.push_back({name, base, size, writable, timed, {}});
  }
  if (made[0].base != 0) throw nb::value_error("instruction memory starts at 0");
  return made;
}

nb::bytes read_bytes(Machine& machine, uint32_t address, size_t count) {
  if (count > (256u << 20)) throw nb::value_error("too many bytes");
  std::string out(count, '\0');
  machine.read(address, reinterpret_cast<uint8_t*>(out.data()), count);
  return nb::bytes(out.data(), out.size());
}

// Bytes by region; scalar accesses of data memory are counted per instruction, not per access.
std::vector<std::tuple<std::string, uint64_t, uint64_t>> traffic(const Machine& machine) {
  uint64_t loaded = 0, stored = 0;
  for (const Decoded& d : machine.code) {
    if (d.type == Class::load || d.type == Class::float_load) loaded += d.count * d.bytes;
    if (d.type == Class::store || d.type == Class::float_store) stored += d.count * d.bytes;
  }
  std::vector<std::tuple<std::string, uint64_t, uint64_t>> out;
  for (size_t k = 0; k < machine.memory.regions.size(); ++k)
    out.emplace_back(machine.memory.regions[k].name, machine.bytes_read[k], machine.bytes_written[k]);
  std::get<1>(out[1]) += loaded - machine.scalar_slow_read;
  std::get<2>(out[1]) += stored - machine.scalar_slow_written;
  return out;
}

std::vector<uint32_t> recent_pcs(const Machine& machine) {
  // Backwards from where the machine stands, along the jumps that were taken.
  std::vector<uint32_t> out;
  uint32_t at = machine.pc;
  uint64_t jump = machine.jump_count;
  const uint64_t oldest = machine.jump_count > 64 ? machine.jump_count - 64 : 0;
  out.push_back(at);
  while (out.size() < 64) {
    if (jump > oldest && machine.jumps[(jump - 1) & 63].to == at) {
      at = machine.jumps[--jump & 63].from;
    } else if (at >= 4 && at != machine.start_pc) {
      at -= 4;
    } else {
      break;
    }
    out.push_back(at);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

NB_MODULE(_coral, module) {
  module.doc() = "Instruction-set simulator of the Coral NPU core.";
  nb::class_<Machine>(module, "Machine")
      .def(
          "__init__",
          [](Machine* self, const std::vector<RegionRow>& regions, bool zba, bool vector, bool vector_float,
             bool timing, bool vector_traps, bool agnostic_ones, bool check_uninitialised, bool check_readonly,
             bool check_fused) {
            Options options;
            options.features = {zba, vector, vector_float};
            options.timing = timing;
            options.vector_traps = vector_traps;
            options.agnostic_ones = agnostic_ones;
            options.check_uninitialised = check_uninitialised;
            options.check_readonly = check_readonly;
            options.check_fused_hazard = check_fused;
            new (self) Machine(regions_of(regions), options);
          },
          nb::arg("regions"), nb::kw_only(), nb::arg("zba") = false, nb::arg("vector") = true,
          nb::arg("vector_float") = false, nb::arg("timing") = true, nb::arg("vector_traps") = false,
          nb::arg("agnostic_ones") = false, nb::arg("check_uninitialised") = false, nb::arg("check_readonly") = false,
          nb::arg("check_fused") = false)
      .def("write",
           [](Machine& machine, uint32_t address, nb::bytes data) {
             machine.write(address, reinterpret_cast<const uint8_t*>(data.data()), data.size());
           })
      .def("read", &read_bytes)
      .def("set_stack", &Machine::set_stack, nb::arg("bottom"), nb::arg("top"), nb::arg("main"))
      .def("add_readonly", &Machine::add_readonly)
      .def(
          "run",
          [](Machine& machine, uint64_t limit) {
            nb::gil_scoped_release release;
            machine.run(limit);
          },
          nb::arg("max_instructions"))
      .def("start", &Machine::start)
      .def_prop_ro("pc", [](const Machine& m) { return m.pc; })
      .def_prop_ro("halted", [](const Machine& m) { return m.halted; })
      .def_prop_ro("instructions", [](const Machine& m) { return m.instructions; })
      .def_prop_ro("cycles",
                   [](const Machine& m) -> std::optional<uint64_t> {
                     if (!m.options.timing || m.untimed) return std::nullopt;
                     return m.timing.cycles();
                   })
      .def_prop_ro("taken_branches", [](const Machine& m) { return m.taken_branches; })
      .def_prop_ro("fault",
                   [](const Machine& m) -> std::optional<std::tuple<std::string, uint32_t, uint32_t>> {
                     if (m.fault.kind == FaultKind::none) return std::nullopt;
                     return std::make_tuple(std::string(fault_name(m.fault.kind)), m.fault.pc, m.fault.address);
                   })
      .def_prop_ro("stack_low",
                   [](const Machine& m) -> std::optional<uint32_t> {
                     if (!m.has_stack || !m.stack_checked) return std::nullopt;
                     return m.stack_low;
                   })
      .def_prop_ro("x", [](const Machine& m) { return std::vector<uint32_t>(m.x.begin(), m.x.begin() + 32); })
      .def_prop_ro("f", [](const Machine& m) { return std::vector<uint32_t>(m.f.begin(), m.f.end()); })
      .def_prop_ro("v",
                   [](const Machine& m) { return nb::bytes(reinterpret_cast<const char*>(m.v.data()), m.v.size()); })
      .def("traffic", &traffic)
      .def("recent_pcs", &recent_pcs)
      .def("counts",
           [](const Machine& m) {
             std::vector<uint64_t> out;
             for (size_t k = 0; k + 1 < m.code.size(); ++k) out.push_back(m.code[k].count);
             return out;
           })
      .def("cycle_counts", [](const Machine& m) { return m.cycle_counts; })
      .def("set_owners",
           [](Machine& m, std::vector<int32_t> owners, size_t count) {
             for (int32_t owner : owners)
               if (owner >= 0 && static_cast<size_t>(owner) >= count) throw nb::value_error("no such owner");
             m.owners = std::move(owners);
             m.owner_instructions.assign(count, 0);
             m.owner_cycles.assign(count, 0);
           })
      .def("owner_counts", [](const Machine& m) { return std::make_tuple(m.owner_instructions, m.owner_cycles); })
      .def("classes", [](const Machine& m) {
        std::vector<uint64_t> sums(static_cast<size_t>(Class::count));
        for (const Decoded& d : m.code) sums[static_cast<size_t>(d.type)] += d.count;
        std::vector<std::tuple<std::string, uint64_t>> out;
        for (size_t k = 0; k < sums.size(); ++k)
          if (sums[k]) out.emplace_back(class_name(static_cast<Class>(k)), sums[k]);
        return out;
      });
  module.def(
      "decode",
      [](uint32_t word) -> std::optional<std::tuple<std::string, int, std::string, int>> {
        const Row* row = find_row(word);
        if (!row) return std::nullopt;
        return std::make_tuple(std::string(row->name), static_cast<int>(row->format),
                               std::string(class_name(row->type)), static_cast<int>(row->extension));
      },
      "(name, format, class, extension) of an instruction word, or None");
  module.def("rows", [] {
    std::vector<std::tuple<std::string, uint32_t, uint32_t, int, std::string, int>> out;
    for (const Row& row : rows())
      out.emplace_back(row.name, row.mask, row.match, static_cast<int>(row.format), class_name(row.type),
                       static_cast<int>(row.extension));
    return out;
  });
  module.attr("TIMING_TABLE") = TimingTable{}.version;
}
