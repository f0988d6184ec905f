#include "millrace/trainer/step/step_graph_options.h"

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

void StepGraphOptions::check() const {
  if (replicas < 1 || replicas > kMostReplicas) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("replicas is {}; 1 to {} are possible", replicas, kMostReplicas));
  }
  if (threads < 0 || threads > kMostStepThreads) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("threads is {}; 0 to {} are possible", threads, kMostStepThreads));
  }
}

}  // namespace millrace
