// Tensor registers, weight slots and accumulators, given out as virtual registers come and go.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tilewright::codegen {

using Tick = std::int64_t;
inline constexpr Tick kFar = Tick{1} << 62;

enum class Kind { tensor, slot, scalar };

// A virtual register. `queue` numbers the slots of one matrix unit; `physical` is its place where that is known
// before the code starts (-1: it is given one here).
struct Register {
  Kind kind;
  int size;
  int queue;
  bool carried;
  int physical;
};

// An access of some parts of a register by a node.
struct Access {
  int node;
  int low;
  int high;
};

// A tensor register is free again when all its accesses have completed. Weight slots and accumulators are given out
// in program order, so that no slot goes to work that waits for work behind it.
class Registers {
 public:
  // `uses`: for each node the registers it touches, each once; `pairs`: a bit for every free pair of tensor registers.
  Registers(const std::vector<Register>& registers, const std::vector<std::vector<int>>& uses, std::uint64_t pairs);

  bool is_open(int id) const { return physical_[id] >= 0; }
  int physical(int id) const { return physical_[id]; }
  const std::vector<Access>& holders(int id) const { return holders_[id]; }

  // Whether all of these can be opened now and leave so many tensor registers free.
  bool has_room(const std::vector<int>& ids, int leave) const;
  // Note an access that completes at tick `done`; a register not yet open gets its place.
  void access(int id, Access access, Tick done);
  // The next tick after `tick` at which something becomes free.
  Tick next_release(Tick tick) const;
  // Take back what is no longer in use at this tick.
  void release(Tick tick);

 private:
  struct Queue {
    std::vector<int> order;
    std::size_t next = 0;
    unsigned free = 0b11;
  };
  struct Leaving {
    Tick tick;
    int id;
  };

  int take(int id);
  void give_back(int id);

  const std::vector<Register>& registers_;
  std::vector<int> physical_;
  std::vector<int> left_;
  std::vector<Tick> last_;
  std::vector<std::vector<Access>> holders_;
  std::vector<Queue> queues_;
  std::vector<Leaving> leaving_;
  std::uint64_t pairs_;
  std::uint64_t singles_ = 0;
};

}  // namespace tilewright::codegen
