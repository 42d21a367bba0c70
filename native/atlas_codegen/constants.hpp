// Scalar and scale registers as a cache of constants, filled just before they are needed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "registers.hpp"

namespace tilewright::codegen {

inline constexpr int kPlaces = 32;
enum File { kX = 0, kE = 1 };

// A number that an instruction wants in a scalar (kX) or scale (kE) register.
struct Constant {
  File file;
  std::int64_t value;
  bool operator<(const Constant& other) const { return file != other.file ? file < other.file : value < other.value; }
};

struct Key {
  File file;
  int place;
};

// An instruction that makes a constant, or half of one.
enum class Making { scale, whole, high, low };  // seli p, v; addi p, x0, v; lui p, v; addi p, p, v
struct Step {
  Making making;
  int place;
  std::int64_t value;
  Tick tick;
};

// The values of one register file, in the order in which they came: of two registers with one value, the first is read.
class Values {
 public:
  void put(int place, std::int64_t value);
  void drop(int place);
  std::optional<int> find(std::int64_t value) const;
  bool has(int place) const { return has_[place]; }
  std::int64_t at(int place) const { return values_[place]; }
  const std::vector<int>& order() const { return order_; }

 private:
  std::array<bool, kPlaces> has_{};
  std::array<std::int64_t, kPlaces> values_{};
  std::vector<int> order_;
};

template <typename T>
using PerRegister = std::array<std::array<T, kPlaces>, 2>;

class Constants {
 public:
  // What an earlier piece of code left behind.
  std::array<Values, 2> files;
  PerRegister<std::int64_t> used{};  // when each was last read, in reads
  std::int64_t clock = 0;
  std::array<bool, kPlaces> reserved{};  // scalar registers that are not ours
  PerRegister<bool> pinned{};            // registers that keep their constant

  // Announce one use to come.
  void expect(const Constant& constant) { ++wanted_[constant]; }
  // The next instruction towards having all of these; with `soft`, none that overwrites what is still of use.
  std::optional<Step> next_step(const std::vector<Constant>& needed, Tick tick, bool soft);
  // The register of a constant, read until tick `done`.
  int use(const Constant& constant, Tick done);

  // Keep the constants of a transfer until `release`, however long it takes.
  void hold(int transfer, const std::vector<Constant>& needed);
  void release(int transfer);
  // Whether one more transfer leaves registers for other constants.
  bool can_hold() const;

  // Registers for computed addresses: none of those that hold the needed constants.
  bool can_lend(Tick tick) const;
  int lend(Tick tick, const std::vector<Constant>& needed);
  // The register may be overwritten from `tick` on.
  void give_back(int place, Tick tick);

  // The next tick after `tick` at which a register may become free.
  Tick next_completion(Tick tick) const;

 private:
  std::optional<Key> holder(const Constant& constant) const;
  bool is_held(File file, int place) const { return held_count_[file][place] > 0 && !pinned[file][place]; }
  bool is_wanted(File file, int place) const;
  int own() const;
  std::vector<int> spare(Tick tick) const;
  std::pair<int, Tick> victim(const Constant& constant, const PerRegister<bool>& keep) const;

  PerRegister<Tick> busy_{};  // the last reader's completion
  std::map<Constant, int> wanted_;
  std::optional<Step> pending_;  // the rest of a constant made in two steps
  std::map<int, std::vector<Key>> held_;
  PerRegister<int> held_count_{};
  std::array<bool, kPlaces> lent_{};  // scalar registers that hold addresses now
};

}  // namespace tilewright::codegen
