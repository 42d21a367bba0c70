// What the instructions of the matrix units and the vector unit do to the state.
#include <algorithm>
#include <array>
#include <cstring>

#include "machine.hpp"
#include "tables.hpp"

namespace atlas {

void Machine::tensor(const Instruction& op) {
  Registers& r = *registers;
  const auto half = [&](int number) { return reinterpret_cast<uint16_t*>(r.m[number]); };
  const int slot = 2 * op.mxu;
  const int tile = settings.tile_registers;
  const size_t elements = 512 * size_t(tile);
  alignas(64) uint16_t out[1024];
  const auto keep = [&](size_t bytes) { std::memcpy(r.m[op.a], out, bytes); };
  const auto table = [&](Unary function) {
    const uint16_t* values = unary_table(function);
    const uint16_t* from = half(op.b);
    for (size_t i = 0; i < elements; ++i) out[i] = values[from[i]];
    keep(2 * elements);
  };
  const auto binary = [&](auto function) {
    function(half(op.b), half(op.c), out, elements);
    keep(2 * elements);
  };
  const auto unary = [&](auto function) {
    function(half(op.b), out, elements);
    keep(2 * elements);
  };
  const auto columns = [&](auto function) {
    for (int k = 0; k < tile; ++k) function(half(op.b + k), out + 512 * k);
    keep(2 * elements);
  };
  const auto across = [&](auto function) {
    function(half(op.b), out, tile);
    keep(2 * elements);
  };
  // A pair of registers holds columns 0..15 and 16..31; accumulators hold whole rows.
  const auto join = [&](const uint16_t* pair, auto store) {
    for (int k = 0; k < 2; ++k)
      for (int i = 0; i < 32; ++i)
        for (int j = 0; j < 16; ++j) store(32 * i + 16 * k + j, pair[512 * k + 16 * i + j]);
  };
  switch (op.effect) {
    case Effect::push_weight:
      std::memcpy(r.w[slot + op.a], r.m[op.b], 1024);
      refresh_weight(slot + op.a);
      return;
    case Effect::push_fp8: {
      static const auto widened = [] {
        std::array<uint16_t, 256> values;
        unpack_table(1, values.data());
        return values;
      }();
      for (int i = 0; i < 1024; ++i) r.acc[slot + op.a][i] = widened[r.m[op.b][i]];
      return;
    }
    case Effect::push_bf16: {
      uint16_t* acc = r.acc[slot + op.a];
      join(half(op.b), [&](int at, uint16_t value) { acc[at] = value; });
      return;
    }
    case Effect::pop_bf16: {
      const uint16_t* acc = r.acc[slot + op.b];
      for (int k = 0; k < 2; ++k)
        for (int i = 0; i < 32; ++i) std::memcpy(r.m[op.a + k] + 32 * i, acc + 32 * i + 16 * k, 32);
      return;
    }
    case Effect::pop_fp8: {
      const uint16_t* acc = r.acc[slot + op.b];
      const uint8_t* codes = fp8_of_bf16();
      if (settings.pop_divides) {
        kernels_.divide_truncate(acc, r.e[op.e], out, 1024);
        acc = out;
      }
      for (int i = 0; i < 1024; ++i) r.m[op.a][i] = codes[acc[i]];
      return;
    }
    case Effect::matmul:
    case Effect::matmul_acc: {
      alignas(64) float values[1024];
      kernels_.decode_tile(r.m[op.b], values);
      kernels_.matmul(values, r.weight[slot + op.c], r.acc[slot + op.a], op.effect == Effect::matmul_acc);
      return;
    }
    case Effect::vadd:
      return binary(kernels_.add);
    case Effect::vsub:
      return binary(kernels_.subtract);
    case Effect::vmul:
      return binary(kernels_.multiply);
    case Effect::vminimum:
      return binary(kernels_.minimum);
    case Effect::vmaximum:
      return binary(kernels_.maximum);
    case Effect::vredsum:
      return columns(settings.column_sum_halves ? kernels_.column_sum_halves : kernels_.column_sum_strides);
    case Effect::vredmin:
      return columns(kernels_.column_minimum);
    case Effect::vredmax:
      return columns(kernels_.column_maximum);
    case Effect::vredsum_row:
      kernels_.row_sum(half(op.b), out, tile, settings.row_sum_quarters ? 4 : 2);
      return keep(2 * elements);
    case Effect::vredmin_row:
      return across(kernels_.row_minimum);
    case Effect::vredmax_row:
      return across(kernels_.row_maximum);
    case Effect::vmov:
      std::memmove(r.m[op.a], r.m[op.b], 1024);
      return;
    case Effect::vrecip:
      return table(Unary::recip);
    case Effect::vexp:
      return table(Unary::exp);
    case Effect::vexp2:
      return table(Unary::exp2);
    case Effect::vsin:
      return table(Unary::sin);
    case Effect::vcos:
      return table(Unary::cos);
    case Effect::vtanh:
      return table(Unary::tanh);
    case Effect::vlog2:
      return table(Unary::log2);
    case Effect::vsqrt:
      return table(Unary::sqrt);
    case Effect::vrelu:
      return unary(kernels_.relu);
    case Effect::vsquare:
      return unary(kernels_.square);
    case Effect::vcube:
      return unary(kernels_.cube);
    case Effect::vpack: {
      kernels_.scale(half(op.b), r.e[op.e], out, 1024);
      const uint8_t* codes = fp8_of_bf16();
      join(out, [&](int at, uint16_t value) { r.m[op.a][at] = codes[value]; });
      return;
    }
    case Effect::vunpack: {
      uint16_t values[256];
      unpack_table(r.e[op.e], values);
      const uint8_t* from = r.m[op.b];
      for (int k = 0; k < 2; ++k)
        for (int i = 0; i < 32; ++i)
          for (int j = 0; j < 16; ++j) out[512 * k + 16 * i + j] = values[from[32 * i + 16 * k + j]];
      return keep(2048);
    }
    case Effect::vtrpose: {
      auto* bytes = reinterpret_cast<uint8_t*>(out);
      for (int i = 0; i < 32; ++i)
        for (int j = 0; j < 32; ++j) bytes[32 * i + j] = r.m[op.b][32 * j + i];
      return keep(1024);
    }
    case Effect::vli_all:
    case Effect::vli_row:
    case Effect::vli_col:
    case Effect::vli_one: {
      const bool bits = op.effect == Effect::vli_all && settings.fill_bits;
      const uint16_t value = bits ? static_cast<uint16_t>(op.imm) : bf16_of_integer(op.imm);
      std::fill_n(out, 512, uint16_t(0));
      const int rows_filled = op.effect == Effect::vli_all || op.effect == Effect::vli_col ? 32 : 1;
      const int wide = op.effect == Effect::vli_all || op.effect == Effect::vli_row ? 16 : 1;
      for (int i = 0; i < rows_filled; ++i)
        for (int j = 0; j < wide; ++j) out[16 * i + j] = value;
      return keep(1024);
    }
    default:
      return;
  }
}

}  // namespace atlas
