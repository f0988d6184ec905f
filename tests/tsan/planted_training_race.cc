// Runs a training with a race on purpose, as planted_race runs a pipeline.
// usage: planted_training_race replica|callback
#include <string_view>

#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/pipeline_source.h"
#include "tests/trainer/toy_training.h"
#include "tests/tsan/meeting.h"

namespace millrace {
namespace {

int64_t planted_counter = 0;

void touch_planted_counter() { ++planted_counter; }

Meeting meeting;

// Between the steps, on the thread that trains.
class TouchingCallback final : public Callback {
 public:
  void step_ends(const StepEnd&) override { meeting.attend(touch_planted_counter); }
};

// A map that touches the counter on the pipeline's threads, when asked.
Dataset dataset(bool touching) {
  const testing_models::RegressionBatch batch(64);
  std::vector<std::vector<float>> x;
  for (size_t row = 0; row < batch.y.size(); ++row) x.emplace_back(&batch.x[5 * row], &batch.x[5 * row] + 5);
  const RowFunction map{.name = "touch",
                        .writes = {{.name = "y", .dtype = DType::kFloat32, .shape = {}}},
                        .function = [touching](const RowView& row, RowWriter& out) {
                          if (touching) meeting.attend(touch_planted_counter);
                          out.set("y", row.value<float>("y"));
                        }};
  return Dataset::rows({{"x", x}, {"y", batch.y}}).repeat(16).map(map).batch(16);
}

void run(std::string_view place) {
  const WorkerLimit limit(4);
  testing_models::ToyTraining toy({.step = {.threads = 4}});
  if (place == "replica") {
    toy.model.before_step = [](const ReplicaContext&) { meeting.attend(touch_planted_counter); };
  } else {
    toy.trainer.add_callback(std::make_unique<TouchingCallback>());
  }
  while (!meeting.met()) {
    PipelineSource source(
        dataset(place == "callback").start({.threads = 1}));  // so that it is the callback that meets a map
    toy.trainer.train(source);
  }
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::run(argc > 1 ? argv[1] : "replica");
  return 0;
}
