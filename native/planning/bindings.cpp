// Python sees one function: search(items, sections, capacity, ...) -> (status, offsets, nodes, work, restarts, member).
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>

#include "search.h"

namespace nb = nanobind;
using namespace tilewright::planning;

using Row = std::tuple<int, int, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
using Result =
    std::tuple<std::string, std::vector<std::int64_t>, std::int64_t, std::int64_t, std::int64_t, std::string>;

NB_MODULE(_planning, module) {
  module.doc() = "Exact search for memory plans.";
  module.def(
      "search",
      [](const std::vector<Row>& rows, int sections, std::int64_t capacity, std::uint64_t seed, std::int64_t work_limit,
         std::int64_t table_limit, const std::vector<std::string>& members) -> Result {
        Problem problem{{}, sections, capacity};
        for (const auto& [first, last, size, alignment, lowest, highest, duration] : rows)
          problem.items.push_back({first, last, size, alignment, lowest, highest, duration});
        Outcome outcome;
        {
          nb::gil_scoped_release release;
          outcome = portfolio(problem, {seed, work_limit, table_limit, members});
        }
        const char* names[] = {"solved", "infeasible", "limit"};
        return {names[static_cast<int>(outcome.status)],
                outcome.offsets,
                outcome.nodes,
                outcome.work,
                outcome.restarts,
                outcome.member};
      },
      nb::arg("items"), nb::arg("sections"), nb::arg("capacity"), nb::arg("seed"), nb::arg("work_limit"),
      nb::arg("table_limit"), nb::arg("members"),
      "items are (first, last, size, alignment, lowest, highest, duration); returns (status, "
      "offsets, nodes, work, restarts, member) where status is solved, infeasible or limit and member the search "
      "that gave the answer.");
}
