#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/pipeline/run/stage_statistics.h"

namespace millrace {

/// What a segment does at one moment, for reports. The parts are read one after the other: together they are true when
/// nothing moves.
struct SegmentState {
  enum class Chain {
    kIdle,            ///< nobody asks for more: not opened, or at its end
    kDue,             ///< has been woken, and no worker has come to it yet
    kRunning,         ///< inside a stage
    kWaitsForInput,   ///< a stage has answered pending
    kWaitsForOutput,  ///< the ring has no free slot
  };
  struct Body {
    const StageStatistics* map = nullptr;  ///< that runs now
    int64_t ns = 0;                        ///< of work on one block so far
    uint64_t elements = 0;                 ///< that it has come through, of a function of single elements
  };

  Chain chain = Chain::kIdle;
  int64_t chain_ns = 0;                    ///< of a run of the chain so far; 0 when idle or due
  const StageStatistics* stage = nullptr;  ///< the innermost that runs, of kRunning
  uint64_t elements = 0;                   ///< as of a body, where the stage is a map
  size_t slots = 0;                        ///< of the ring that may be in use now
  size_t taken = 0;                        ///< slots that hold a block: in bodies, on the way there, or ready
  size_t ready = 0;                        ///< of these, ready for the reader
  bool next_is_ready = false;              ///< among them the one that the reader takes next
  std::vector<Body> bodies;                ///< those that a worker runs now
};

/// The state of one segment, or of all lanes of one operator, with its place in the plan.
struct SegmentStates {
  int number = 0;
  std::vector<std::string> chain;    ///< names of its stages, the first source first
  std::vector<std::string> body;     ///< names of its maps
  bool lanes = false;                ///< one state for each lane of an operator
  std::vector<int> inputs;           ///< numbers of the segments that its chain takes blocks from
  std::vector<SegmentState> states;  ///< one, or one for each lane
};

}  // namespace millrace
