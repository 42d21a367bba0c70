#include "constants.hpp"

#include <algorithm>
#include <stdexcept>
#include <tuple>

namespace tilewright::codegen {

void Values::put(int place, std::int64_t value) {
  if (!has_[place]) order_.push_back(place);
  has_[place] = true;
  values_[place] = value;
}

void Values::drop(int place) {
  if (!has_[place]) return;
  has_[place] = false;
  order_.erase(std::find(order_.begin(), order_.end(), place));
}

std::optional<int> Values::find(std::int64_t value) const {
  for (int place : order_)
    if (values_[place] == value) return place;
  return std::nullopt;
}

std::optional<Key> Constants::holder(const Constant& constant) const {
  auto place = files[constant.file].find(constant.value);
  return place ? std::optional<Key>({constant.file, *place}) : std::nullopt;
}

bool Constants::is_wanted(File file, int place) const {
  if (!files[file].has(place)) return false;
  auto found = wanted_.find({file, files[file].at(place)});
  return found != wanted_.end() && found->second > 0;
}

int Constants::own() const {
  int count = kPlaces - 1;
  for (int place = 0; place < kPlaces; ++place) count -= reserved[place] + pinned[kX][place];
  return count;
}

std::optional<Step> Constants::next_step(const std::vector<Constant>& needed, Tick tick, bool soft) {
  if (pending_) {
    Step step = *pending_;
    pending_.reset();
    step.tick = tick;
    return step;
  }
  const Constant* missing = nullptr;
  PerRegister<bool> keep{};
  for (const Constant& constant : needed) {
    if (auto key = holder(constant))
      keep[key->file][key->place] = true;
    else if (!missing)
      missing = &constant;
  }
  if (!missing) return std::nullopt;
  auto [place, free] = victim(*missing, keep);
  if (soft && (free > tick || is_wanted(missing->file, place))) return std::nullopt;
  tick = std::max(tick, free);
  files[missing->file].put(place, missing->value);
  if (missing->file == kE) return Step{Making::scale, place, missing->value, tick};
  std::int64_t low = ((missing->value & 0xFFF) ^ 0x800) - 0x800;
  std::int64_t high = ((missing->value - low) >> 12) & 0xFFFFF;
  if (!high) return Step{Making::whole, place, low, tick};
  if (low) pending_ = Step{Making::low, place, low, tick};
  return Step{Making::high, place, high, tick};
}

std::pair<int, Tick> Constants::victim(const Constant& constant, const PerRegister<bool>& keep) const {
  File file = constant.file, other = file == kX ? kE : kX;
  // What nobody needs any more before what is still wanted, among those what is free soonest.
  using Rank = std::tuple<bool, bool, Tick, std::int64_t, int>;
  std::optional<Rank> best;
  for (int place = file == kX ? 1 : 0; place < kPlaces; ++place) {
    if (file == kX && (reserved[place] || lent_[place])) continue;
    if (keep[file][place] || pinned[file][place]) continue;
    // The public model would drop a write of what the other file has at the same place.
    if (files[other].has(place) && files[other].at(place) == constant.value) continue;
    Rank rank{is_held(file, place), is_wanted(file, place), busy_[file][place], used[file][place], place};
    if (!best || rank < *best) best = rank;
  }
  if (!best) throw std::logic_error("no register can hold a constant");
  return {std::get<4>(*best), std::get<2>(*best)};
}

int Constants::use(const Constant& constant, Tick done) {
  auto key = holder(constant);
  if (!key) throw std::logic_error("a constant is read that no register holds");
  --wanted_[constant];
  used[key->file][key->place] = ++clock;
  Tick& busy = busy_[key->file][key->place];
  busy = std::max(busy, done);
  return key->place;
}

void Constants::hold(int transfer, const std::vector<Constant>& needed) {
  std::vector<Key>& keys = held_[transfer];
  for (const Constant& constant : needed) {
    auto key = holder(constant);
    if (!key || (key->file == kX && key->place == 0)) continue;
    keys.push_back(*key);
    ++held_count_[key->file][key->place];
  }
}

void Constants::release(int transfer) {
  auto found = held_.find(transfer);
  if (found == held_.end()) return;
  for (const Key& key : found->second) --held_count_[key.file][key.place];
  held_.erase(found);
}

bool Constants::can_hold() const {
  if (held_.empty()) return true;
  int taken = 0;
  for (int place = 0; place < kPlaces; ++place) taken += is_held(kX, place) + is_held(kE, place) + lent_[place];
  return taken + 3 <= own() - 4;
}

std::vector<int> Constants::spare(Tick tick) const {
  // Those with nothing useful first, high numbers before low ones.
  std::vector<int> idle, useful;
  for (int place = kPlaces - 1; place > 0; --place) {
    if (reserved[place] || lent_[place] || pinned[kX][place]) continue;
    if (busy_[kX][place] > tick || is_held(kX, place)) continue;
    (is_wanted(kX, place) ? useful : idle).push_back(place);
  }
  idle.insert(idle.end(), useful.begin(), useful.end());
  return idle;
}

bool Constants::can_lend(Tick tick) const {
  return std::count(lent_.begin(), lent_.end(), true) < own() - 4 && spare(tick).size() > 3;
}

int Constants::lend(Tick tick, const std::vector<Constant>& needed) {
  for (int place : spare(tick)) {
    bool keeps = std::any_of(needed.begin(), needed.end(), [&](const Constant& constant) {
      auto key = holder(constant);
      return key && key->file == kX && key->place == place;
    });
    if (keeps) continue;
    files[kX].drop(place);
    lent_[place] = true;
    return place;
  }
  throw std::logic_error("no register can hold an address");
}

void Constants::give_back(int place, Tick tick) {
  lent_[place] = false;
  busy_[kX][place] = tick;
}

Tick Constants::next_completion(Tick tick) const {
  Tick next = kFar;
  for (const auto& file : busy_)
    for (Tick busy : file)
      if (busy > tick) next = std::min(next, busy);
  return next;
}

}  // namespace tilewright::codegen
