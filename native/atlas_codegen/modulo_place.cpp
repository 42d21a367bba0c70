#include "modulo_place.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

namespace tilewright::codegen {
namespace {

constexpr int kSlots = 2;  // of each kind, in each matrix unit
constexpr Tick kNowhere = kFar;

class Placement {
 public:
  Placement(const LoopBody& body, Tick interval, PlacementWay way, const PlacementLimits& limits,
            const std::vector<Tick>& usual, std::int64_t work)
      : body_(body),
        steps_(body.steps),
        interval_(interval),
        way_(way),
        limits_(limits),
        work_(work),
        usual_(usual),
        order_(steps_.size()),
        at_(steps_.size(), kNowhere),
        stamp_(steps_.size(), 0),
        issued_(interval, false),
        readers_(body.parts),
        slot_(body.slots.size(), -1),
        span_(body.slots.size()),
        has_span_(body.slots.size(), false),
        left_(body.slots.size()),
        short_(body.slots.size(), kNowhere),
        history_(steps_.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    if (way.packed)
      std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) { return steps_[a].order < steps_[b].order; });
    int queues = 0;
    for (std::size_t id = 0; id < body.slots.size(); ++id) {
      const LoopSlot& slot = body.slots[id];
      queues = std::max(queues, slot.queue + 1);
      left_[id] = static_cast<int>(slot.touches.size());
    }
    openers_.resize(queues);
    for (const LoopSlot& slot : body.slots) {
      auto& openers = openers_[slot.queue];
      const LoopStep& opener = steps_[slot.touches[0]];
      std::pair kind{opener.latency, opener.position};
      if (std::find(openers.begin(), openers.end(), kind) == openers.end()) openers.push_back(kind);
    }
    others_.assign(queues * kSlots, SlotReservations(interval));
    prepare_units();
    if (usual_.empty()) usual_ = slot_times();
  }

  PlacedLoop run() {
    std::vector<Tick> before = usual_;
    bool done = place_everything();
    PlacedLoop found{done, usual_ != before, {}, slot_, usual_, work_};
    for (std::size_t k = 0; k < steps_.size(); ++k)
      if (is_placed(static_cast<int>(k))) found.at.emplace_back(static_cast<int>(k), at_[k]);
    std::sort(found.at.begin(), found.at.end(),
              [&](const auto& a, const auto& b) { return stamp_[a.first] < stamp_[b.first]; });
    return found;
  }

 private:
  struct Reader {
    Tick tick;
    int step;
  };
  struct Before {
    int slot;
    bool has_span;
    Span span;
  };

  bool is_placed(int k) const { return at_[k] != kNowhere; }

  void prepare_units() {
    int units = 0;
    for (const LoopStep& step : steps_) units = std::max(units, step.unit + 1);
    lines_.assign(units, UnitReservations(interval_));
    grain_.assign(units, 0);
    std::vector<std::map<Tick, int>> counts(units);
    std::vector<Tick> totals(units, 0);
    std::vector<bool> transfers(units, false);
    for (const LoopStep& step : steps_) {
      if (step.decodes) continue;
      ++counts[step.unit][step.busy];
      totals[step.unit] += step.busy;
      transfers[step.unit] = transfers[step.unit] || step.transfer;
    }
    for (int unit = 0; unit < units; ++unit) {
      Tick usual = 0;
      int most = 0;
      for (auto [length, count] : counts[unit])
        if (count > most) usual = length, most = count;
      bool tight = static_cast<double>(totals[unit]) >= limits_.tight_share * static_cast<double>(interval_) &&
                   (!transfers[unit] || way_.packed);
      grain_[unit] = way_.aligned && tight ? usual : 0;
    }
  }

  // How long each slot is taken in the plain schedule.
  std::vector<Tick> slot_times() const {
    std::vector<Tick> times;
    for (std::size_t id = 0; id < body_.slots.size(); ++id) {
      Tick start = kFar, end = -kFar;
      for (int k : body_.slots[id].touches) {
        start = std::min(start, steps_[k].plain);
        end = std::max(end, steps_[k].plain + hold(k, static_cast<int>(id)));
      }
      times.push_back(end - start);
    }
    return times;
  }

  bool place_everything() {
    if (way_.packed && !pack_products()) return false;
    if (way_.early && !place_untied()) return false;
    for (int last = 0; last < 3; ++last) {
      if (way_.packed && last == 1 && !place_loads()) return false;
      for (int k : order_) {
        if (is_placed(k) || turn(k) > last) continue;
        std::fill(short_.begin(), short_.end(), kNowhere);
        if (place(k)) continue;
        for (std::size_t id = 0; id < short_.size(); ++id)
          if (short_[id] != kNowhere)
            usual_[id] = std::min(static_cast<Tick>(static_cast<double>(short_[id]) * limits_.slot_growth), interval_);
        return false;
      }
    }
    return true;
  }

  // Prefetches into bytes that nothing here reads go together, before others cut up the engine's time.
  bool place_untied() {
    for (int k : order_)
      if (steps_[k].prefetch && steps_[k].transfer && !steps_[k].tied && !place(k)) return false;
    return true;
  }

  // Steps come in the order of the plain schedule, but for prefetches, whose buffers are free once all reads have their
  // ticks, and what nothing has asked for.
  int turn(int k) const {
    const LoopStep& step = steps_[k];
    if (step.prefetch) return way_.early && !step.tied ? 0 : 1;
    if (way_.packed && step.load) return 1;
    return waits(k) ? 2 : 0;
  }

  // Whether the step is placed together with what needs it.
  bool waits(int k) const { return steps_[k].late || (way_.lead > 0 && steps_[k].load); }

  // --- one step ---

  Tick earliest(int k) const {
    Tick tick = kNowhere;
    for (const auto& [b, distance, turns] : steps_[k].before)
      if (is_placed(b)) {
        Tick found = at_[b] + distance - turns * interval_;
        tick = tick == kNowhere ? found : std::max(tick, found);
      }
    return tick == kNowhere ? -interval_ : tick;
  }

  Tick latest(int k, Tick tick) const {
    Tick found = kNowhere;
    for (const auto& [a, distance, turns] : steps_[k].after)
      if (is_placed(a)) found = std::min(found, at_[a] - distance + turns * interval_);
    return found == kNowhere ? tick + 2 * interval_ : found;
  }

  // Put a step, and the loads it reads, at the first ticks possible.
  bool place(int k) {
    const LoopStep& step = steps_[k];
    for (const auto& [b, distance, turns] : step.before)  // waits that come later in the plain schedule
      if (!turns && !is_placed(b) && !waits(b) && !place(b)) return false;
    Tick floor = step.load && !way_.packed ? step.plain + behind_ : 0;
    Tick tick = std::max(floor, first(k));
    Tick limit = std::min(latest(k, tick), tick + interval_);
    for (int tries = 0; tries < limits_.step_tries; ++tries) {
      auto found = find(k, tick, limit);
      if (!found || work_ < 0) return false;
      if (place_all(k, *found)) {
        if (!step.load) behind_ = *found - step.plain;
        return true;
      }
      tick = *found + std::max<Tick>(1, step.busy / 4);
    }
    return false;
  }

  // The first tick at which the step itself can be.
  std::optional<Tick> find(int k, Tick tick, Tick limit) {
    const LoopStep& step = steps_[k];
    while (tick <= limit) {
      --work_;
      if (!step.decodes) {
        auto found = lines_[step.unit].first(tick, step.busy, limit, grain_[step.unit]);
        if (!found) return std::nullopt;
        tick = *found;
      }
      if (issued_[modulo(tick, interval_)]) {
        ++tick;
        continue;
      }
      auto clear = clear_at(k, tick);
      if (!clear) return std::nullopt;
      if (*clear == tick) return tick;
      tick = *clear;
    }
    return std::nullopt;
  }

  // What has to be placed together with a step.
  std::vector<Dependence> needs(int k) const {
    std::vector<Dependence> found;
    for (const Dependence& edge : steps_[k].before)
      if (!edge.turns && !is_placed(edge.step) && waits(edge.step)) found.push_back(edge);
    return found;
  }

  // The first tick that what is placed, and what will be, allow.
  Tick first(int k) const {
    Tick tick = earliest(k);
    for (const Dependence& edge : needs(k)) tick = std::max(tick, first(edge.step) + edge.distance);
    return tick;
  }

  // Put a step at a tick and what it needs as late as it can be; all or nothing.
  bool place_all(int k, Tick tick) {
    std::vector<int> done{k};
    set(k, tick);
    if (place_before(k, tick, done)) return true;
    for (auto other = done.rbegin(); other != done.rend(); ++other) unset(*other);
    return false;
  }

  bool place_before(int k, Tick tick, std::vector<int>& done) {
    auto wanted = needs(k);
    std::stable_sort(wanted.begin(), wanted.end(),
                     [](const Dependence& a, const Dependence& b) { return a.step > b.step; });
    for (const auto& [need, distance, turns] : wanted) {
      if (is_placed(need)) {  // another need of the step needed it too
        if (at_[need] + distance > tick) return false;
        continue;
      }
      Tick end = std::min(tick - distance, latest(need, tick));
      auto found = last(need, end, std::max(first(need), end - std::max(limits_.weight_lead, way_.lead)));
      if (!found) return false;
      set(need, *found);
      done.push_back(need);
      if (!place_before(need, *found, done)) return false;
    }
    return true;
  }

  // The last tick from `limit` to `tick` at which the step itself can be.
  std::optional<Tick> last(int k, Tick tick, Tick limit) {
    const LoopStep& step = steps_[k];
    while (tick >= limit) {
      --work_;
      std::optional<Tick> found = tick;
      if (!step.decodes) found = lines_[step.unit].last(tick, step.busy, limit, grain_[step.unit]);
      if (!found) return std::nullopt;
      tick = *found - 1;
      if (issued_[modulo(*found, interval_)]) continue;
      Tick earlier = read_alone_before(k, *found);
      if (earlier < *found) {  // nothing between can be either
        work_ -= tick - earlier;
        tick = earlier;
      } else if (std::all_of(step.slots.begin(), step.slots.end(), [&](int id) {
                   auto slot = slot_at(id, k, *found);
                   return slot && *slot == *found;
                 })) {
        return found;
      }
    }
    return std::nullopt;
  }

  void set(int k, Tick tick) {
    reserve(k, tick);
    history_[k].clear();
    for (int id : steps_[k].slots) {
      history_[k].push_back({slot_[id], has_span_[id] != 0, span_[id]});
      occupy(id, k, tick);
    }
  }

  // Put a step at a tick, whatever slots it needs.
  void reserve(int k, Tick tick) {
    at_[k] = tick;
    stamp_[k] = ++stamps_;
    issued_[modulo(tick, interval_)] = true;
    if (!steps_[k].decodes) lines_[steps_[k].unit].take(tick, steps_[k].busy);
    for (int part : steps_[k].reads) readers_[part].push_back({tick, k});
  }

  // Take a step back that was placed last.
  void unset(int k) {
    Tick tick = at_[k];
    at_[k] = kNowhere;
    issued_[modulo(tick, interval_)] = false;
    if (!steps_[k].decodes) lines_[steps_[k].unit].drop(tick);
    for (int part : steps_[k].reads) {
      auto& readers = readers_[part];
      readers.erase(
          std::find_if(readers.begin(), readers.end(), [&](const Reader& r) { return r.tick == tick && r.step == k; }));
    }
    for (std::size_t n = 0; n < steps_[k].slots.size(); ++n) {
      int id = steps_[k].slots[n];
      const Before& before = history_[k][n];
      ++left_[id];
      if (before.slot < 0 || !before.has_span) {
        others(id, slot_[id]).drop(id);
        slot_[id] = -1;
        has_span_[id] = false;
      } else {
        span_[id] = before.span;
        others(id, before.slot).put(id, before.span);
      }
    }
    history_[k].clear();
  }

  // --- registers and slots ---

  // The tick itself if registers and slots allow it, a later one to try, or none.
  std::optional<Tick> clear_at(int k, Tick tick) {
    Tick later = read_alone(k, tick);
    if (later > tick) return later;
    for (int id : steps_[k].slots) {
      auto found = slot_at(id, k, tick);
      if (!found || *found != tick) return found;
    }
    return tick;
  }

  // Ticks that a reader of a register keeps another one away.
  Tick apart(const LoopStep& a, const LoopStep& b) const {
    return body_.registers_hold ? std::max<Tick>(1, a.latency - (b.position > a.position)) : 0;
  }

  // The tick itself if no other unit reads the same registers then, else a later one. Two units may not hold the same
  // register at once, even to read it.
  Tick read_alone(int k, Tick tick) const {
    const LoopStep& step = steps_[k];
    for (int part : step.reads)
      for (const Reader& reader : readers_[part]) {
        const LoopStep& other = steps_[reader.step];
        if (other.unit == step.unit && step.busy >= step.latency) continue;
        Tick gap = apart(other, step), back = apart(step, other);
        Tick since = modulo(tick - reader.tick, interval_);
        if (since < gap) {
          if (gap > since) return tick + gap - since;
          continue;
        }
        Tick until = modulo(reader.tick - tick, interval_);
        if (until < back) {
          if (until + gap > 0) return tick + until + gap;
          break;
        }
      }
    return tick;
  }

  // The tick itself if no other unit reads the same registers then, else an earlier one.
  Tick read_alone_before(int k, Tick tick) const {
    const LoopStep& step = steps_[k];
    for (int part : step.reads)
      for (const Reader& reader : readers_[part]) {
        const LoopStep& other = steps_[reader.step];
        if (other.unit == step.unit && step.busy >= step.latency) continue;
        Tick gap = apart(other, step), back = apart(step, other);
        Tick since = modulo(tick - reader.tick, interval_);
        if (since < gap) return tick - since - back;
        Tick until = modulo(reader.tick - tick, interval_);
        if (until < back) return tick - back + until;
      }
    return tick;
  }

  // Ticks from a step's issue until another value may enter its slot.
  Tick hold(int k, int id) const {
    const LoopStep& step = steps_[k];
    Tick longest = 0;
    for (const auto& [latency, position] : openers_[body_.slots[id].queue]) {
      Tick ticks = step.latency - latency + (step.position < position ? 0 : 1);
      longest = std::max(longest, std::max<Tick>(1, ticks));
    }
    return longest;
  }

  SlotReservations& others(int id, int slot) { return others_[body_.slots[id].queue * kSlots + slot]; }

  // The tick itself if there is a slot, a later one to try, or none.
  std::optional<Tick> slot_at(int id, int k, Tick tick) {
    Tick end = tick + hold(k, id);
    if (slot_[id] >= 0) {
      if (!has_span_[id]) throw std::logic_error("a slot without its time");
      Span span{std::min(span_[id].first, tick), std::max(span_[id].second, end)};
      if (is_free(id, slot_[id], span)) return tick;
      short_[id] = std::min(short_[id], span.second - span.first);
      return std::nullopt;
    }
    Span span{tick, std::max(end, tick + usual_[id])};
    if (span.second - span.first > interval_) return std::nullopt;
    auto slots = by_use(id);
    // Rather wait a little than take a slot away from values that stay longer.
    Tick soonest = ready(id, slots[0], span);
    if (soonest <= tick + limits_.slot_patience) return soonest;
    for (std::size_t n = 1; n < slots.size(); ++n) soonest = std::min(soonest, ready(id, slots[n], span));
    return soonest;
  }

  // Slots, the one most used first.
  std::array<int, kSlots> by_use(int id) {
    std::array<int, kSlots> slots;
    std::iota(slots.begin(), slots.end(), 0);
    std::stable_sort(slots.begin(), slots.end(),
                     [&](int a, int b) { return others(id, a).size() > others(id, b).size(); });
    return slots;
  }

  // When values in the way will have left a slot, at the earliest.
  Tick ready(int id, int slot, Span span) {
    Tick soonest = kNowhere;
    for (Tick end : others(id, slot).meeting(span, id))
      soonest = std::min(soonest, span.first + std::max<Tick>(1, modulo(end - span.first, interval_)));
    return soonest == kNowhere ? span.first : soonest;
  }

  bool is_free(int id, int slot, Span span) {
    return span.second - span.first <= interval_ && others(id, slot).is_free(span, id);
  }

  void occupy(int id, int k, Tick tick) {
    Tick end = tick + hold(k, id);
    Span span;
    if (slot_[id] < 0) {
      span = {tick, std::max(end, tick + usual_[id])};
      auto slots = by_use(id);
      auto found = std::find_if(slots.begin(), slots.end(), [&](int slot) { return is_free(id, slot, span); });
      if (found == slots.end()) throw std::logic_error("no slot is free");
      slot_[id] = *found;
    } else {
      span = {std::min(span_[id].first, tick), std::max(span_[id].second, end)};
    }
    if (!--left_[id]) {
      span = {kFar, -kFar};
      for (int other : body_.slots[id].touches)
        span = {std::min(span.first, at_[other]), std::max(span.second, at_[other] + hold(other, id))};
    }
    span_[id] = span;
    has_span_[id] = true;
    others(id, slot_[id]).put(id, span);
  }

  // --- matrix units packed: their instructions one right after the other, loads just before them ---

  // Place what the matrix units do, of the next few steps of a unit the one that can start first; false where it takes
  // longer than the interval.
  bool pack_products() {
    std::vector<int> units;
    std::map<int, std::vector<int>> queues;
    std::map<int, Tick> begun, done;
    std::vector<int> left(body_.slots.size(), 0);
    std::vector<std::vector<int>> free(openers_.size(), {0, 1});
    for (int k : order_) {
      if (!steps_[k].matrix) continue;
      if (!queues.count(steps_[k].unit)) units.push_back(steps_[k].unit);
      queues[steps_[k].unit].push_back(k);
      done[steps_[k].unit] = 0;
      for (int id : steps_[k].slots) ++left[id];
    }
    auto some = [&] { return std::any_of(units.begin(), units.end(), [&](int u) { return !queues[u].empty(); }); };
    while (some()) {
      auto sorted = units;
      std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) { return done[a] < done[b]; });
      int chosen = -1;
      for (int unit : sorted) {
        auto& queue = queues[unit];
        std::optional<std::pair<Tick, std::size_t>> best;
        for (std::size_t n = 0; n < std::min(queue.size(), limits_.pack_ahead); ++n) {
          auto tick = product_tick(queue[n], done[unit], free);
          if (tick && (!best || std::pair(*tick, n) < *best)) best = {*tick, n};
        }
        if (!best) continue;
        int k = queue[best->second];
        queue.erase(queue.begin() + best->second);
        begun.emplace(unit, best->first);
        done[unit] = best->first + steps_[k].busy;
        reserve(k, best->first);
        for (int id : steps_[k].slots) {
          auto& places = free[body_.slots[id].queue];
          if (slot_[id] < 0) {
            slot_[id] = places.front();
            places.erase(places.begin());
          }
          if (!--left[id]) places.push_back(slot_[id]);
        }
        chosen = unit;
        break;
      }
      if (chosen < 0 || done[chosen] - begun[chosen] > interval_) return false;
    }
    return true;
  }

  // When a product can start; none as long as others come first.
  std::optional<Tick> product_tick(int k, Tick done, const std::vector<std::vector<int>>& free) {
    auto floor = product_floor(k);
    if (!floor) return std::nullopt;
    for (int id : steps_[k].slots)
      if (slot_[id] < 0 && free[body_.slots[id].queue].empty()) return std::nullopt;
    Tick tick = std::max(*floor, done);
    while (true) {
      --work_;
      Tick later = read_alone(k, tick);
      if (later == tick && !issued_[modulo(tick, interval_)]) return tick;
      tick = std::max(later, tick + 1);
    }
  }

  // The first tick that what comes before a step allows, also through steps of other units that have no tick yet; none
  // where a matrix unit's step has none.
  std::optional<Tick> product_floor(int k) const {
    Tick tick = earliest(k);
    for (const auto& [b, distance, turns] : steps_[k].before) {
      if (turns || is_placed(b)) continue;
      if (steps_[b].matrix) return std::nullopt;
      auto floor = product_floor(b);
      if (!floor) return std::nullopt;
      tick = std::max(tick, *floor + distance);
    }
    return tick;
  }

  // Place the tiles that matrix units read, from the one needed last to the one needed first, each as late as it can
  // be; false where that cannot be.
  bool place_loads() {
    std::vector<std::pair<Tick, int>> loads;
    for (int k : order_)
      if (steps_[k].load && !is_placed(k)) loads.emplace_back(-latest(k, 0), k);
    std::stable_sort(loads.begin(), loads.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [key, k] : loads) {
      Tick end = latest(k, 0);
      auto tick = last(k, end, end - interval_);
      if (!tick) return false;
      reserve(k, *tick);
    }
    return true;
  }

  const LoopBody& body_;
  const std::vector<LoopStep>& steps_;
  Tick interval_;
  PlacementWay way_;
  const PlacementLimits& limits_;
  std::int64_t work_;
  std::vector<Tick> usual_;
  std::vector<int> order_;
  std::vector<Tick> at_;
  std::vector<int> stamp_;
  std::vector<bool> issued_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<int> slot_;
  std::vector<Span> span_;
  std::vector<char> has_span_;
  std::vector<int> left_;
  std::vector<Tick> short_;
  std::vector<std::vector<Before>> history_;
  std::vector<std::vector<std::pair<Tick, int>>> openers_;  // latency and position of what puts values into slots
  std::vector<SlotReservations> others_;
  std::vector<UnitReservations> lines_;
  std::vector<Tick> grain_;
  int stamps_ = 0;
  Tick behind_ = 0;  // ticks by which steps come later than in the plain schedule
};

}  // namespace

PlacedLoop place_loop(const LoopBody& body, Tick interval, PlacementWay way, const PlacementLimits& limits,
                      const std::vector<Tick>& usual, std::int64_t work) {
  return Placement(body, interval, way, limits, usual, work).run();
}

}  // namespace tilewright::codegen
