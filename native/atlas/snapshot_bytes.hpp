// Snapshots as bytes, for files. Reading takes nothing on trust: what comes out is a state that a
// machine with this program can be in as far as the safety of this process goes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "machine.hpp"

namespace atlas {

constexpr uint64_t kBlockBytes = 4096;  // memory is kept in blocks of this size, or what is left at its end

// The parts of a memory that differ from another one.
struct Blocks {
  std::vector<uint64_t> addresses;  // ascending
  std::string data;
};

struct BytesView {
  const uint8_t* data;
  size_t size;
};

struct BlocksView {
  const uint64_t* addresses;
  size_t count;
  BytesView data;
};

// Everything but the memories. Throws std::invalid_argument for what files do not hold: faults that
// were recorded, traces, watches, the wide registers of compat mode.
std::string pack_core(const Snapshot& snapshot, const Settings& settings);

// What a memory has that its base has not. Throws when they began with other contents.
Blocks pack_memory(const SparseMemory& now, const SparseMemory& base);

// The snapshot again, for the program that the machine has loaded.
std::unique_ptr<Snapshot> unpack(const Machine& machine, const Snapshot& base, BytesView core, const BlocksView& vmem,
                                 const BlocksView& dram);

}  // namespace atlas
