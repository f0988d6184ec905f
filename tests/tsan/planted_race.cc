// Runs a pipeline with a race on purpose. ThreadSanitizer must report it in spite of the suppressions for oneTBB: the
// test passes when the report names the planted function. usage: planted_race map|stage
#include <string_view>

#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/tsan/meeting.h"

namespace millrace {
namespace {

int64_t planted_counter = 0;

void touch_planted_counter() { ++planted_counter; }

Meeting meeting;

class RacingMap final : public MapOperator {
 public:
  using MapOperator::MapOperator;
  std::string_view name() const override { return "racing_map"; }
  Block apply(Block block, BufferPool&) const override {
    meeting.attend(touch_planted_counter);
    return block;
  }
};

class RacingStage final : public Stage {
 public:
  explicit RacingStage(std::unique_ptr<Stage> input) : input_(std::move(input)) {}
  Poll next(Block& out) override {
    meeting.attend(touch_planted_counter);
    return input_->next(out);
  }

 private:
  std::unique_ptr<Stage> input_;
};

class RacingStageOperator final : public StageOperator {
 public:
  using StageOperator::StageOperator;
  std::string_view name() const override { return "racing_stage"; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override {
    return std::make_unique<RacingStage>(inputs[0](context));
  }
};

template <typename Op>
Dataset with(const Dataset& input) {
  return Dataset::from_operator({input},
                                [](std::span<const SchemaPtr> inputs) { return std::make_shared<Op>(inputs[0]); });
}

void run(std::string_view place) {
  const WorkerLimit limit(4);
  const Dataset range = Dataset::range(0, 1 << 18);
  // Two stages of one chain cannot race: the stage runs in two segments that a prefetch separates.
  const Dataset dataset =
      place == "map" ? with<RacingMap>(range) : with<RacingStageOperator>(with<RacingStageOperator>(range).prefetch(2));
  while (!meeting.met()) {
    Pipeline pipeline = dataset.batch(1024).start({.threads = 4});
    while (pipeline.next()) {
    }
  }
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::run(argc > 1 ? argv[1] : "map");
  return 0;
}
