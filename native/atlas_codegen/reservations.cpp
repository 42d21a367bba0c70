#include "reservations.hpp"

#include <algorithm>
#include <stdexcept>

namespace tilewright::codegen {

void SlotReservations::put(int holder, Span span) {
  drop(holder);
  Place place{modulo(span.first, interval_), span.second - span.first, holder};
  auto later = [](const Place& a, const Place& b) { return a.start < b.start; };
  places_.insert(std::upper_bound(places_.begin(), places_.end(), place, later), place);
}

void SlotReservations::drop(int holder) {
  auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& p) { return p.holder == holder; });
  if (found != places_.end()) places_.erase(found);
}

std::vector<Tick> SlotReservations::meeting(Span span, int holder) const {
  std::vector<Tick> ends;
  Tick begin = modulo(span.first, interval_), length = span.second - span.first;
  std::size_t count = places_.size();
  auto earlier = [](const Place& a, Tick start) { return a.start < start; };
  std::size_t first = std::lower_bound(places_.begin(), places_.end(), begin, earlier) - places_.begin();
  for (std::size_t k = 0; k < count; ++k) {  // those that start inside
    const Place& place = places_[(first + k) % count];
    if (modulo(place.start - begin, interval_) >= length) break;
    if (place.holder != holder) ends.push_back(place.start + place.length);
  }
  for (std::size_t k = 1; k <= count; ++k) {  // the one that starts before
    const Place& place = places_[(first + count - k) % count];
    if (place.holder == holder) continue;
    if (modulo(begin - place.start, interval_) < place.length) ends.push_back(place.start + place.length);
    break;
  }
  return ends;
}

std::size_t UnitReservations::until(Tick start) const {
  auto later = [](Tick value, const Span& span) { return value < span.first; };
  return std::upper_bound(spans_.begin(), spans_.end(), start, later) - spans_.begin();
}

Span UnitReservations::before(std::size_t count) const {
  if (count) return spans_[count - 1];
  return {spans_.back().first - interval_, spans_.back().second - interval_};
}

void UnitReservations::take(Tick tick, Tick length) {
  Tick start = modulo(tick, interval_);
  spans_.insert(spans_.begin() + until(start), {start, start + length});
}

void UnitReservations::drop(Tick tick) {
  std::size_t count = until(modulo(tick, interval_));
  if (!count || spans_[count - 1].first != modulo(tick, interval_)) throw std::logic_error("nothing starts there");
  spans_.erase(spans_.begin() + (count - 1));
}

std::optional<std::pair<Tick, Tick>> UnitReservations::gap(Tick tick) const {
  if (spans_.empty()) return std::pair<Tick, Tick>{0, interval_};
  Tick start = modulo(tick, interval_);
  std::size_t count = until(start);
  Tick since = start - before(count).second;
  if (since < 0) return std::nullopt;
  Tick after = count < spans_.size() ? spans_[count].first : spans_[0].first + interval_;
  return std::pair{since, after - start};
}

std::optional<Tick> UnitReservations::first(Tick tick, Tick length, Tick limit, Tick grain) const {
  while (tick <= limit) {
    auto free = gap(tick);
    if (!free) {
      Tick start = modulo(tick, interval_);
      tick += before(until(start)).second - start;
      continue;
    }
    auto [since, left] = *free;
    Tick skip = grain && !spans_.empty() ? modulo(-since, grain) : 0;
    if (left - skip >= length) return tick + skip <= limit ? std::optional(tick + skip) : std::nullopt;
    tick += left;
  }
  return std::nullopt;
}

std::optional<Tick> UnitReservations::last(Tick tick, Tick length, Tick limit, Tick grain) const {
  while (tick >= limit) {
    auto free = gap(tick);
    if (!free) {
      Tick start = modulo(tick, interval_);
      tick -= start - before(until(start)).first + 1;
      continue;
    }
    auto [since, left] = *free;
    Tick skip = std::max<Tick>(0, length - left);
    if (grain && !spans_.empty()) skip += modulo(-(left + skip - length), grain);
    if (since >= skip) return tick - skip >= limit ? std::optional(tick - skip) : std::nullopt;
    tick -= since + 1;
  }
  return std::nullopt;
}

}  // namespace tilewright::codegen
