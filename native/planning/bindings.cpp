// Python sees one function: search(items, sections, capacity, ...) -> (status, offsets, nodes, work, restarts).
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>

#include "search.h"

namespace nb = nanobind;
using namespace tilewright::planning;

using Row = std::tuple<int, int, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
using Result =
    std::tuple<std::string, std::vector<std::int64_t>, std::int64_t, std::int64_t, std::int64_t>;

NB_MODULE(_planning, module) {
  module.doc() = "Exact search for memory plans.";
  for (const bool canonical : {false, true})
  module.def(
      canonical ? "canonical" : "search",
      [canonical](const std::vector<Row>& rows, int sections, std::int64_t capacity, std::uint64_t seed,
         std::int64_t restart_nodes, std::int64_t node_limit, std::int64_t work_limit,
         std::int64_t table_limit) -> Result {
        Problem problem{{}, sections, capacity};
        for (const auto& [first, last, size, alignment, lowest, highest] : rows)
          problem.items.push_back({first, last, size, alignment, lowest, highest});
        Outcome outcome;
        {
          nb::gil_scoped_release release;
          outcome = (canonical ? canonical_search : search)(problem, {seed, restart_nodes, node_limit, work_limit, table_limit});
        }
        const char* names[] = {"solved", "infeasible", "limit"};
        return {names[static_cast<int>(outcome.status)], outcome.offsets, outcome.nodes,
                outcome.work, outcome.restarts};
      },
      nb::arg("items"), nb::arg("sections"), nb::arg("capacity"), nb::arg("seed"),
      nb::arg("restart_nodes"), nb::arg("node_limit"), nb::arg("work_limit"),
      nb::arg("table_limit"),
      "items are (first, last, size, alignment, lowest, highest); returns (status, offsets, nodes, "
      "work, restarts) where status is solved, infeasible or limit.");
}
