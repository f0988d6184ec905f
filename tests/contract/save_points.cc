#include "tests/contract/save_points.h"

#include "millrace/pipeline/pipeline_state.h"

namespace millrace::test {

std::string save(const Pipeline& pipeline) { return pipeline.save().serialize(); }

Pipeline resume(const Dataset& dataset, StartOptions options, const std::string& state) {
  options.state = PipelineState::parse(state);
  return dataset.start(options);
}

}  // namespace millrace::test
