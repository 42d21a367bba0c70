#include "registers.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace tilewright::codegen {
namespace {

constexpr std::size_t kHolders = 16;  // accesses of a register that later ones look back at

template <typename Mask>
int lowest(Mask& mask) {
  if (!mask) throw std::logic_error("a register is taken where none is free");
  int bit = std::countr_zero(mask);
  mask &= mask - 1;
  return bit;
}

}  // namespace

Registers::Registers(const std::vector<Register>& registers, const std::vector<std::vector<int>>& uses,
                     std::uint64_t pairs)
    : registers_(registers),
      physical_(registers.size(), -1),
      left_(registers.size(), 0),
      last_(registers.size(), 0),
      holders_(registers.size()),
      pairs_(pairs) {
  int queues = 0;
  for (const Register& r : registers) queues = std::max(queues, r.queue + 1);
  queues_.resize(queues);
  for (const auto& ids : uses)
    for (int id : ids) {
      const Register& r = registers[id];
      if (r.kind == Kind::slot && !left_[id]) queues_[r.queue].order.push_back(id);
      ++left_[id];
    }
  for (std::size_t id = 0; id < registers.size(); ++id)
    if (registers[id].kind != Kind::scalar && registers[id].physical >= 0) {
      physical_[id] = registers[id].physical;
      left_[id] = -1;  // keeps its place
    }
}

bool Registers::has_room(const std::vector<int>& ids, int leave) const {
  int pairs = std::popcount(pairs_), singles = std::popcount(singles_), wanted = 0;
  for (int id : ids)
    if (registers_[id].kind == Kind::tensor) wanted += registers_[id].size;
  if (leave && 2 * pairs + singles - wanted < leave) return false;
  for (int id : ids) {
    const Register& r = registers_[id];
    if (r.kind == Kind::slot) {
      const Queue& queue = queues_[r.queue];
      if (queue.next >= queue.order.size() || queue.order[queue.next] != id || !queue.free) return false;
    } else if (r.size == 1 && singles) {
      --singles;
    } else if (pairs <= 0) {
      return false;
    } else {
      --pairs;
      singles += r.size == 1;
    }
  }
  return true;
}

void Registers::access(int id, Access access, Tick done) {
  if (physical_[id] < 0) physical_[id] = take(id);
  last_[id] = std::max(last_[id], done);
  auto& holders = holders_[id];
  if (holders.size() == kHolders) holders.erase(holders.begin());
  holders.push_back(access);
  if (left_[id] > 0 && !--left_[id]) leaving_.push_back({last_[id], id});
}

int Registers::take(int id) {
  const Register& r = registers_[id];
  if (r.kind == Kind::slot) {
    Queue& queue = queues_[r.queue];
    ++queue.next;
    return lowest(queue.free);
  }
  if (r.size == 2) return 2 * lowest(pairs_);
  if (!singles_) singles_ = std::uint64_t{3} << (2 * lowest(pairs_));
  return lowest(singles_);
}

void Registers::give_back(int id) {
  const Register& r = registers_[id];
  int place = physical_[id];
  if (r.kind == Kind::slot) {
    queues_[r.queue].free |= 1u << place;
  } else if (r.size == 2 || (singles_ >> (place ^ 1)) & 1) {
    singles_ &= ~(std::uint64_t{3} << (place & ~1));
    pairs_ |= std::uint64_t{1} << (place / 2);
  } else {
    singles_ |= std::uint64_t{1} << place;
  }
}

Tick Registers::next_release(Tick tick) const {
  Tick next = kFar;
  for (const Leaving& entry : leaving_)
    if (entry.tick > tick) next = std::min(next, entry.tick);
  return next;
}

void Registers::release(Tick tick) {
  std::size_t kept = 0;
  for (const Leaving& entry : leaving_) {
    if (entry.tick > tick)
      leaving_[kept++] = entry;
    else
      give_back(entry.id);
  }
  leaving_.resize(kept);
}

}  // namespace tilewright::codegen
