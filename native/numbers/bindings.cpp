// The Python face: numpy arrays in and out; shapes and strides are checked before they are used.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>
#include <stdexcept>

#include <nanobind/stl/optional.h>

#include "rounding.hpp"

namespace nb = nanobind;
using namespace tilewright::numbers;

namespace {

using Matrix = nb::ndarray<const float, nb::numpy, nb::ndim<2>, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Codes = nb::ndarray<std::uint8_t, nb::numpy, nb::ndim<2>, nb::device::cpu>;
using Peaks = nb::ndarray<float, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Rows rows_of(const Matrix& numbers) {
  if (numbers.shape(1) > 1 && numbers.stride(1) != 1)
    throw std::invalid_argument("numbers of a row are not neighbours");
  return {numbers.data(), numbers.shape(0), numbers.shape(1), numbers.stride(0)};
}

Over kind_of(const std::optional<Vector>& over, bool by_row, const Rows& rows) {
  if (!over) return Over::nothing;
  if (over->shape(0) != (by_row ? rows.rows : rows.columns))
    throw std::invalid_argument("there is not one divisor for each row or column");
  return by_row ? Over::row : Over::column;
}

Places places_of(const Codes& codes, const Rows& rows) {
  if (codes.shape(0) != rows.rows || codes.shape(1) != rows.columns)
    throw std::invalid_argument("there is not one code for each number");
  if (codes.stride(0) == 1 && codes.stride(1) != 1) return {codes.data(), 1, codes.stride(1)};
  if (codes.shape(1) > 1 && codes.stride(1) != 1)
    throw std::invalid_argument("codes of neither rows nor columns are neighbours");
  return {codes.data(), codes.stride(0), 1};
}

}  // namespace

NB_MODULE(_rounding, m) {
  m.def(
      "fp8_codes",
      [](Matrix numbers, Codes codes, std::optional<Vector> over, bool by_row, float factor) {
        const Rows rows = rows_of(numbers);
        const Places places = places_of(codes, rows);
        const Over kind = kind_of(over, by_row, rows);
        nb::gil_scoped_release release;
        fp8_codes(rows, kind, over ? over->data() : nullptr, factor, places);
      },
      nb::arg("numbers"), nb::arg("codes"), nb::arg("over") = nb::none(), nb::arg("by_row") = false,
      nb::arg("factor") = 1.0f);
  m.def(
      "peaks",
      [](Matrix numbers, Peaks peaks, bool by_row) {
        const Rows rows = rows_of(numbers);
        if (peaks.shape(0) != (by_row ? rows.rows : rows.columns))
          throw std::invalid_argument("there is not one peak for each row or column");
        nb::gil_scoped_release release;
        (by_row ? row_peaks : column_peaks)(rows, peaks.data());
      },
      nb::arg("numbers"), nb::arg("peaks"), nb::arg("by_row") = false);
}
