// Trains a dense head on the features of a frozen network, by a loop of its own; see train_frozen_features --help and
// docs/frozen_features.md.
#include <algorithm>
#include <functional>
#include <iostream>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "examples/frozen_features/feature_set.h"
#include "examples/frozen_features/frozen_head.h"
#include "examples/frozen_features/own_loop.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/json/names.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/metrics/confusion_matrix.h"
#include "millrace/trainer/optimizers/adam.h"
#include "millrace/trainer/pipeline_source.h"
#include "millrace/trainer/predictor.h"
#include "millrace/trainer/run/output_folder.h"
#include "millrace/trainer/step/distributor.h"

namespace {

using namespace millrace;
namespace po = boost::program_options;

constexpr const char* kAbout =
    "Trains a dense sigmoid head on the features that prepare_frozen_features wrote, and says how well it tells the "
    "classes\n"
    "of the pictures to test on. Ctrl-C finishes the step, leaves a checkpoint and exits with 130.";
constexpr size_t kExamples = 3;
constexpr size_t kTestBatch = 256;

struct Options {
  LoopOptions loop = {.out = "frozen_features", .steps = 5000, .report_every = 500, .checkpoint_every = 500};
  std::string set;  // folder; empty: OUT/features
  int64_t global_batch = 32;
  int64_t shuffle = 1 << 14;
  double learning_rate = 1e-2;
  double weight_decay = 0;
  std::string resume;
  bool overwrite = false;
  bool json = false;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  LoopOptions& loop = options.loop;
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("out", po::value(&loop.out)->default_value(loop.out), "folder of the run, a local one: checkpoints/ and model/")
      ("set", po::value(&options.set), "folder that prepare_frozen_features wrote (default: OUT/features)")
      ("resume", po::value(&options.resume), "last: go on from the newest checkpoint in --out with the same options; where "
       "there is none begin anew")
      ("overwrite", "give up an earlier run in --out")
      ("steps", whole_number(loop.steps, {1, limits::kCount}), "updates of the weights in all, those before a checkpoint "
       "included")
      ("global-batch", whole_number(options.global_batch, {1, limits::kRows}), "rows of a step")
      ("replicas", whole_number(loop.replicas, {1, kMostReplicas}), "parts that a batch is split into")
      ("shuffle", whole_number(options.shuffle, {1, limits::kRows}), "rows in the shuffle buffer")
      ("learning-rate", real_number(options.learning_rate, {0, 1000}), "of Adam; it falls along a line to 0")
      ("weight-decay", real_number(options.weight_decay, {0, 1000}), "decoupled, of the matrix")
      ("checkpoint-every", whole_number(loop.checkpoint_every, {1, limits::kCount}), "steps; and at the end")
      ("report-every", whole_number(loop.report_every, {1, limits::kCount}), "steps; and at the end")
      ("seed", whole_number(loop.seed, {0, limits::kAny}), "of the order of the rows")
      ("threads", whole_number(loop.threads, {0, limits::kThreads}), "0: one for each core. The weights do not depend on "
       "it")
      ("json", "one JSON object instead of text at the end");
  // clang-format on
  const auto given =
      parse_command_line(argc, argv, {.name = "train_frozen_features", .about = kAbout, .usage = "[options]"}, visible);
  if (!given) return std::nullopt;
  require(!loop.out.empty(), "--out is empty");
  require(options.resume.empty() || options.resume == "last",
          fmt::format("--resume is '{}', must be last", options.resume));
  options.overwrite = given->contains("overwrite");
  require(options.resume.empty() || !options.overwrite, "--overwrite begins anew, and --resume goes on");
  options.json = given->contains("json");
  if (options.set.empty()) options.set = loop.out + "/features";
  return options;
}

// What the head says of the pictures to test on.
struct TestReport {
  LossSum loss = {};
  ConfusionMatrix matrix;
  nlohmann::ordered_json examples = nlohmann::ordered_json::array();  // the first ones, the most probable class first
};

TestReport test(const FrozenHead& model, const FeatureSet& set, const Options& options,
                std::span<const float> weights) {
  TestReport report{.matrix = ConfusionMatrix(set.classes)};
  const std::vector<std::string> paths = picture_paths(options.set, FeatureSplit::kTest);
  const size_t classes = set.classes.size();
  Predictor predictor(model, weights, {.replicas = options.loop.replicas, .threads = options.loop.threads});
  PipelineSource source(
      feature_rows(options.set, set, FeatureSplit::kTest).batch(kTestBatch).start({.threads = options.loop.threads}));
  size_t number = 0;
  predictor.predict(source, [&](const GlobalBatch& batch, const Predictions& predictions) {
    const std::span<const float> labels = batch.view.feature("label").values<float>();
    const std::span<const float> probabilities = predictions.values<float>("probabilities");
    report.loss.sum += predictions.result.sum_loss;
    report.loss.weight += predictions.result.weight;
    for (const int32_t said : predictions.values<int32_t>("class")) {
      const size_t row = number++ % kTestBatch;
      const auto label = labels.subspan(row * classes, classes);
      const int64_t truth = std::ranges::max_element(label) - label.begin();
      report.matrix.add(truth, said);
      if (report.examples.size() == kExamples) continue;
      std::vector<std::pair<float, std::string>> says;
      for (size_t i = 0; i < classes; ++i) says.emplace_back(probabilities[row * classes + i], set.classes[i]);
      std::ranges::stable_sort(says, std::greater(), &std::pair<float, std::string>::first);
      nlohmann::ordered_json by_class;
      for (const auto& [probability, name] : says) by_class[name] = probability;
      report.examples.push_back(
          {{"picture", paths.at(number - 1)}, {"class", set.classes[static_cast<size_t>(truth)]}, {"says", by_class}});
    }
  });
  return report;
}

void print_report(const Options& options, const FeatureSet& set, const TestReport& report) {
  const std::string model = options.loop.out + "/model";
  const double loss = report.loss.sum / report.loss.weight;
  if (options.json) {
    const nlohmann::ordered_json json = {{"steps", options.loop.steps},           {"test_loss", loss},
                                         {"accuracy", *report.matrix.accuracy()}, {"test", report.matrix.to_json()},
                                         {"examples", report.examples},           {"model", model}};
    std::cout << json_line(json) << "\n";
    return;
  }
  std::cout << report.matrix.to_text()
            << fmt::format("chance {:.4f}; loss {:.4f}\n", 1.0 / static_cast<double>(set.classes.size()), loss);
  for (const auto& example : report.examples) {
    std::cout << fmt::format("{}: {}", example["picture"].get<std::string>(), example["class"].get<std::string>());
    int shown = 0;
    for (const auto& [name, probability] : example["says"].items()) {
      if (shown++ < 3)
        std::cout << fmt::format("{} {} {:.2f}", shown == 1 ? "; says" : ",", name, probability.get<float>());
    }
    std::cout << "\n";
  }
  std::cout << "written to " << model << std::endl;
}

int run(int argc, char** argv) {
  auto options = parse(argc, argv);
  if (!options) return 0;
  LoopOptions& loop = options->loop;
  const WorkerLimit limit(checked_threads(loop.threads));
  const FeatureSet set = read_feature_set(options->set);
  const FrozenHead model(set);
  const Adam adam(model.layout(), adamw(options->weight_decay, "bias"));
  const auto schedule = linear_warmup_decay({.learning_rate = options->learning_rate, .total_steps = loop.steps});
  const Dataset batches = feature_rows(options->set, set, FeatureSplit::kTrain)
                              .cache()
                              .shuffle(options->shuffle, {.seed = loop.seed})
                              .repeat()
                              .batch(options->global_batch);
  const std::vector<int64_t> parts = Distributor(loop.replicas).sizes(options->global_batch);
  loop.batches = fmt::format("{} pictures, global batch {}, {} replicas, shuffle {}, seed {}",
                             set.num_pictures(FeatureSplit::kTrain), options->global_batch, loop.replicas,
                             options->shuffle, loop.seed);

  RunOptions of_folder;
  of_folder.out = loop.out;
  of_folder.resume = options->resume;
  of_folder.overwrite = options->overwrite;
  of_folder = with_newest_checkpoint(of_folder);
  const OutputFolder folder(of_folder);
  if (of_folder.overwrite) {
    remove_directory(folder.model());
    remove_directory(folder.checkpoints());
  }
  std::cerr << fmt::format("train_frozen_features: {}; rows of the replicas: {}\n", loop.batches,
                           fmt::join(parts, " "));
  const StopSignals signals;
  TrainedState state(model.layout(), adam);
  if (!train(model, adam, *schedule, batches, loop, signals, state)) {
    std::cerr << "train_frozen_features: stopped; go on with the same options and --resume last\n";
    return signals.exit_code();
  }
  model.save(folder.model(), state.weights.span());
  print_report(*options, set, test(model, set, *options, state.weights.span()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("train_frozen_features", [&] { return run(argc, argv); });
}
