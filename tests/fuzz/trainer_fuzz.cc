#include "tests/fuzz/trainer_fuzz.h"

#include <filesystem>
#include <string>

#include "millrace/trainer/checkpoint/training_checkpoint.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/models/t5_pretrained.h"
#include "millrace/trainer/optimizers/sgd.h"
#include "millrace/trainer/trained_state.h"
#include "tests/fuzz/fuzz_error.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {
namespace {

template <typename Load, typename Save>
void check_config(std::string_view bytes, Load load, Save save) {
  static const TemporaryFolder folder;
  const std::string file = folder.path("config.json");
  write_file(file, std::string(bytes));
  try {
    const auto config = load(folder.path());
    save(folder.path(), config);
  } catch (const ErrorException& exception) {
    require_refusal(exception, {ErrorCode::kParse, ErrorCode::kInvalidArgument});
    return;
  }
  const std::string written = read_file(file);
  save(folder.path(), load(folder.path()));
  require(read_file(file) == written);
}

// Saves progress with a model of one parameter; the text of its training.json.
std::string saved(const TrainingProgress& progress) {
  const TemporaryFolder folder;
  const Sgd optimizer;
  ParameterLayout layout;
  layout.add("w", {1});
  layout.finish();
  CheckpointFolder checkpoints(folder.path(), {});
  const std::string path =
      checkpoints.save(progress, layout, TrainedState(layout, optimizer), optimizer, *constant_rate(1));
  return read_file(path + "/training.json");
}

}  // namespace

void fuzz_trainer_config(std::string_view bytes) {
  check_config(
      bytes, [](const std::string& path) { return load_roberta_config(path); }, save_roberta_config);
  check_config(
      bytes, [](const std::string& path) { return load_t5_config(path); }, save_t5_config);
}

void fuzz_trainer_progress(std::string_view bytes) {
  static const TemporaryFolder folder;
  const auto read = [](std::string_view text) {
    write_file(folder.path("training.json"), std::string(text));
    return read_progress(folder.path());
  };
  TrainingProgress progress;
  try {
    progress = read(bytes);
  } catch (const ErrorException& exception) {
    require_refusal(exception, {ErrorCode::kParse});
    return;
  }
  const std::string written = saved(progress);
  require(saved(read(written)) == written);
}

}  // namespace millrace::test
