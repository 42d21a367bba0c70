#include "list_schedule.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <stdexcept>
#include <utility>

namespace tilewright::codegen {
namespace {

constexpr std::size_t kLookedAt = 16;  // nodes whose constants are made in idle ticks

class Scheduler {
 public:
  Scheduler(const Problem& problem, Reserve reserve)
      : nodes_(problem.nodes),
        ids_(problem.registers),
        limits_(problem.limits),
        reserve_(reserve),
        constants_(problem.constants),
        channels_(problem.channels),
        uses_(unique_registers(problem)),
        registers_(problem.registers, uses_, problem.pairs),
        needed_(nodes_.size()),
        missing_(nodes_.size()),
        earliest_(nodes_.size()),
        dispatch_(nodes_.size(), -1),
        completion_(nodes_.size(), 0),
        channel_of_(nodes_.size(), -1),
        operands_(nodes_.size()),
        addresses_(ids_.size(), -1),
        address_free_(ids_.size(), 0),
        address_uses_(ids_.size(), 0),
        dma_last_(limits_.dma_last) {
    int units = 0;
    for (std::size_t k = 0; k < nodes_.size(); ++k) {
      const Node& node = nodes_[k];
      units = std::max(units, node.number + 1);
      missing_[k] = static_cast<int>(node.before.size());
      earliest_[k] = node.earliest;
      work_left_ += !node.closing;
      for (const Operand& operand : node.operands)
        if (operand.source == Source::constant) {
          needed_[k].push_back({static_cast<File>(operand.first), operand.second});
          constants_.expect(needed_[k].back());
        }
      std::vector<int> scalars;
      bool tensors = false;
      for (const Row& row : node.rows) {
        tensors |= ids_[row.id].kind == Kind::tensor;
        if (ids_[row.id].kind != Kind::scalar) continue;
        if (std::find(scalars.begin(), scalars.end(), row.id) != scalars.end()) continue;
        scalars.push_back(row.id);
        ++address_uses_[row.id];
      }
      if (tensors) with_registers_.push_back(static_cast<int>(k));
    }
    unit_free_.assign(units, 0);
    aside_.assign(nodes_.size(), false);
    for (std::size_t k = nodes_.size(); k-- > 0;) aside_[k] = for_later(nodes_[k]);
  }

  std::optional<Schedule> run() {
    using Entry = std::pair<int, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> later, aside;
    for (std::size_t k = 0; k < nodes_.size(); ++k)
      if (!missing_[k]) later.push({nodes_[k].order, static_cast<int>(k)});
    std::size_t left = nodes_.size();
    while (left) {
      while (!aside.empty() && ready_.size() < limits_.window && ahead_ < limits_.window_ahead) {
        look_at(aside.top().second);
        aside.pop();
      }
      while (!later.empty() && ready_.size() < limits_.window) {
        if (aside_[later.top().second] && ahead_ >= limits_.window_ahead)
          aside.push(later.top());
        else
          look_at(later.top().second);
        later.pop();
      }
      registers_.release(tick_);
      auto [chosen, soonest] = choose();
      if (chosen < 0) {
        if (!idle_until(soonest)) return std::nullopt;
        continue;
      }
      if (make_constant(chosen, false)) continue;  // the tick went to making one
      issue(chosen);
      ready_.erase(std::find(ready_.begin(), ready_.end(), chosen));
      ahead_ -= aside_[chosen];
      --left;
      for (const Edge& edge : nodes_[chosen].after) {
        const Node& next = nodes_[edge.node];
        Tick tick = next.transfer == chosen ? completion_[chosen] + 1 : tick_ - 1 + edge.distance;
        earliest_[edge.node] = std::max(earliest_[edge.node], tick);
        if (--missing_[edge.node]) continue;
        if (next.unit == Unit::dma || next.unit == Unit::decode)
          look_at(edge.node);
        else
          later.push({next.order, edge.node});
      }
    }
    return result();
  }

 private:
  // The registers that are not scalar of each node, each once, in order.
  static std::vector<std::vector<int>> unique_registers(const Problem& problem) {
    std::vector<std::vector<int>> uses;
    uses.reserve(problem.nodes.size());
    for (const Node& node : problem.nodes) {
      std::vector<int>& ids = uses.emplace_back();
      for (const Row& row : node.rows)
        if (problem.registers[row.id].kind != Kind::scalar && std::find(ids.begin(), ids.end(), row.id) == ids.end())
          ids.push_back(row.id);
    }
    return uses;
  }

  // Whether a node is a transfer for a later piece, or makes addresses for such ones only: many of them wait for one
  // engine, and must not keep everything else from being looked at.
  bool for_later(const Node& node) const {
    if (node.prefetches) return true;
    if (node.unit != Unit::scalar) return false;
    bool some = false;
    for (const Edge& edge : node.after) {
      if (aside_[edge.node])
        some = true;
      else if (nodes_[edge.node].unit != Unit::scalar)  // the next value of a pointer comes after what used it
        return false;
    }
    return some;
  }

  void look_at(int k) {
    ready_.push_back(k);
    ahead_ += aside_[k];
  }

  Schedule result() {
    Tick finish = tick_;
    for (std::size_t k = 0; k < nodes_.size(); ++k)
      if (nodes_[k].unit != Unit::dma) finish = std::max(finish, completion_[k]);
    std::vector<int> places;
    for (std::size_t id = 0; id < ids_.size(); ++id) places.push_back(registers_.physical(static_cast<int>(id)));
    return {std::move(issues_),     std::move(operands_), std::move(dispatch_),
            std::move(completion_), std::move(places),    finish,
            std::move(constants_)};
  }

  // The best node that can issue now, and otherwise the tick to look again.
  std::pair<int, Tick> choose() {
    int best = -1;
    Tick soonest = kFar;
    can_hold_ = constants_.can_hold();
    for (int k : ready_) {
      const Node& node = nodes_[k];
      if (best >= 0 && node.rank <= nodes_[best].rank) continue;
      Tick tick = std::max(earliest_[k], unit_free_[node.number]);
      if (tick <= tick_ || (!work_left_ && node.transfer >= 0)) tick = feasible(k);
      if (tick <= tick_)
        best = k;
      else
        soonest = std::min(soonest, tick);
    }
    return {best, soonest};
  }

  // The first tick from now on at which the node may issue, as far as known now.
  Tick feasible(int k) {
    const Node& node = nodes_[k];
    if (!work_left_ && node.transfer >= 0) return tick_;  // nothing else to do: wait as long as it takes
    Tick tick = std::max({tick_, earliest_[k], unit_free_[node.number]});
    if (tick > tick_) return tick;  // the rest is looked at when that tick has come
    if (node.repeated) {
      // A wait for a store is only worth it when nothing else is missing.
      return node.waits && node.stores && !last_missing(node) ? kFar : tick;
    }
    if (node.unit == Unit::dma) {
      // No hurry while the engine is busy: something more urgent may come up.
      if (limits_.idle) tick = std::max(tick, dma_last_ - limits_.transfer_haste);
      return has_channel(node) && can_hold_ ? tick : kFar;
    }
    if (node.unit == Unit::scalar && !address_wanted(node)) return kFar;
    opens_.clear();
    for (const Row& row : node.rows) {
      const Register& r = ids_[row.id];
      if (r.kind == Kind::scalar) {
        if (!r.carried && addresses_[row.id] < 0 && !constants_.can_lend(tick)) return kFar;
      } else if (!registers_.is_open(row.id)) {
        if (std::find(opens_.begin(), opens_.end(), row.id) == opens_.end()) opens_.push_back(row.id);
      } else if (r.kind == Kind::tensor) {
        tick = std::max(tick, clear_of_readers(node, row));
      }
    }
    if (!opens_.empty() && !registers_.has_room(opens_, left_free(node))) return kFar;
    return tick;
  }

  bool has_channel(const Node& node) const {
    std::size_t spare = node.prefetches ? limits_.spare_channels : 0;
    return channels_.size() > spare;
  }

  // Whether some instruction other than address arithmetic waits for this node only.
  bool last_missing(const Node& node) const {
    bool users = false;
    for (const Edge& edge : node.after) {
      if (nodes_[edge.node].unit == Unit::scalar) continue;
      users = true;
      if (missing_[edge.node] == 1 && earliest_[edge.node] <= tick_) return true;
    }
    return !users;
  }

  // Compute an address only when the transfer that wants it could start otherwise.
  bool address_wanted(const Node& node) const {
    bool computes = false;
    for (const Row& row : node.rows) computes |= ids_[row.id].kind == Kind::scalar && !ids_[row.id].carried;
    if (!computes) return true;
    for (const Edge& edge : node.after) {
      const Node& later = nodes_[edge.node];
      if (later.unit != Unit::dma) continue;
      if (addressing_ >= 0 && addressing_ != edge.node) return false;  // one by one, or all wait for a last register
      if (earliest_[edge.node] > tick_ || !has_channel(later)) return false;
      for (int earlier : later.before)
        if (dispatch_[earlier] < 0 && nodes_[earlier].unit != Unit::scalar) return false;
    }
    return true;
  }

  // Tensor registers that the node must leave free: loads run ahead only while registers are plenty, and so does
  // everything else once that led nowhere.
  int left_free(const Node& node) {
    if (!node.loads_tensor && !reserve_.registers) return 0;
    while (oldest_ < with_registers_.size() && dispatch_[with_registers_[oldest_]] >= 0) ++oldest_;
    if (oldest_ == with_registers_.size()) return 0;
    int ahead = node.order - nodes_[with_registers_[oldest_]].order;
    if (ahead <= 0) return 0;
    int reserve = ahead > reserve_.near ? reserve_.registers : 0;
    return std::max(reserve, node.loads_tensor ? limits_.result_registers : 0);
  }

  // After every access of the same parts in flight, reads included.
  Tick clear_of_readers(const Node& node, const Row& row) const {
    Tick tick = 0;
    for (const Access& access : registers_.holders(row.id)) {
      if (access.low >= row.first + row.count || row.first >= access.high) continue;
      if (completion_[access.node] <= tick_ - 1) continue;
      const Node& other = nodes_[access.node];
      Tick gap = 0;
      if (limits_.registers_hold) gap = std::max<Tick>(1, other.latency - (node.position > other.position));
      tick = std::max(tick, dispatch_[access.node] + gap);
    }
    return tick;
  }

  // Use ticks in which nothing can issue to make constants that are needed next; false where nothing ever will.
  bool idle_until(Tick soonest) {
    Tick until = std::min({soonest, registers_.next_release(tick_), constants_.next_completion(tick_)});
    if (until >= kFar) return false;
    std::vector<int> next = ready_;
    std::stable_sort(next.begin(), next.end(), [&](int a, int b) {
      return std::pair(earliest_[a], -nodes_[a].path) < std::pair(earliest_[b], -nodes_[b].path);
    });
    if (next.size() > kLookedAt) next.resize(kLookedAt);
    for (int k : next) {
      while (tick_ < until && make_constant(k, true)) {
      }
      if (tick_ >= until) return true;
    }
    tick_ = until;
    return true;
  }

  // Issue one instruction towards the node's constants; false when all are there, or with `soft` when none can be made
  // without loss.
  bool make_constant(int k, bool soft) {
    auto step = constants_.next_step(needed_[k], tick_, soft);
    if (!step) return false;
    tick_ = step->tick;
    issues_.push_back({tick_, k, step});
    ++tick_;
    return true;
  }

  void issue(int k) {
    const Node& node = nodes_[k];
    Tick done = tick_;
    int channel = 0;
    if (node.repeated) {
      channel = node.channel;
      if (node.unit == Unit::dma) occupy_engine(node);
    } else if (node.transfer >= 0) {
      channel = channel_of_[node.transfer];
      channels_.push_back(channel);
      std::sort(channels_.begin(), channels_.end());
      constants_.release(node.transfer);
    } else if (node.unit == Unit::dma) {
      channel = channels_.front();
      channels_.erase(channels_.begin());
      channel_of_[k] = channel;
      done = occupy_engine(node);
    } else {
      done = tick_ + node.latency;
      if (node.unit != Unit::scalar) unit_free_[node.number] = tick_ + node.interval;
    }
    dispatch_[k] = tick_;
    completion_[k] = done;
    work_left_ -= !node.closing;
    note_addressing(k);
    touch_registers(k, done);
    for (const Operand& operand : node.operands) operands_[k].push_back(physical(operand, channel, done));
    if (node.unit == Unit::dma && !node.repeated) constants_.hold(k, needed_[k]);
    issues_.push_back({tick_, k, std::nullopt});
    ++tick_;
  }

  // When a transfer dispatched now completes.
  Tick occupy_engine(const Node& node) {
    dma_last_ = std::max(tick_ + 1, dma_last_ + 1) + node.transfer_ticks - 1;
    return dma_last_;
  }

  // The transfer whose addresses are being computed.
  void note_addressing(int k) {
    const Node& node = nodes_[k];
    if (k == addressing_) {
      addressing_ = -1;
      return;
    }
    bool computes = std::any_of(node.rows.begin(), node.rows.end(), [&](const Row& r) { return !ids_[r.id].carried; });
    if (node.unit != Unit::scalar || !computes) return;
    addressing_ = -1;
    for (const Edge& edge : node.after)
      if (nodes_[edge.node].unit == Unit::dma) {
        addressing_ = edge.node;
        break;
      }
  }

  // Open registers on their first access; lend scalar registers to computed addresses and take them back after the
  // last use.
  void touch_registers(int k, Tick done) {
    spans_.clear();
    for (const Row& row : nodes_[k].rows) {
      auto known = std::find_if(spans_.begin(), spans_.end(), [&](const Row& r) { return r.id == row.id; });
      if (known == spans_.end()) {
        spans_.push_back({row.id, row.first, row.first + row.count});
      } else {
        known->first = std::min(known->first, row.first);
        known->count = std::max(known->count, row.first + row.count);
      }
    }
    for (const auto& [id, low, high] : spans_)
      if (ids_[id].kind != Kind::scalar) registers_.access(id, {k, low, high}, done);
    for (const auto& [id, low, high] : spans_) {
      if (ids_[id].kind != Kind::scalar || ids_[id].carried) continue;
      if (addresses_[id] < 0) addresses_[id] = constants_.lend(tick_, needed_[k]);
      address_free_[id] = std::max(address_free_[id], done);
      if (!--address_uses_[id]) constants_.give_back(addresses_[id], address_free_[id]);
    }
  }

  std::int64_t physical(const Operand& operand, int channel, Tick done) {
    switch (operand.source) {
      case Source::number:
        return operand.first;
      case Source::channel:
        return channel;
      case Source::constant:
        return constants_.use({static_cast<File>(operand.first), operand.second}, done);
      case Source::address:
        return addresses_[operand.first];
      case Source::place:
        return registers_.physical(static_cast<int>(operand.first)) + operand.second;
    }
    throw std::logic_error("an operand of no kind");
  }

  const std::vector<Node>& nodes_;
  const std::vector<Register>& ids_;
  const Limits& limits_;
  Reserve reserve_;
  Constants constants_;
  std::vector<int> channels_;
  std::vector<std::vector<int>> uses_;
  Registers registers_;
  std::vector<std::vector<Constant>> needed_;
  std::vector<int> missing_;
  std::vector<Tick> earliest_;
  std::vector<Tick> dispatch_;
  std::vector<Tick> completion_;
  std::vector<int> channel_of_;
  std::vector<std::vector<std::int64_t>> operands_;
  std::vector<int> addresses_;
  std::vector<Tick> address_free_;
  std::vector<int> address_uses_;
  std::vector<int> with_registers_;
  std::vector<Tick> unit_free_;
  std::vector<int> ready_;
  std::vector<bool> aside_;  // for a later piece
  std::size_t ahead_ = 0;    // of those that are ready
  std::vector<int> opens_;
  std::vector<Row> spans_;
  std::vector<Issue> issues_;
  std::size_t oldest_ = 0;
  std::int64_t work_left_ = 0;
  Tick tick_ = 0;
  Tick dma_last_;
  bool can_hold_ = true;
  int addressing_ = -1;
};

}  // namespace

std::optional<Schedule> list_schedule(const Problem& problem, Reserve reserve) {
  return Scheduler(problem, reserve).run();
}

}  // namespace tilewright::codegen
