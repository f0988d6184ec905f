// Says how good questions and answers are with the models of all folds; see predict_quest --help and docs/quest.md.
#include <algorithm>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "examples/csv/csv_table.h"
#include "examples/quest/quest_data.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"
#include "millrace/formats/json/names.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/metrics/ensemble.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/pipeline_source.h"
#include "millrace/trainer/predictor.h"
#include "millrace/trainer/run/cross_validation.h"

namespace {

using namespace millrace;
namespace po = boost::program_options;

const std::map<std::string, Ensemble> kEnsembles = {
    {"logits", Ensemble::kLogits}, {"probabilities", Ensemble::kProbabilities}, {"ranks", Ensemble::kRanks}};

struct Options {
  std::string models = "quest";
  std::string shards;  // empty: no binning, and no figures
  std::string csv;     // empty: no submission
  std::string out;
  Ensemble ensemble = Ensemble::kLogits;
  bool binning = true;
  int64_t show = 3;
  int64_t global_batch = 64;
  int threads = 0;
  bool json = false;
};

struct Models {
  std::vector<std::string> folders = {};  // the best of each fold
  QuestFormat format = {};                // of all
};

void require(bool holds, const std::string& message) {
  if (!holds) throw ErrorException(ErrorCode::kInvalidArgument, message);
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  const auto set_ensemble = [&options](const std::string& name) {
    require(kEnsembles.contains(name), fmt::format("--ensemble is '{}', must be logits, probabilities or ranks", name));
    options.ensemble = kEnsembles.at(name);
  };
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("models", po::value(&options.models)->default_value(options.models), "OUT of train_quest")
      ("shards", po::value(&options.shards), "the shards that the models were trained on: print the rank correlation of "
       "each fold's validation rows and target, and choose by them how predictions are binned")
      ("csv", po::value(&options.csv), "rows to predict: qa_id, question_title, question_body, answer")
      ("out", po::value(&options.out), "the CSV with the predictions (default: MODELS/submission.csv)")
      ("ensemble", po::value<std::string>()->default_value("logits")->notifier(set_ensemble),
       "what is averaged over the models: logits, probabilities or ranks")
      ("no-binning", "leave predictions as they are")
      ("show", whole_number(options.show, {0, limits::kFew}), "print what is said of so many rows of --csv")
      ("global-batch", whole_number(options.global_batch, {1, limits::kFew}), "rows at a time")
      ("threads", whole_number(options.threads, {0, limits::kThreads}), "0: one for each core")
      ("json", "one JSON object instead of text");
  // clang-format on
  const auto given = parse_command_line(argc, argv,
                                        {.name = "predict_quest",
                                         .about = "Predicts with the best models of all folds of train_quest.",
                                         .usage = "[--shards DIR] [--csv FILE] [options]"},
                                        visible);
  if (!given) return std::nullopt;
  options.binning = !given->contains("no-binning") && !options.shards.empty();
  options.json = given->contains("json");
  require(!options.shards.empty() || !options.csv.empty(), "nothing to do: neither --shards nor --csv is given");
  if (options.out.empty()) options.out = options.models + "/submission.csv";
  return options;
}

Models find_models(const std::string& out) {
  Models models{.folders = best_models_of_folds(out)};
  models.format = read_quest_format(models.folders.front());
  for (const std::string& folder : models.folders) {
    require(read_quest_format(folder) == models.format,
            fmt::format("{} is a model of other targets, limits or tokenizer than {}", folder, models.folders.front()));
  }
  return models;
}

struct Said {
  std::vector<float> logits = {};  // [rows, targets]
  std::vector<float> labels = {};  // where there are some
};

Said say(const Options& options, const Models& models, const std::string& folder, const Dataset& batches) {
  const QuestionAnswerRoberta model(load_roberta_config(folder), models.format.by_head());
  const FlatBuffer weights = load_parameters(folder, model.layout());
  Predictor predictor(model, weights.span(), {.threads = options.threads});
  PipelineSource source(batches.start({.threads = options.threads}));
  Said said;
  predictor.predict(source, [&](const GlobalBatch& batch, const Predictions& predictions) {
    std::ranges::copy(predictions.values<float>("logits"), std::back_inserter(said.logits));
    const FeatureView* labels = batch.view.find("labels");
    if (labels != nullptr) std::ranges::copy(labels->values<float>(), std::back_inserter(said.labels));
  });
  return said;
}

// Of rows that the folds' models have not seen, on the scale of the predictions that are binned.
BinningGain gain_of(const Options& options, const Models& models) {
  const QuestStatistics set = read_quest_set(options.shards);
  const size_t num_folds = models.folders.size();
  const size_t columns = set.format.targets.size();
  require(set.format == models.format,
          fmt::format("{} has other targets, limits or tokenizer than {}", options.shards, models.folders.front()));
  require(set.fold_rows.size() == num_folds,
          fmt::format("{} has {} folds, and models are there for {}", options.shards, set.fold_rows.size(), num_folds));
  std::vector<FoldScores> folds;
  for (size_t fold = 0; fold < num_folds; ++fold) {
    const QuestData data(options.shards, set, static_cast<int64_t>(fold),
                         {.global_batch = options.global_batch, .dynamic = !set.padded});
    const Said said = say(options, models, models.folders[fold], data.validation_batches());
    const std::vector<double> scores = ensemble(options.ensemble, {&said.logits, 1}, std::ssize(set.format.targets));
    FoldScores& by_column = folds.emplace_back();
    by_column.scores.resize(columns);
    by_column.labels.resize(columns);
    for (size_t i = 0; i < scores.size(); ++i) {
      by_column.scores[i % columns].push_back(scores[i]);
      by_column.labels[i % columns].push_back(said.labels[i]);
    }
  }
  return binning_gain(folds);
}

// [rows, targets] in [0, 1].
std::vector<double> predict(const Options& options, const Models& models, const std::vector<QuestRow>& rows,
                            const std::vector<int>& bins) {
  const SequenceEncoder encoder(models.folders.front() + "/tokenizer.json", models.format.limits);
  std::vector<std::string> records;
  Sequences sequences;
  for (const QuestRow& row : rows) {
    encoder.encode(row, sequences);
    records.push_back(quest_record(sequences, {}, encoder));
  }
  const Dataset examples = Dataset::rows({{.name = "record", .values = std::move(records)}});
  const Dataset batches =
      parse_quest(examples, models.format, /*padded=*/true, /*labelled=*/false).batch(options.global_batch);
  std::vector<std::vector<float>> logits;
  for (const std::string& folder : models.folders) logits.push_back(say(options, models, folder, batches).logits);
  const std::vector<double> values = ensemble(options.ensemble, logits, std::ssize(models.format.targets));
  return options.binning ? binned_columns(values, bins) : values;
}

void write_submission(const std::string& path, const std::vector<QuestTarget>& targets,
                      const std::vector<QuestRow>& rows, const std::vector<double>& values) {
  std::string text = "qa_id";
  for (const QuestTarget& target : targets) text += fmt::format(",{}", csv_field(target.name));
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % targets.size() == 0) text += fmt::format("\n{}", csv_field(rows[i / targets.size()].id));
    text += fmt::format(",{}", static_cast<float>(values[i]));
  }
  write_atomically(path, fmt::format("{}\n", text));
}

void print_rows(const Options& options, const std::vector<QuestTarget>& targets, const std::vector<QuestRow>& rows,
                const std::vector<double>& values) {
  for (size_t row = 0; row < std::min(rows.size(), static_cast<size_t>(options.show)); ++row) {
    std::multimap<double, std::string, std::greater<>> said;  // of equal values those that come first
    for (size_t i = 0; i < targets.size(); ++i) said.emplace(values[row * targets.size() + i], targets[i].name);
    std::cout << fmt::format("\n{}: {}\n ", rows[row].id, rows[row].title);
    size_t count = 0;
    for (const auto& [value, name] : said) {
      if (count++ < 5) std::cout << fmt::format("  {} {:.2f}", name, value);
    }
    std::cout << "\n";
  }
  std::cout << fmt::format("\n{} rows predicted: {}\n", rows.size(), options.out);
}

int run(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) return 0;
  const WorkerLimit limit(checked_threads(options->threads));
  const Models models = find_models(options->models);
  const std::vector<QuestTarget>& targets = models.format.targets;
  QuestRows rows;
  if (!options->csv.empty()) rows = read_csv_rows(options->csv, std::nullopt);
  const BinningGain gain = options->shards.empty() ? BinningGain() : gain_of(*options, models);
  std::vector<std::string> names;
  names.reserve(targets.size());
  for (const QuestTarget& target : targets) names.push_back(target.name);
  if (!gain.raw.empty() && !options->json) std::cout << to_text(gain, names);
  if (!rows.rows.empty()) {
    const std::vector<double> values = predict(*options, models, rows.rows, gain.bins);
    write_submission(options->out, targets, rows.rows, values);
    if (!options->json) print_rows(*options, targets, rows.rows, values);
  }
  if (!options->json) return 0;
  nlohmann::ordered_json json = {{"targets", names},
                                 {"spearman", gain.raw},
                                 {"binned_spearman", gain.binned},
                                 {"bins", gain.bins},
                                 {"rows", rows.rows.size()}};
  std::cout << json_line(json) << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("predict_quest", [&] { return run(argc, argv); });
}
