// The Python face: plain lists in, plain lists out; every index is checked before it is used.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <tuple>

#include "barriers.hpp"
#include "edges.hpp"
#include "memory.hpp"
#include "products.hpp"

namespace nb = nanobind;
using namespace tilewright::vpu;

using Row = std::tuple<int, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
using Rows = std::vector<Row>;
using Assigned = std::tuple<std::vector<std::pair<std::vector<int>, std::vector<int>>>, std::vector<int>,
                            std::vector<std::vector<int>>, bool>;

template <typename Element>
using Matrix = nb::ndarray<Element, nb::numpy, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

namespace {

// Rows, columns and inner axis of two operands and their sums.
template <typename Left, typename Sums>
void check_shapes(const Left& left, const Left& right, const Sums& sums) {
  if (left.shape(1) != right.shape(1) || sums.shape(0) != left.shape(0) || sums.shape(1) != right.shape(0))
    throw std::invalid_argument("operands and sums do not fit each other");
}

void check(int value, std::size_t count, const char* what) {
  if (value < 0 || static_cast<std::size_t>(value) >= count) throw std::out_of_range(what);
}

std::vector<Range> ranges(const Rows& rows, int spaces) {
  std::vector<Range> found;
  found.reserve(rows.size());
  for (const auto& [space, address, bytes, count, stride] : rows) {
    check(space, spaces, "a space that does not exist");
    if (bytes <= 0 || count <= 0 || address < 0) throw std::invalid_argument("a range without bytes");
    found.push_back({space, address, bytes, count, stride});
  }
  return found;
}

Fit fit_of(const std::string& name) {
  if (name == "earliest") return Fit::earliest;
  if (name == "best") return Fit::best;
  if (name == "first") return Fit::first;
  throw std::invalid_argument("no such fit: " + name);
}

}  // namespace

NB_MODULE(_vpu, module) {
  module.doc() = "Inner loops of the VPU's scheduler and of its products.";
  module.def(
      "whole_products",
      [](Matrix<const std::int8_t> left, Matrix<const std::int8_t> right, Matrix<std::int32_t> sums) {
        check_shapes(left, right, sums);
        if (left.shape(1) > 131071) throw std::invalid_argument("a sum of i8 that may leave i32");
        nb::gil_scoped_release release;
        whole_products(left.data(), right.data(), sums.data(), left.shape(0), right.shape(0), left.shape(1));
      },
      nb::arg("left"), nb::arg("right"), nb::arg("sums"), "[M, K] times [N, K] of i8 into sums [M, N] of i32.");
  module.def(
      "ordered_products",
      [](Matrix<const float> left, Matrix<const float> right, Matrix<float> sums) {
        check_shapes(left, right, sums);
        nb::gil_scoped_release release;
        ordered_products(left.data(), right.data(), sums.data(), left.shape(0), right.shape(0), left.shape(1));
      },
      nb::arg("left"), nb::arg("right"), nb::arg("sums"),
      "Adds [M, K] times [N, K] of f32 to sums [M, N], one rounding per k, in the order of k.");
  module.def(
      "address_edges",
      [](const std::vector<std::pair<Rows, Rows>>& accesses, int spaces) {
        std::vector<Access> found;
        found.reserve(accesses.size());
        for (const auto& [reads, writes] : accesses) found.push_back({ranges(reads, spaces), ranges(writes, spaces)});
        nb::gil_scoped_release release;
        return address_edges(found, spaces);
      },
      nb::arg("accesses"), nb::arg("spaces"),
      "accesses are (reads, writes) of (space, address, bytes, count, stride); returns per task "
      "(earlier task, kind) with kinds 0 RAW, 1 WAR, 2 WAW.");
  module.def(
      "assign_by_edges",
      [](const std::vector<std::vector<int>>& queues, const std::vector<int>& engines_behind,
         const std::vector<int>& slots, const std::vector<int>& engines, const std::vector<std::int64_t>& starts,
         const std::vector<std::int64_t>& ends, const std::vector<std::vector<int>>& edges, int pool, int side,
         const std::vector<int>& consecutive, int rounds, int merging_round) -> std::optional<Assigned> {
        const std::size_t count = queues.size();
        if (slots.size() != count || engines.size() != count || starts.size() != count || ends.size() != count ||
            edges.size() != count)
          throw std::invalid_argument("lists of different lengths");
        for (std::size_t entry = 0; entry < count; ++entry) {
          if (queues[entry].empty()) throw std::invalid_argument("an entry without a queue");
          for (int queue : queues[entry]) check(queue, engines_behind.size(), "a queue that does not exist");
          for (int other : edges[entry]) check(other, entry, "an edge from a later entry");
          if (!consecutive.empty()) check(engines[entry], consecutive.size(), "an engine that does not exist");
        }
        std::optional<Assignment> found;
        {
          nb::gil_scoped_release release;
          found = assign_by_edges({queues, engines_behind, slots, engines, starts, ends}, edges, pool,
                                  {side, consecutive}, rounds, merging_round);
        }
        if (!found) return std::nullopt;
        Assigned result;
        for (auto& signal : found->signals)
          std::get<0>(result).emplace_back(std::move(signal.producers), std::move(signal.consumers));
        std::get<1>(result) = std::move(found->physical);
        std::get<2>(result) = std::move(found->edges);
        std::get<3>(result) = found->changed;
        return result;
      },
      nb::arg("queues"), nb::arg("engines_behind"), nb::arg("slots"), nb::arg("engines"), nb::arg("starts"),
      nb::arg("ends"), nb::arg("edges"), nb::arg("pool"), nb::arg("side"), nb::arg("consecutive"), nb::arg("rounds"),
      nb::arg("merging_round"), "(barriers as (producers, consumers), physical ids, reduced edges, changed), or None.");
  nb::class_<Window>(module, "Window")
      .def_ro("address", &Window::address)
      .def_ro("available", &Window::available)
      .def_ro("victims", &Window::victims)
      .def_ro("cost", &Window::cost);
  nb::class_<TileMemory>(module, "TileMemory", "The CMX of one tile; scheduling/tile_memory.py says what it does.")
      .def(nb::init<std::int64_t>(), nb::arg("capacity"))
      .def_ro("free_bytes", &TileMemory::free_bytes)
      .def(
          "find",
          [](const TileMemory& memory, std::int64_t size, std::int64_t align, std::int64_t ready,
             const std::string& fit, bool downwards, const std::optional<TileMemory::Victim>& victim) {
            if (size <= 0 || align <= 0) throw std::invalid_argument("a buffer without bytes or alignment");
            return memory.find(size, align, ready, fit_of(fit), downwards, victim ? &*victim : nullptr);
          },
          nb::arg("size"), nb::arg("align"), nb::arg("ready"), nb::arg("fit"), nb::arg("downwards") = false,
          nb::arg("victim") = nb::none())
      .def("take", &TileMemory::take, nb::arg("owner"), nb::arg("address"), nb::arg("size"))
      .def("release", &TileMemory::release, nb::arg("address"), nb::arg("since"), nb::arg("horizon"))
      .def("hand_over", &TileMemory::hand_over, nb::arg("address"), nb::arg("owner"), nb::arg("size"), nb::arg("since"))
      .def("settle", &TileMemory::settle, nb::arg("placeholder"), nb::arg("since"))
      .def("gaps", &TileMemory::gaps)
      .def("largest_free", &TileMemory::largest_free);
}
