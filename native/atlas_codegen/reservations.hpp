// Reservations that repeat every so many ticks: units, issue slots, and arcs on a circle.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "registers.hpp"

namespace tilewright::codegen {

using Span = std::pair<Tick, Tick>;  // start, end

// The remainder that is never negative.
inline Tick modulo(Tick value, Tick interval) {
  Tick rest = value % interval;
  return rest < 0 ? rest + interval : rest;
}

// Who is in a slot when, by start of its span; spans of different holders never overlap. Only neighbours of a span can
// meet it, so nothing is compared with all others.
class SlotReservations {
 public:
  explicit SlotReservations(Tick interval) : interval_(interval) {}

  std::size_t size() const { return places_.size(); }
  // Give a holder this span, whatever it had.
  void put(int holder, Span span);
  // Take a holder out, if it is in.
  void drop(int holder);
  // Ends of the spans of others that overlap this one.
  std::vector<Tick> meeting(Span span, int holder) const;
  bool is_free(Span span, int holder) const { return meeting(span, holder).empty(); }

 private:
  struct Place {
    Tick start;
    Tick length;
    int holder;
  };

  Tick interval_;
  std::vector<Place> places_;  // by start
};

// What a unit does in each tick of an interval; spans never overlap.
class UnitReservations {
 public:
  explicit UnitReservations(Tick interval) : interval_(interval) {}

  void take(Tick tick, Tick length);
  void drop(Tick tick);
  // (ticks since the span before ended, ticks until the next one starts) where free.
  std::optional<std::pair<Tick, Tick>> gap(Tick tick) const;
  // The first tick from `tick` to `limit` with `length` free ticks. With a grain, what stays free before it is a
  // multiple of that.
  std::optional<Tick> first(Tick tick, Tick length, Tick limit, Tick grain) const;
  // The last tick from `limit` to `tick` with `length` free ticks. With a grain, what stays free after it is a multiple
  // of that.
  std::optional<Tick> last(Tick tick, Tick length, Tick limit, Tick grain) const;

 private:
  // How many spans start at or before a tick of the interval.
  std::size_t until(Tick start) const;
  // The span that starts before: its start and end, perhaps of the interval before.
  Span before(std::size_t count) const;

  Tick interval_;
  std::vector<Span> spans_;  // by start; ends possibly beyond the interval
};

}  // namespace tilewright::codegen
