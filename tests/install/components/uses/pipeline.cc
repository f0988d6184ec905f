#include <stdexcept>

#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/pipeline_state.h"

// More threads than there are cores may be asked for.
void use_pipeline() {
  using namespace millrace;
  Pipeline pipeline = Dataset::range(0, 100)
                          .filter({.name = "all", .keep = [](const RowView&) { return true; }})
                          .batch(8)
                          .start({.threads = 64});
  for (int i = 0; i < 5; ++i) (void)pipeline.next();
  if (PipelineState::parse(pipeline.save().serialize()).num_delivered() != 5) throw std::runtime_error("pipeline");
}
