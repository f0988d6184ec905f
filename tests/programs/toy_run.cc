// A training program that tests start, kill and ask: the Regression model by the layer of a run.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/metrics/spearman.h"
#include "millrace/trainer/run/missing_data.h"
#include "millrace/trainer/run/run_spec.h"
#include "millrace/trainer/run/training_run.h"
#include "tests/trainer/toy_models.h"

namespace {

using namespace millrace;
namespace po = boost::program_options;

struct ToyOptions {
  RunOptions run = {
      .global_batch = 8, .threads = 1, .evaluate_every = {.steps = 500}, .checkpoint_every = {.steps = 5}};
  int64_t rows = 40;
  int64_t widths = 1;
  int64_t max_shapes = 0;
  int64_t kill_at_batch = -1;
  std::string tokenizer = {};  // what is in tokenizer.json
  bool keep_remainder = false;
  bool no_evaluation = false;
  bool no_masks = false;
  bool no_data = false;
  bool in_memory = false;
  bool cache = false;
};

std::optional<ToyOptions> parse(int argc, char** argv) {
  ToyOptions options;
  po::options_description files("files");
  po::options_description training("training");
  po::options_description reports("reports");
  add_run_options(options.run, "of start weights", files, training, reports);
  // clang-format off
  training.add_options()
      ("rows", whole_number(options.rows, {0, limits::kRows}), "in an epoch")
      ("widths", whole_number(options.widths, {1, limits::kFew}), "of the feature `ids`, one batch after the other")
      ("max-shapes", whole_number(options.max_shapes, {0, limits::kFew}), "that may differ")
      ("kill-at-batch", whole_number(options.kill_at_batch, {-1, limits::kCount}), "before it is trained on")
      ("tokenizer", po::value(&options.tokenizer), "text of the model's tokenizer.json; empty: there is none")
      ("keep-remainder", "of an epoch, as a short batch")
      ("in-memory", "without a folder")
      ("cache", "keep the rows")
      ("no-evaluation", "there are no rows for it")
      ("no-masks", "`ids` is none")
      ("no-data", "there are none");
  // clang-format on
  po::options_description all;
  all.add(files).add(training).add(reports);
  const auto given = parse_command_line(argc, argv, {.name = "toy_run", .about = "A toy.", .usage = "[options]"}, all);
  if (!given) return std::nullopt;
  take_run_options(options.run, *given);
  options.keep_remainder = given->contains("keep-remainder");
  options.no_evaluation = given->contains("no-evaluation");
  options.no_masks = given->contains("no-masks");
  options.no_data = given->contains("no-data");
  options.cache = given->contains("cache");
  if (given->contains("in-memory")) options.run.out.clear();
  return options;
}

// Rows of a fixed linear relation, each a pure function of its number; `ids` is as long as its batch is wide, in each
// second row padded behind the first one.
Dataset rows_of(const ToyOptions& options, int64_t first, int64_t rows) {
  const auto write = [per_batch = options.run.global_batch, widths = options.widths](const RowView& row,
                                                                                     RowWriter& out) {
    const auto number = row.value<int64_t>("row");
    const testing_models::RegressionBatch values(1, static_cast<uint64_t>(number));
    out.set_values<float>("x", values.x);
    out.set("y", values.y[0]);
    std::vector<int32_t> ids(static_cast<size_t>(1 + number / per_batch % widths), 7);
    if (number % 2 == 1) std::fill(ids.begin() + 1, ids.end(), 0);
    out.set_values<int32_t>("ids", ids);
  };
  return Dataset::range(first, first + rows, 1, "row")
      .map({.name = "row",
            .writes = {{.name = "x", .dtype = DType::kFloat32, .shape = {5}},
                       {.name = "y", .dtype = DType::kFloat32, .shape = {}},
                       {.name = "ids", .dtype = DType::kInt32, .shape = {kVaries}}},
            .function = write,
            .keep_others = false});
}

RunParts parts_of(const ToyOptions& options, const testing_models::Regression& model) {
  if (options.no_data) throw MissingData("there are no rows");
  const int64_t batch = options.run.global_batch;
  if (options.rows < batch && !options.keep_remainder) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} rows are less than a batch of {}", options.rows, batch));
  }
  const Dataset rows = rows_of(options, 0, options.rows);
  RunData data{.training = (options.cache ? rows.cache() : rows)
                               .padded_batch(batch, {.drop_remainder = !options.keep_remainder})
                               .repeat(),
               .evaluation = rows_of(options, options.rows, 20).padded_batch(batch),
               .metrics = [] { return metrics_of(Spearman({.predictions = "prediction", .labels = "y"})); },
               .higher_is_better = {"spearman"},
               .description = fmt::format("{} rows", options.rows),
               .batches_per_epoch = (options.rows + (options.keep_remainder ? batch - 1 : 0)) / batch,
               .rows_per_epoch = options.rows,
               .masks = {"ids"},
               .max_shapes = options.max_shapes,
               .look = [](const BatchView& row) -> std::vector<std::string> {
                 return {fmt::format("a row of {}\x1b ids", row.feature("ids").row_size())};
               }};
  if (options.no_evaluation) data.evaluation.reset();
  if (options.no_masks) data.masks.clear();
  return {.trained = {.model = model,
                      .save_description =
                          [text = options.tokenizer](const std::string& directory) {
                            write_atomically(directory + "/config.json", "{}\n");
                            if (!text.empty()) write_atomically(directory + "/tokenizer.json", text);
                          },
                      .save_weights =
                          [&model](const std::string& directory, std::span<const float> weights) {
                            write_safetensors(directory + "/model.safetensors",
                                              parameter_tensors(model.layout(), weights), {{"format", "pt"}});
                          }},
          .data = std::move(data)};
}

int run(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) return 0;
  testing_models::Regression model;
  model.description = "regression";
  model.before_step = [at = options->kill_at_batch](const ReplicaContext& context) {
    if (context.batch == at) ::kill(::getpid(), SIGKILL);
  };
  if (options->run.check) return check_run(options->run, [&] { return parts_of(*options, model); });
  const RunParts parts = parts_of(*options, model);
  TrainingRun training("toy_run", options->run);
  return training.train(parts.trained, parts.data, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("toy_run", [&] { return run(argc, argv); });
}
